// Chats that branch, have a system prompt of their own, and become Markdown documents.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { becomes, closeBrowser, hasCount, screenshot, sendMessage, visit } from "./browser.mjs";
import { chunk, end, startMock } from "./mock.mjs";

let server;
let bodies = [];
before(async () => {
  server = await startMock({
    respond: (text, send, body) => {
      bodies.push(body);
      send(chunk(`Reply to ${text}`));
      send(end(3));
    },
  });
});
after(async () => {
  await closeBrowser();
  server.close();
});

const texts = (page) => page.locator("article .bubble, article .markdown").allInnerTexts();

test("a chat continues from any response, and what followed is kept", async () => {
  const page = await visit(server.url);
  for (const text of ["One", "Two", "Three"]) await sendMessage(page, text);
  const branch = page.getByRole("button", { name: "Branch from here" });
  await hasCount(branch, 2);
  await branch.first().click();
  await page.getByText("The next message begins a branch here.").waitFor();
  await becomes(() => texts(page), ["One", "Reply to One"]);
  await becomes(() => page.evaluate(() => document.activeElement.id), "composer");
  await screenshot(page, "branch");
  await assertAccessible(page, "branch");
  await page.keyboard.press("Escape");
  await page.getByText("Reply to Three", { exact: true }).waitFor();
  await branch.first().click();
  bodies = [];
  await sendMessage(page, "Other");
  const sent = bodies[0].messages.map(({ content }) => content);
  assert.deepEqual(sent, ["One", "Reply to One", "Other"]);
  await becomes(() => page.locator(".versions").innerText(), "2 of 2");
  for (const reload of [false, true]) {
    if (reload) await page.reload();
    await page.getByRole("button", { name: "Previous version" }).click();
    await page.getByText("Reply to Three", { exact: true }).waitFor();
    await becomes(async () => (await texts(page)).length, 6);
    await page.getByRole("button", { name: "Next version" }).click();
    await page.getByText("Reply to Other", { exact: true }).waitFor();
    await becomes(() => texts(page), ["One", "Reply to One", "Other", "Reply to Other"]);
  }
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export", exact: true }).click(),
  ]);
  const [chat] = JSON.parse(readFileSync(await download.path(), "utf8")).chats;
  assert.equal(chat.messages.length, 8, "all branches are exported");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("each chat has its own system prompt", async () => {
  const page = await visit(server.url, { settings: { system: "Be kind" } });
  const prompt = page.getByLabel("System prompt of this chat");
  const systems = () => bodies.map(({ messages }) => messages.find(({ role }) => role === "system")?.content);
  bodies = [];
  await page.getByText("System prompt: Be kind").click();
  await prompt.fill("Be brief");
  await screenshot(page, "system-prompt");
  await assertAccessible(page, "system prompt");
  await sendMessage(page, "One");
  await page.getByText("System prompt: Be brief").click();
  await prompt.fill("Be loud");
  await sendMessage(page, "Two");
  await page.keyboard.press("Control+Shift+O");
  await page.getByText("System prompt: Be kind").waitFor();
  await sendMessage(page, "Three");
  assert.deepEqual(systems(), ["Be brief", "Be loud", "Be kind"]);
  await page.goBack();
  await page.getByText("System prompt: Be loud").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a chat is exported as Markdown", async () => {
  const page = await visit(server.url);
  await sendMessage(page, "Tell me more");
  await page.locator(".chat-item").first().hover();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export Tell me more as Markdown" }).click(),
  ]);
  assert.equal(download.suggestedFilename(), "tell-me-more.md");
  assert.equal(
    readFileSync(await download.path(), "utf8"),
    "# Tell me more\n\n## User\n\nTell me more\n\n## Assistant\n\nReply to Tell me more\n",
  );
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
