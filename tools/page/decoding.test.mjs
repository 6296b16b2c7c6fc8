// Ways to decode: choosing one, blocks while they are filled, and what each says it cost.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { ask, closeBrowser, lastReply, replied, shoot, visit } from "./browser.mjs";
import { end, piece, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

let server;
before(async () => {
  server = await startServer(["--temperature", "0"]);
});
after(async () => {
  await closeBrowser();
  await server.kill();
});

/** Asks, and gives what was sent and what came back. */
async function exchange(page, text) {
  const isChat = (request) => request.method() === "POST";
  const [request] = await Promise.all([page.waitForRequest(isChat), ask(page, text)]);
  const { messages, stream, stream_options, return_progress, ...settings } = request.postDataJSON();
  return {
    settings,
    reply: await lastReply(page).innerText(),
    facts: await page.locator(".stats").last().innerText(),
  };
}

const modeChoice = (page) => page.getByRole("combobox", { name: /^Mode/ });
const ruleChoice = (page) => page.getByRole("combobox", { name: /^Rule/ });

/** Notes every number of masks and of known tokens that is on the page from now on. */
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

test("a reply by diffusion shows masks, then its text, and what it took", async () => {
  const page = await visit(server.url);
  await page.getByText("Talk with wf-demo").waitFor();
  await page.keyboard.press("Control+,");
  const mode = modeChoice(page);
  const modes = await mode.locator("option").allInnerTexts();
  assert.equal(modes[0], "the server's choice (autoregressive)");
  assert.ok(modes.includes("diffusion") && modes.includes("drafted"), modes.join());
  assert.equal(await ruleChoice(page).count(), 0);
  await mode.selectOption("diffusion");
  await ruleChoice(page).selectOption("threshold");
  await page.getByRole("spinbutton", { name: /^Threshold/ }).fill("0.8");
  await page.getByLabel("Most passes").fill("6");
  assert.ok(await page.getByLabel("Show blocks while they are filled").isChecked());
  assert.equal(await page.getByLabel("Draft tokens").count(), 0);
  await mode.scrollIntoViewIfNeeded();
  await shoot(page, "settings-diffusion");
  await assertAccessible(page, "settings of diffusion");
  await page.keyboard.press("Escape");
  await watchBlocks(page);
  const { settings, reply, facts } = await exchange(page, "Tell me a story");
  assert.deepEqual(settings, {
    decode: "diffusion",
    diffusion: { rule: "threshold", threshold: 0.8, steps: 6, preview: true },
  });
  const blocks = await page.evaluate(() => window.blocks);
  assert.ok(blocks.some(({ masks, known }) => masks > 0 && known > 0));
  assert.equal(await page.locator(".block, .begun").count(), 0, "nothing of a block stays");
  assert.ok(reply.length > 40, reply);
  const [, tokens, passes, each] = /([\d,]+) tokens\s+([\d,]+) passes \(([\d.]+) tokens each\)/.exec(facts);
  assert.equal((Number(tokens) / Number(passes)).toFixed(1), each);
  assert.match(facts, /^[1-9][\d.,]* tok\/s/, "one block has a speed too");
  await shoot(page, "reply-diffusion");
  await assertAccessible(page, "reply by diffusion");

  // Without the view of blocks it is the same reply.
  await page.keyboard.press("Control+,");
  await page.getByLabel("Show blocks while they are filled").uncheck();
  await page.keyboard.press("Escape");
  await page.evaluate(() => (window.blocks = []));
  await page.keyboard.press("Control+Shift+O");
  const unseen = await exchange(page, "Tell me a story");
  assert.equal(unseen.settings.diffusion.preview, undefined);
  assert.equal(unseen.reply, reply);
  assert.deepEqual(await page.evaluate(() => window.blocks), []);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("a drafted reply is the one that comes token by token, and says how many drafts were right", async () => {
  const page = await visit(server.url);
  await page.getByText("Talk with wf-demo").waitFor();
  const usual = await exchange(page, "Tell me a story");
  assert.deepEqual(usual.settings, {});
  assert.doesNotMatch(usual.facts, /passes|drafts/);
  await page.keyboard.press("Control+,");
  await modeChoice(page).selectOption("drafted");
  await page.getByLabel("Draft tokens").fill("5");
  assert.equal(await ruleChoice(page).count(), 0);
  await modeChoice(page).scrollIntoViewIfNeeded();
  await shoot(page, "settings-drafted");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Shift+O");
  const drafted = await exchange(page, "Tell me a story");
  assert.deepEqual(drafted.settings, { decode: "drafted", draft: { tokens: 5 } });
  assert.equal(drafted.reply, usual.reply);
  const [, right, made] = /drafts ([\d,]+) of ([\d,]+)/.exec(drafted.facts);
  assert.ok(Number(right) > 0 && Number(right) <= Number(made), drafted.facts);
  await shoot(page, "reply-drafted");
  // They are there after the page was left.
  await page.reload();
  await page.getByText(/drafts [\d,]+ of [\d,]+/).waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

/** A mock that writes a first text, stops after every pass until the test goes on, and then writes the others. */
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
    reply: async (_, send) => {
      send(piece(first));
      for (const block_preview of passes) {
        send({ choices: [], block_preview });
        await pass();
      }
      for (const part of others) send(piece(part));
      send(end(others.length + 1));
    },
  });
  return { ...mock, goOn: () => go() };
}

for (const [colorScheme, reducedMotion] of [
  ["light", "no-preference"],
  ["dark", "reduce"],
]) {
  test(`a block stands behind the text in its own line, in ${colorScheme}, motion: ${reducedMotion}`, async (t) => {
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
    await page.getByText("Talk with mock").waitFor();
    await page.getByLabel("Message", { exact: true }).fill("Go");
    await page.keyboard.press("Enter");
    const block = page.locator("p > .block");
    await page.waitForFunction(() => document.querySelectorAll(".mask").length === 5);
    assert.equal(await block.getAttribute("aria-hidden"), "true");
    await page
      .getByRole("status")
      .filter({ hasText: "The reply is being written block by block" })
      .waitFor({ state: "attached" });
    const top = () => page.locator(".markdown strong").evaluate((node) => node.getBoundingClientRect().top);
    const before = await top();
    const height = () => page.locator(".markdown").evaluate((node) => node.clientHeight);
    const lineHeight = await height();
    await shoot(page, `block-${colorScheme}`);
    await assertAccessible(page, "a block");
    mock.goOn();
    await page.waitForFunction(() => document.querySelectorAll(".mask").length === 3);
    assert.equal(await lastReply(page).innerText(), "Once upon a time a fox.");
    const isStill = () => document.getAnimations().length === 0;
    if (reducedMotion === "reduce") assert.ok(await page.evaluate(isStill));
    mock.goOn();
    await page.waitForFunction(() => document.querySelectorAll(".mask").length === 0);
    assert.deepEqual([await top(), await height()], [before, lineHeight], "nothing moved");
    mock.goOn();
    await replied(page);
    assert.equal(await lastReply(page).innerText(), "Once upon a time there was a small fox.");
    assert.deepEqual([await top(), await height()], [before, lineHeight], "nothing moved");
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });
}

test("where a block goes on: a new paragraph, an item, code", async (t) => {
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
    await page.getByText("Talk with mock").waitFor();
    await page.getByLabel("Message", { exact: true }).fill("Go");
    await page.keyboard.press("Enter");
    await page.locator(place).waitFor();
    assert.equal(await page.locator(".block").count(), 1, text);
    mock.goOn();
    await replied(page);
    assert.equal(await page.locator(".block, .begun").count(), 0, text);
    await page.context().close();
  }
});

test("what stands in a block is shown, not obeyed", async (t) => {
  const tokens = ["<img src=x onerror=window.pwned=1>", "\u202Egnp", "\n\n", "[x](javascript:pwned)", null];
  const mock = await startFilling([tokens], ["Well", "."]);
  t.after(() => mock.close());
  const page = await visit(mock.url);
  await page.getByText("Talk with mock").waitFor();
  await page.getByLabel("Message", { exact: true }).fill("Go");
  await page.keyboard.press("Enter");
  await page.locator(".mask").waitFor();
  const shown = await page.locator(".block").textContent();
  assert.equal(shown, "<img src=x onerror=window.pwned=1>[U+202E]gnp\n\n[x](javascript:pwned)");
  assert.equal(await page.locator(".block img, .block a").count(), 0);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  // Stopped in the middle, what was never final is gone.
  await page.keyboard.press("Escape");
  await replied(page);
  assert.equal(await lastReply(page).innerText(), "Well");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
