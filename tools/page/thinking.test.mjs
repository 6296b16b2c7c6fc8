// Thinking: shown open while it streams, folded afterwards with its time, and not sent back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { assertAccessible } from "./accessible.mjs";
import {
  becomes,
  closeBrowser,
  hasCount,
  hasTexts,
  lastResponse,
  responded,
  screenshot,
  sendMessage,
  visit,
} from "./browser.mjs";
import { chunk, end, startMock, thought } from "./mock.mjs";

const THOUGHTS = "They ask for a sum.\n<img src=x onerror=window.pwned=1>\nSeven and five: \u202Etwelve.";

let server;
let bodies = [];
/** Called after the thinking was sent; the answer waits for it. */
let beforeAnswer = async () => {};
before(async () => {
  server = await startMock({
    respond: async (_, send, body) => {
      bodies.push(body);
      for (const word of THOUGHTS.split(/(?= )/)) send(thought(word));
      // A sleep never ends early by as much as the page rounds to.
      await setTimeout(1100);
      send(thought(" Done."));
      await beforeAnswer();
      send(chunk("It is **12**."));
      send(end(20));
    },
  });
});
after(async () => {
  await closeBrowser();
  server.close();
});

const summary = (page) => page.locator("article.assistant summary").last();
const thoughts = (page) => page.locator(".thinking-text").last();

test("thinking is open while it streams and folded afterwards", async () => {
  const page = await visit(server.url);
  let answer;
  const asked = new Promise((resolve) => {
    beforeAnswer = () => {
      resolve();
      return new Promise((go) => (answer = go));
    };
  });
  await page.getByLabel("Message", { exact: true }).fill("7 + 5?");
  await page.keyboard.press("Enter");
  await asked;
  await page.getByText(/^Thinking for [\d.]+ s$/).waitFor();
  await thoughts(page).getByText("Done.").waitFor();
  await becomes(() => thoughts(page).isVisible(), true);
  await screenshot(page, "thinking");
  answer();
  await responded(page);
  beforeAnswer = async () => {};
  assert.match(await summary(page).innerText(), /^Thought for [1-9][\d.]* s$/);
  await becomes(() => thoughts(page).isVisible(), false);
  await becomes(() => lastResponse(page).innerText(), "It is 12.");
  await screenshot(page, "thought");
  // It opens by keyboard, stays safe, and survives a reload.
  for (const reload of [false, true]) {
    if (reload) await page.reload();
    await summary(page).focus();
    await page.keyboard.press("Enter");
    await thoughts(page).getByText("[U+202E]twelve").waitFor();
    await becomes(() => thoughts(page).isVisible(), true);
    await hasCount(page.locator("article img"), 0);
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  }
  await assertAccessible(page, "thinking");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => !document.querySelector(".thinking").open);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("thinking is not sent back", async () => {
  const page = await visit(server.url);
  bodies = [];
  await sendMessage(page, "One");
  await sendMessage(page, "Two");
  assert.deepEqual(bodies[1].messages, [
    { role: "user", content: "One" },
    { role: "assistant", content: "It is **12**." },
    { role: "user", content: "Two" },
  ]);
  await page.context().close();
});

test("the user can fold thinking while it streams", async () => {
  const page = await visit(server.url);
  let answer;
  beforeAnswer = () => new Promise((go) => (answer = go));
  await page.getByLabel("Message", { exact: true }).fill("7 + 5?");
  await page.keyboard.press("Enter");
  await summary(page).click();
  await thoughts(page).getByText("Done.").waitFor({ state: "attached" });
  assert.ok(!(await thoughts(page).isVisible()), "new text does not open it again");
  answer();
  beforeAnswer = async () => {};
  await responded(page);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("models that think have a switch, which is stored and sent", async (t) => {
  const thinking = {
    efforts: [
      { name: "none", max_tokens: 0 },
      { name: "low", max_tokens: 512 },
      { name: "high", max_tokens: null },
    ],
  };
  const sent = [];
  const thinker = await startMock({
    props: { thinking },
    respond: async (_, send, body) => {
      sent.push(body.reasoning_effort);
      send(chunk("It is 12."));
      send(end(4));
    },
  });
  t.after(() => thinker.close());
  const page = await visit(thinker.url);
  const choice = page.getByLabel("Thinking");
  const labels = ["as the model does", "off", "low (up to 512 tokens)", "high (no limit)"];
  await hasTexts(choice.locator("option"), labels);
  await sendMessage(page, "One");
  await choice.selectOption("none");
  await sendMessage(page, "Two");
  await page.reload();
  await becomes(() => choice.inputValue(), "none");
  await choice.selectOption("low");
  await sendMessage(page, "Three");
  assert.deepEqual(sent, [undefined, "none", "low"]);
  await assertAccessible(page, "thinking switch");
  await screenshot(page, "thinking-switch");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("other models have none, and a stored choice is not sent to them", async () => {
  const page = await visit(server.url, { settings: { thinking: "low" } });
  bodies = [];
  await sendMessage(page, "One");
  await hasCount(page.getByLabel("Thinking", { exact: true }), 0);
  assert.equal(bodies[0].reasoning_effort, undefined);
  await page.context().close();
});
