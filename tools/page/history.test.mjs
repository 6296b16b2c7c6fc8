// Chat history: reload, search, rename, delete, export and import.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import {
  becomes,
  closeBrowser,
  hasCount,
  hasTexts,
  lastResponse,
  screenshot,
  sendMessage,
  visit,
} from "./browser.mjs";
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
  await sendMessage(page, "Tell me about a dog");
  await page.keyboard.press("Control+Shift+O");
  await sendMessage(page, "Tell me about the sea");
  return page;
}

test("a reload restores the chats", async () => {
  const page = await withTwoChats();
  const response = await lastResponse(page).innerText();
  const stats = await page.locator(".stats").last().innerText();
  await page.reload();
  await page.getByText("Tell me about the sea").first().waitFor();
  await becomes(() => lastResponse(page).innerText(), response);
  await becomes(() => page.locator(".stats").last().innerText(), stats);
  await hasTexts(chats(page), ["Tell me about the sea", "Tell me about a dog"]);
  await page.goBack();
  await page.locator(".bubble", { hasText: "Tell me about a dog" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

/** Holds back the opening of the database until the page calls `openDatabase()`. */
function delayDatabase() {
  const isOpen = new Promise((resolve) => (window.openDatabase = resolve));
  const { open } = IDBFactory.prototype;
  IDBFactory.prototype.open = function (...args) {
    const request = open.apply(this, args);
    Object.defineProperty(request, "onsuccess", {
      set: (handler) => request.addEventListener("success", () => void isOpen.then(handler)),
    });
    return request;
  };
}

test("a chat that begins before the history is read is kept", async () => {
  const page = await visit(server.url, { script: delayDatabase });
  await sendMessage(page, "Tell me about a dog");
  const response = await lastResponse(page).innerText();
  await page.evaluate(() => window.openDatabase());
  // The next one can be listed only if the history has been read.
  await page.keyboard.press("Control+Shift+O");
  await page.locator(".welcome").waitFor();
  await sendMessage(page, "Tell me about the sea");
  await hasTexts(chats(page), ["Tell me about the sea", "Tell me about a dog"]);
  await chats(page).getByText("Tell me about a dog").click();
  await page.locator(".bubble", { hasText: "Tell me about a dog" }).waitFor();
  await becomes(() => lastResponse(page).innerText(), response);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("chats are searched, renamed and deleted", async () => {
  const page = await withTwoChats();
  await page.keyboard.press("Control+K");
  await page.keyboard.type("DOG tell");
  await chats(page).filter({ hasText: "sea" }).waitFor({ state: "detached" });
  await hasTexts(chats(page), ["Tell me about a dog"]);
  await screenshot(page, "search");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("zyxwv");
  await page.getByText("No chats found.").waitFor();
  await page.getByLabel("Search chats").fill("");

  await chats(page).first().hover();
  await page.getByRole("button", { name: "Rename Tell me about the sea" }).click();
  await page.getByLabel("Chat title").fill("Waves");
  await page.keyboard.press("Enter");
  await chats(page).filter({ hasText: "Waves" }).waitFor();

  await chats(page).nth(1).hover();
  await page.getByRole("button", { name: "Delete Tell me about a dog" }).click();
  await screenshot(page, "delete");
  await page.getByRole("button", { name: "Cancel" }).click();
  await hasCount(chats(page), 2);
  await chats(page).nth(1).hover();
  await page.getByRole("button", { name: "Delete Tell me about a dog" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await hasCount(chats(page), 1);
  await page.reload();
  await chats(page).first().waitFor();
  await hasTexts(chats(page), ["Waves"]);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("exported chats can be imported in another browser", async () => {
  const page = await withTwoChats();
  await page.getByRole("button", { name: "Regenerate" }).click();
  await page.getByLabel("Version 2 of 2").waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export" }).click(),
  ]);
  const file = readFileSync(await download.path());
  await page.context().close();

  const other = await visit(server.url);
  const input = other.getByLabel("Import");
  await input.setInputFiles({ name: "chats.json", mimeType: "application/json", buffer: file });
  await other.getByText("2 chats imported.").waitFor();
  await other.getByRole("link", { name: "Tell me about the sea" }).click();
  await other.getByLabel("Version 2 of 2").waitFor();
  await screenshot(other, "imported");
  await input.setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from("{}") });
  await other.getByText("Import failed: the file is not a chat export").waitFor();
  await hasCount(chats(other), 2);
  assert.deepEqual(other.problems, []);
  await other.context().close();
});

test("another tab shows new chats", async () => {
  const page = await visit(server.url);
  const other = await page.context().newPage();
  await other.goto(server.url);
  await sendMessage(page, "Tell me about a bird");
  await chats(other).filter({ hasText: "Tell me about a bird" }).waitFor();
  await page.context().close();
});
