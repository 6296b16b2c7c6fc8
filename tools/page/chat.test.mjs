// Talking: send, stream, stop, write again, edit, versions.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, closeBrowser, lastReply, replied, shoot, visit } from "./browser.mjs";
import { startServer } from "./server.mjs";

let server;
before(async () => {
  server = await startServer(["--temperature", "0.7"]);
});
after(async () => {
  await closeBrowser();
  await server.kill();
});

test("a reply streams in and says what it cost", async () => {
  const page = await visit(server.url);
  await page.getByText("Talk with wf-demo").waitFor();
  await shoot(page, "welcome");
  await page.getByLabel("Message", { exact: true }).fill("Tell me a story");
  await page.keyboard.press("Enter");
  // Text is there while the reply is not yet done.
  await page.waitForFunction(() => {
    const article = document.querySelector("article.assistant[aria-busy=true]");
    return article?.querySelector(".markdown")?.textContent?.length > 20;
  });
  await shoot(page, "streaming");
  await replied(page);
  const stats = await page.locator(".stats").last().innerText();
  assert.match(stats, /[\d.]+ tok\/s/);
  assert.match(stats, /prompt \d+/);
  assert.equal(await page.getByLabel(/^Context: [\d,]+ of 2,048 tokens$/).count(), 1);
  await shoot(page, "reply");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

/** Settings with which a reply goes on until the context is full. */
const ENDLESS = { ignoreEos: true };

test("a reply can be stopped, by button and by key, and what there is stays", async () => {
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
    await replied(page);
    assert.equal(await page.getByText("Stopped.", { exact: true }).count(), 1);
    assert.ok((await lastReply(page).innerText()).length > 20);
    await page.getByRole("button", { name: "New chat" }).click();
  }
  // The server was told: it writes nothing more.
  await page.waitForFunction(async () => (await (await fetch("/health")).json()).running === 0);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("an answer written again is another version of it", async () => {
  const page = await visit(server.url);
  await ask(page, "Tell me a story");
  const first = await lastReply(page).innerText();
  await page.getByRole("button", { name: "Write again" }).click();
  await replied(page);
  const second = await lastReply(page).innerText();
  assert.notEqual(second, first);
  await page.getByLabel("version 2 of 2").waitFor();
  await ask(page, "And then?");
  assert.equal(await page.locator("article").count(), 4);
  // The other version has nothing below it; this one keeps what it has.
  await page.getByRole("button", { name: "Version before" }).click();
  assert.equal(await lastReply(page).innerText(), first);
  assert.equal(await page.locator("article").count(), 2);
  await shoot(page, "versions");
  await page.getByRole("button", { name: "Next version" }).click();
  assert.equal(await page.locator("article").count(), 4);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("a question can be asked otherwise, and the first way stays", async () => {
  const page = await visit(server.url);
  await ask(page, "Tell me about a dog");
  await page.getByLabel("Message", { exact: true }).press("ArrowUp");
  const editor = page.getByLabel("Edit your message");
  await shoot(page, "edit");
  await editor.press("Escape");
  assert.equal(await editor.count(), 0);
  await page.getByRole("button", { name: "Edit and send again" }).click();
  await editor.fill("Tell me about a cat");
  await editor.press("Enter");
  await replied(page);
  assert.equal(await page.locator(".bubble").innerText(), "Tell me about a cat");
  await page.getByRole("button", { name: "Version before" }).first().click();
  assert.equal(await page.locator(".bubble").innerText(), "Tell me about a dog");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("the conversation so far is what the model is asked with", async () => {
  // Longer than a page of keys and values, which is what can be found again.
  const system = "Be kind and tell of a little girl and her dog. ".repeat(4).trim();
  const page = await visit(server.url, { settings: { system } });
  const bodies = [];
  page.on("request", (request) => request.method() === "POST" && bodies.push(request.postDataJSON()));
  await ask(page, "One");
  const reply = await lastReply(page).evaluate((node) => node.textContent);
  await ask(page, "Two");
  const roles = bodies[1].messages.map((message) => message.role);
  assert.deepEqual(roles, ["system", "user", "assistant", "user"]);
  assert.equal(bodies[1].messages[0].content, system);
  assert.equal(bodies[1].messages[2].content.replace(/\s/g, ""), reply.replace(/\s/g, ""));
  // What was computed for the first is not computed again for the second.
  assert.match(await page.locator(".stats").last().innerText(), /\d+ cached/);
  await page.context().close();
});
