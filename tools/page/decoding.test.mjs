// Decoding modes: selection, blocks while they are being filled, and statistics.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
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
import { end, chunk, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

let server;
before(async () => {
  server = await startServer(["--temperature", "0"]);
});
after(async () => {
  await closeBrowser();
  await server.kill();
});

/** Sends a message and returns the settings of the request, the response and its statistics. */
async function exchange(page, text) {
  const isChat = (request) => request.method() === "POST";
  const [request] = await Promise.all([page.waitForRequest(isChat), sendMessage(page, text)]);
  const { messages, stream, stream_options, return_progress, ...settings } = request.postDataJSON();
  return {
    settings,
    response: await lastResponse(page).innerText(),
    stats: await page.locator(".stats").last().innerText(),
  };
}

const modeChoice = (page) => page.getByRole("combobox", { name: /^Mode/ });
const ruleChoice = (page) => page.getByRole("combobox", { name: /^Rule/ });

/** Records the numbers of masks and known tokens at each change of the page. */
const watchBlocks = (page) =>
  page.evaluate(() => {
    window.blocks = [];
    new MutationObserver(() => {
      const block = document.querySelector(".block");
      if (!block) return;
      const masks = block.querySelectorAll(".mask").length;
      window.blocks.push({ masks, known: block.children.length - masks });
    }).observe(document.body, { childList: true, subtree: true });
  });

test("a response by diffusion shows masks, then its text and statistics", async () => {
  const page = await visit(server.url);
  await page.getByText("Chat with wf-demo").waitFor();
  await page.keyboard.press("Control+,");
  const mode = modeChoice(page);
  await mode
    .locator("option")
    .first()
    .getByText("server default (autoregressive)")
    .waitFor({ state: "attached" });
  const modes = await mode.locator("option").allInnerTexts();
  assert.ok(modes.includes("diffusion") && modes.includes("drafted"), modes.join());
  await hasCount(ruleChoice(page), 0);
  await mode.selectOption("diffusion");
  await ruleChoice(page).selectOption("threshold");
  await page.getByRole("spinbutton", { name: /^Threshold/ }).fill("0.8");
  await page.getByLabel("Max passes").fill("6");
  await becomes(() => page.getByLabel("Show blocks while they are being filled").isChecked(), true);
  await hasCount(page.getByLabel("Draft tokens"), 0);
  await mode.scrollIntoViewIfNeeded();
  await screenshot(page, "settings-diffusion");
  await assertAccessible(page, "diffusion settings");
  await page.keyboard.press("Escape");
  await watchBlocks(page);
  const { settings, response, stats } = await exchange(page, "Tell me a story");
  assert.deepEqual(settings, {
    decode: "diffusion",
    diffusion: { rule: "threshold", threshold: 0.8, steps: 6, preview: true },
  });
  const blocks = await page.evaluate(() => window.blocks);
  assert.ok(blocks.some(({ masks, known }) => masks > 0 && known > 0));
  await hasCount(page.locator(".block, .begun"), 0);
  assert.ok(response.length > 40, response);
  const [, tokens, passes, each] = /([\d,]+) tokens\s+([\d,]+) passes \(([\d.]+) tokens each\)/.exec(stats);
  assert.equal((Number(tokens) / Number(passes)).toFixed(1), each);
  assert.match(stats, /^[1-9][\d.,]* tok\/s/, "a single block has a speed, too");
  await screenshot(page, "response-diffusion");
  await assertAccessible(page, "response by diffusion");

  // The response is the same if blocks are not shown.
  await page.keyboard.press("Control+,");
  await page.getByLabel("Show blocks while they are being filled").uncheck();
  await page.keyboard.press("Escape");
  await page.evaluate(() => (window.blocks = []));
  await page.keyboard.press("Control+Shift+O");
  const hidden = await exchange(page, "Tell me a story");
  assert.equal(hidden.settings.diffusion.preview, undefined);
  assert.equal(hidden.response, response);
  assert.deepEqual(await page.evaluate(() => window.blocks), []);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a drafted response equals the autoregressive one and shows accepted drafts", async () => {
  const page = await visit(server.url);
  await page.getByText("Chat with wf-demo").waitFor();
  const usual = await exchange(page, "Tell me about a cat");
  assert.deepEqual(usual.settings, {});
  assert.doesNotMatch(usual.stats, /passes|drafts/);
  await page.keyboard.press("Control+,");
  await modeChoice(page).selectOption("drafted");
  await page.getByLabel("Draft tokens").fill("5");
  await hasCount(ruleChoice(page), 0);
  await modeChoice(page).scrollIntoViewIfNeeded();
  await screenshot(page, "settings-drafted");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Shift+O");
  const drafted = await exchange(page, "Tell me about a cat");
  assert.deepEqual(drafted.settings, { decode: "drafted", draft: { tokens: 5 } });
  assert.equal(drafted.response, usual.response);
  const [, right, made] = /drafts ([\d,]+) of ([\d,]+)/.exec(drafted.stats);
  assert.ok(Number(right) > 0 && Number(right) <= Number(made), drafted.stats);
  await screenshot(page, "response-drafted");
  // The statistics are stored with the chat.
  await page.reload();
  await page.getByText(/drafts [\d,]+ of [\d,]+/).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

/** Mock that sends a first text, waits for `goOn` after each pass, and then sends the other texts. */
async function startFilling(passes, [first, ...others]) {
  let go;
  const pass = () => new Promise((resolve) => (go = resolve));
  const decode = {
    default: "diffusion",
    modes: ["diffusion"],
    rules: [],
    block_size: 8,
    sub_block_size: null,
  };
  const mock = await startMock({
    props: { decode },
    respond: async (_, send) => {
      send(chunk(first));
      for (const block_preview of passes) {
        send({ choices: [], block_preview });
        await pass();
      }
      for (const part of others) send(chunk(part));
      send(end(others.length + 1));
    },
  });
  return { ...mock, goOn: () => go() };
}

for (const [colorScheme, reducedMotion] of [
  ["light", "no-preference"],
  ["dark", "reduce"],
]) {
  test(`a block continues the line of the text, in ${colorScheme}, motion: ${reducedMotion}`, async (t) => {
    const mock = await startFilling(
      [
        [" a", null, null, " a", null, null, null, "."],
        [" a", " time", null, " a", null, " fox", null, "."],
        [" a", " time", " there was", " a", " small", " fox", "", "."],
      ],
      ["Once **upon**", " a", " time", " there was", " a", " small", " fox", "", "."],
    );
    t.after(() => mock.close());
    const page = await visit(mock.url, { colorScheme, reducedMotion });
    await page.getByText("Chat with mock").waitFor();
    await page.getByLabel("Message", { exact: true }).fill("Go");
    await page.keyboard.press("Enter");
    const block = page.locator("p > .block");
    await page.waitForFunction(() => document.querySelectorAll(".mask").length === 5);
    await becomes(() => block.getAttribute("aria-hidden"), "true");
    await page
      .getByRole("status")
      .filter({ hasText: "Generating the response block by block" })
      .waitFor({ state: "attached" });
    const top = () => page.locator(".markdown strong").evaluate((node) => node.getBoundingClientRect().top);
    const before = await top();
    const height = () => page.locator(".markdown").evaluate((node) => node.clientHeight);
    const lineHeight = await height();
    await screenshot(page, `block-${colorScheme}`);
    await assertAccessible(page, "a block");
    mock.goOn();
    await page.waitForFunction(() => document.querySelectorAll(".mask").length === 3);
    await becomes(() => lastResponse(page).innerText(), "Once upon a time a fox.");
    const isStill = () => document.getAnimations().length === 0;
    if (reducedMotion === "reduce") assert.ok(await page.evaluate(isStill));
    mock.goOn();
    await page.waitForFunction(() => document.querySelectorAll(".mask").length === 0);
    assert.deepEqual([await top(), await height()], [before, lineHeight], "nothing moved");
    mock.goOn();
    await responded(page);
    await becomes(() => lastResponse(page).innerText(), "Once upon a time there was a small fox.");
    assert.deepEqual([await top(), await height()], [before, lineHeight], "nothing moved");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

test("a block continues a paragraph, a list item or code", async (t) => {
  const places = {
    "One.\n\n": ".begun > .block",
    "- one\n- two": "li:last-child > .block",
    "```js\nlet a": "pre code > .block",
    "```js\nlet a\n```\n": ".begun > .block",
    "> said": "blockquote p > .block",
  };
  for (const [text, place] of Object.entries(places)) {
    const mock = await startFilling([[" b", null]], [text, " b", " c"]);
    t.after(() => mock.close());
    const page = await visit(mock.url);
    await page.getByText("Chat with mock").waitFor();
    await page.getByLabel("Message", { exact: true }).fill("Go");
    await page.keyboard.press("Enter");
    await page.locator(place).waitFor();
    await hasCount(page.locator(".block"), 1);
    mock.goOn();
    await responded(page);
    await hasCount(page.locator(".block, .begun"), 0);
    await page.context().close();
  }
});

test("text in a block is escaped", async (t) => {
  const tokens = ["<img src=x onerror=window.pwned=1>", "\u202Egnp", "\n\n", "[x](javascript:pwned)", null];
  const mock = await startFilling([tokens], ["Well", "."]);
  t.after(() => mock.close());
  const page = await visit(mock.url);
  await page.getByText("Chat with mock").waitFor();
  await page.getByLabel("Message", { exact: true }).fill("Go");
  await page.keyboard.press("Enter");
  await page.locator(".mask").waitFor();
  const shown = await page.locator(".block").textContent();
  assert.equal(shown, "<img src=x onerror=window.pwned=1>[U+202E]gnp\n\n[x](javascript:pwned)");
  await hasCount(page.locator(".block img, .block a"), 0);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  // After a stop, only the final text remains.
  await page.keyboard.press("Escape");
  await responded(page);
  await becomes(() => lastResponse(page).innerText(), "Well");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
