// The history: found again after a reload, searched, renamed, deleted, written to a file and read back.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { ask, closeBrowser, lastReply, shoot, visit } from "./browser.mjs";
import { startServer } from "./server.mjs";

let server;
before(async () => {
  server = await startServer();
});
after(async () => {
  await closeBrowser();
  await server.kill();
});

const chats = (page) => page.getByRole("navigation", { name: "Chats" }).getByRole("listitem");

async function withTwoChats() {
  const page = await visit(server.url);
  await ask(page, "Tell me about a dog");
  await page.keyboard.press("Control+Shift+O");
  await ask(page, "Tell me about the sea");
  return page;
}

test("a reload finds everything where it was", async () => {
  const page = await withTwoChats();
  const reply = await lastReply(page).innerText();
  const stats = await page.locator(".stats").last().innerText();
  await page.reload();
  await page.getByText("Tell me about the sea").first().waitFor();
  assert.equal(await lastReply(page).innerText(), reply);
  assert.equal(await page.locator(".stats").last().innerText(), stats);
  assert.deepEqual(await chats(page).allInnerTexts(), ["Tell me about the sea", "Tell me about a dog"]);
  await page.goBack();
  await page.locator(".bubble", { hasText: "Tell me about a dog" }).waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("chats are searched, renamed and deleted", async () => {
  const page = await withTwoChats();
  await page.keyboard.press("Control+K");
  await page.keyboard.type("DOG tell");
  await chats(page).filter({ hasText: "sea" }).waitFor({ state: "detached" });
  assert.deepEqual(await chats(page).allInnerTexts(), ["Tell me about a dog"]);
  await shoot(page, "search");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("zyxwv");
  await page.getByText("Nothing found.").waitFor();
  await page.getByLabel("Search the history").fill("");

  await chats(page).first().hover();
  await page.getByRole("button", { name: "Rename Tell me about the sea" }).click();
  await page.getByLabel("Name of the chat").fill("Waves");
  await page.keyboard.press("Enter");
  await chats(page).filter({ hasText: "Waves" }).waitFor();

  await chats(page).nth(1).hover();
  await page.getByRole("button", { name: "Delete Tell me about a dog" }).click();
  await shoot(page, "delete");
  await page.getByRole("button", { name: "Keep" }).click();
  assert.equal(await chats(page).count(), 2);
  await chats(page).nth(1).hover();
  await page.getByRole("button", { name: "Delete Tell me about a dog" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.reload();
  await chats(page).first().waitFor();
  assert.deepEqual(await chats(page).allInnerTexts(), ["Waves"]);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("what is exported is imported elsewhere as it was", async () => {
  const page = await withTwoChats();
  await page.getByRole("button", { name: "Write again" }).click();
  await page.getByLabel("version 2 of 2").waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export" }).click(),
  ]);
  const file = readFileSync(await download.path());
  await page.context().close();

  const other = await visit(server.url);
  const input = other.locator("input[type=file]");
  await input.setInputFiles({ name: "chats.json", mimeType: "application/json", buffer: file });
  await other.getByText("2 chats imported.").waitFor();
  await other.getByRole("link", { name: "Tell me about the sea" }).click();
  await other.getByLabel("version 2 of 2").waitFor();
  await shoot(other, "imported");
  await input.setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from("{}") });
  await other.getByText("Not imported: this file has no conversations of this page.").waitFor();
  assert.equal(await chats(other).count(), 2);
  assert.deepEqual(other.faults, []);
  await other.context().close();
});

test("another tab shows what this one writes", async () => {
  const page = await visit(server.url);
  const other = await page.context().newPage();
  await other.goto(server.url);
  await ask(page, "Tell me about a bird");
  await chats(other).filter({ hasText: "Tell me about a bird" }).waitFor();
  await page.context().close();
});
