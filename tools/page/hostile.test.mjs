// Whatever a model writes: no script runs, no request leaves, nothing is covered, and the page goes on.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, closeBrowser, shoot, visit } from "./browser.mjs";
import { sendPieces, startMock } from "./mock.mjs";
import { OUTPUTS } from "./outputs.mjs";

let server;
before(async () => {
  server = await startMock({
    reply: (text, send) => {
      const output = OUTPUTS[Number(text.slice(1))];
      // Short ones come letter by letter, so that every half of a tag is shown once.
      return sendPieces(output, Math.max(3, Math.ceil(output.length / 40)), send);
    },
    props: { model_names: ["<img src=x onerror=window.pwned=1>"] },
  });
});
after(async () => {
  await closeBrowser();
  server.close();
});

/** What an answer may be made of. */
const TAGS =
  "a b blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong sub sup table tbody td th thead tr ul";
const ATTRIBUTES = "align aria-label class href rel role start tabindex target title type";

/** Everything in the answers that should not be there. */
function strangers(page) {
  return page.evaluate(
    ([tags, attributes]) => {
      const found = window.pwned ? ["a script ran"] : [];
      for (const node of document.querySelectorAll(".markdown *")) {
        const tag = node.localName;
        if (!tags.includes(tag)) found.push(`<${tag}>`);
        for (const { name } of node.attributes) if (!attributes.includes(name)) found.push(`${tag} ${name}`);
        if (tag === "a" && !/^(https?|mailto):/.test(node.href)) found.push(`link to ${node.href}`);
      }
      const composer = document.getElementById("composer").getBoundingClientRect();
      const onTop = document.elementFromPoint(composer.x + 5, composer.y + 5);
      if (onTop?.id !== "composer") found.push("the composer is covered");
      if (document.documentElement.scrollWidth > innerWidth) found.push("the page is too wide");
      return found;
    },
    [TAGS.split(" "), ATTRIBUTES.split(" ")],
  );
}

test(`${OUTPUTS.length} hostile answers`, async () => {
  assert.ok(OUTPUTS.length >= 200);
  const page = await visit(server.url);
  let slowest = { ms: 0, at: 0 };
  for (let at = 0; at < OUTPUTS.length; at += 1) {
    const begun = performance.now();
    await ask(page, `#${at}`);
    const ms = performance.now() - begun;
    if (ms > slowest.ms) slowest = { ms, at };
    assert.deepEqual(await strangers(page), [], `output ${at}: ${OUTPUTS[at].slice(0, 80)}`);
    assert.deepEqual(page.faults, [], `output ${at}: ${OUTPUTS[at].slice(0, 80)}`);
    if (at % 30 === 20) await shoot(page, `hostile-${at}`);
    await page.keyboard.press("Control+Shift+O");
  }
  console.log(`slowest: ${Math.round(slowest.ms)} ms for ${OUTPUTS[slowest.at].slice(0, 20)}`);
  assert.ok(slowest.ms < 5000, "the page stays usable");
  // All of it is there after a reload, and does no more harm.
  await page.reload();
  await page.locator(".chat-item").first().waitFor();
  assert.equal(await page.locator(".chat-item").count(), OUTPUTS.length);
  await page.locator(".chat-item a").nth(3).click();
  assert.deepEqual(await strangers(page), []);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
