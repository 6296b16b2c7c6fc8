// Chatting: send, stream, stop, regenerate, edit, versions.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  becomes,
  closeBrowser,
  hasCount,
  lastResponse,
  responded,
  screenshot,
  sendMessage,
  visit,
} from "./browser.mjs";
import { SLOW, startServer } from "./server.mjs";

let server;
before(async () => {
  server = await startServer(["--temperature", "0.7"]);
});
after(async () => {
  await closeBrowser();
  await server.kill();
});

/** Settings with which a response continues until the context is full. */
const ENDLESS = { ignoreEos: true };

/** Settings with which a response is too long to arrive between two frames. */
const LONG = { ...ENDLESS, numbers: { max_tokens: 100 } };

test("a response streams and shows its statistics", async (t) => {
  const server = await startServer(SLOW);
  t.after(() => server.kill());
  const page = await visit(server.url, { settings: LONG });
  await page.getByText("Chat with wf-demo").waitFor();
  await screenshot(page, "welcome");
  // Recorded in the page: the response may end before the test could ask for it.
  await page.evaluate(() => {
    new MutationObserver(() => {
      const text = document.querySelector("article.assistant[aria-busy=true] .markdown")?.textContent;
      if (text?.length > 20) window.hasStreamed = true;
    }).observe(document.body, { childList: true, characterData: true, subtree: true });
  });
  await page.getByLabel("Message", { exact: true }).fill("Tell me a story");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.hasStreamed);
  await screenshot(page, "streaming");
  await responded(page);
  const stats = await page.locator(".stats").last().innerText();
  assert.match(stats, /[\d.]+ tok\/s/);
  assert.match(stats, /prompt \d+/);
  await hasCount(page.getByLabel(/^Context: [\d,]+ of 2,048 tokens$/), 1);
  await screenshot(page, "response");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a response can be stopped by button and by key, and its text is kept", async (t) => {
  const server = await startServer(SLOW);
  t.after(() => server.kill());
  const page = await visit(server.url, { settings: ENDLESS });
  for (const stop of [
    () => page.getByRole("button", { name: "Stop" }).click(),
    () => page.keyboard.press("Escape"),
  ]) {
    await page.getByLabel("Message", { exact: true }).fill("Go on and on");
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      () => document.querySelector("[aria-busy=true] .markdown")?.textContent?.length > 40,
    );
    await stop();
    await responded(page);
    await hasCount(page.getByText("Stopped.", { exact: true }), 1);
    assert.ok((await lastResponse(page).innerText()).length > 20);
    await page.getByRole("button", { name: "New chat" }).click();
  }
  // The server stops generating.
  await page.waitForFunction(async () => (await (await fetch("/health")).json()).running === 0);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a regenerated response is another version", async () => {
  const page = await visit(server.url);
  await sendMessage(page, "Tell me a story");
  const first = await lastResponse(page).innerText();
  await page.getByRole("button", { name: "Regenerate" }).click();
  await responded(page);
  const second = await lastResponse(page).innerText();
  assert.notEqual(second, first);
  await page.getByLabel("Version 2 of 2").waitFor();
  await sendMessage(page, "And then?");
  await hasCount(page.locator("article"), 4);
  // The first version has no messages below it; the second keeps its own.
  await page.getByRole("button", { name: "Previous version" }).click();
  await becomes(() => lastResponse(page).innerText(), first);
  await hasCount(page.locator("article"), 2);
  await screenshot(page, "versions");
  await page.getByRole("button", { name: "Next version" }).click();
  await hasCount(page.locator("article"), 4);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a message can be edited, and the original is kept", async () => {
  const page = await visit(server.url);
  await sendMessage(page, "Tell me about a dog");
  await page.getByLabel("Message", { exact: true }).press("ArrowUp");
  const editor = page.getByLabel("Edit your message");
  await screenshot(page, "edit");
  await editor.press("Escape");
  await hasCount(editor, 0);
  await page.getByRole("button", { name: "Edit and resend" }).click();
  await editor.fill("Tell me about a cat");
  await editor.press("Enter");
  await responded(page);
  await becomes(() => page.locator(".bubble").innerText(), "Tell me about a cat");
  await page.getByRole("button", { name: "Previous version" }).first().click();
  await becomes(() => page.locator(".bubble").innerText(), "Tell me about a dog");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the caret of an editor is set before the user can select its text", async () => {
  const page = await visit(server.url);
  await sendMessage(page, "Tell me about a dog");
  const selected = await page.evaluate(async () => {
    document.querySelector("[aria-label='Edit and resend']").click();
    // Rendering happens in a microtask. No frame is painted until the text is selected.
    let editor = null;
    for (let turn = 0; turn < 100 && !editor; turn += 1) {
      await null;
      editor = document.querySelector(".editing textarea");
    }
    editor.select();
    const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    await frame();
    await frame();
    return editor.value.slice(editor.selectionStart, editor.selectionEnd);
  });
  assert.equal(selected, "Tell me about a dog");
  await page.context().close();
});

test("a request contains the conversation so far", async () => {
  // Longer than a K/V page, the unit of the prefix cache.
  const system = "Be kind and tell of a little girl and her dog. ".repeat(4).trim();
  const page = await visit(server.url, { settings: { system } });
  const bodies = [];
  page.on("request", (request) => request.method() === "POST" && bodies.push(request.postDataJSON()));
  await sendMessage(page, "One");
  const response = await lastResponse(page).evaluate((node) => node.textContent);
  await sendMessage(page, "Two");
  const roles = bodies[1].messages.map((message) => message.role);
  assert.deepEqual(roles, ["system", "user", "assistant", "user"]);
  assert.equal(bodies[1].messages[0].content, system);
  assert.equal(bodies[1].messages[2].content.replace(/\s/g, ""), response.replace(/\s/g, ""));
  // The second request reuses the prefix of the first.
  assert.match(await page.locator(".stats").last().innerText(), /\d+ cached/);
  await page.context().close();
});
