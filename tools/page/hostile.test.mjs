// Hostile responses: no script runs, no request leaves the origin, nothing is covered, the page stays usable.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, hasCount, screenshot, sendMessage, visit } from "./browser.mjs";
import { sendChunks, startMock } from "./mock.mjs";
import { OUTPUTS } from "./outputs.mjs";

let server;
before(async () => {
  server = await startMock({
    respond: (text, send) => {
      const output = OUTPUTS[Number(text.slice(1))];
      // Short ones arrive in small chunks, so that incomplete tags are rendered too.
      return sendChunks(output, Math.max(3, Math.ceil(output.length / 40)), send);
    },
    props: { model_names: ["<img src=x onerror=window.pwned=1>"] },
  });
});
after(async () => {
  await closeBrowser();
  server.close();
});

/** Tags and attributes that a response may contain. Formulas have their own. */
const MATH =
  "math mfrac mi mn mo mover mroot mrow mspace msqrt msub msubsup msup mtable mtd mtext mtr munder munderover";
const TAGS =
  "a b blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong sub sup table tbody td th thead tr ul";
const ATTRIBUTES =
  "accent align aria-label class display href linethickness mathvariant rel role start stretchy tabindex target title type width";

/** Returns everything in the responses that must not be there. */
function violations(page) {
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
    [[...TAGS.split(" "), ...MATH.split(" ")], ATTRIBUTES.split(" ")],
  );
}

/** Returns a function that reads the CPU time of the page, which does not depend on the load of the machine. */
async function cpuClock(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "TaskDuration").value * 1000;
  };
}

test(`${OUTPUTS.length} hostile responses`, async () => {
  assert.ok(OUTPUTS.length >= 200);
  const page = await visit(server.url);
  const cpuMs = await cpuClock(page);
  let slowest = { ms: 0, at: 0 };
  for (let at = 0; at < OUTPUTS.length; at += 1) {
    const start = await cpuMs();
    await sendMessage(page, `#${at}`);
    const ms = (await cpuMs()) - start;
    if (ms > slowest.ms) slowest = { ms, at };
    assert.deepEqual(await violations(page), [], `output ${at}: ${OUTPUTS[at].slice(0, 80)}`);
    assert.deepEqual(page.problems, [], `output ${at}: ${OUTPUTS[at].slice(0, 80)}`);
    if (at % 30 === 20) await screenshot(page, `hostile-${at}`);
    await page.keyboard.press("Control+Shift+O");
  }
  console.log(`slowest: ${Math.round(slowest.ms)} ms of CPU time for ${OUTPUTS[slowest.at].slice(0, 20)}`);
  assert.ok(slowest.ms < 5000, "the page stays usable");
  // They are restored by a reload and stay harmless.
  await page.reload();
  await page.locator(".chat-item").first().waitFor();
  await hasCount(page.locator(".chat-item"), OUTPUTS.length);
  await page.locator(".chat-item a").nth(3).click();
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
