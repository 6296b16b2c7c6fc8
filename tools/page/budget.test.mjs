// Performance: time until the page reacts to input, and the cost of each token of a long response.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { closeBrowser, hasCount, screenshot, sendMessage, visit } from "./browser.mjs";
import { sendChunks, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

after(closeBrowser);

const INTERACTIVE_MS = 200;
const SCRIPT_MS_PER_TOKEN = 1;

test(`the page is interactive within ${INTERACTIVE_MS} ms`, async (t) => {
  const server = await startServer();
  t.after(() => server.kill());
  const page = await visit(server.url, { isTimed: true });
  const interactive = () => performance.getEntriesByName("interactive")[0].startTime;
  const times = [await page.evaluate(interactive)];
  // On a busy machine some loads are late; the best one shows the cost of the page itself.
  while (times.length < 20 && !(times.length >= 5 && Math.min(...times) < INTERACTIVE_MS)) {
    await page.reload();
    times.push(await page.evaluate(interactive));
  }
  await page.context().close();
  console.log(`interactive after ${times.map(Math.round).join(", ")} ms`);
  assert.ok(Math.min(...times) < INTERACTIVE_MS);
});

const WORDS = "the quick brown fox jumps over a lazy dog and then it goes home to sleep ".split(" ");

/** Returns a response of `tokens` words that uses all of Markdown. */
function longResponse(tokens) {
  const parts = [];
  for (let at = 0; at < tokens; at += 1) {
    if (at % 400 === 150) parts.push("\n\n## A heading\n\n");
    else if (at % 400 === 200) parts.push("\n\n```python\ndef f(x):\n    return x + 1  # why\n```\n\n");
    else if (at % 400 === 260) parts.push("\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n");
    else if (at % 400 > 300 && at % 10 === 0) parts.push("\n- ");
    else if (at % 60 === 0) parts.push("\n\n");
    parts.push(`${WORDS[at % WORDS.length]} `);
  }
  return parts;
}

test("a long response is cheap per token, and nothing moves", async (t) => {
  const tokens = 4000;
  const chunks = longResponse(tokens);
  const server = await startMock({
    respond: async (_, send) => {
      for (const [at, text] of chunks.entries()) {
        await sendChunks(text, text.length, send);
        // At full speed, a whole screen arrives between two frames, and the message above leaves in one jump.
        if (at % 16 === 0) await setTimeout(4);
      }
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url, { isTimed: true });
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const metrics = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
  };
  await page.evaluate(() => {
    window.shift = 0;
    window.frames_ms = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.shift += entry.value;
    }).observe({ type: "layout-shift" });
    let before = performance.now();
    const frame = (now) => {
      window.frames_ms.push(now - before);
      before = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const first = await metrics();
  await sendMessage(page, "Go");
  const last = await metrics();
  const each = (name) => ((last[name] - first[name]) * 1000) / tokens;
  const { shift, frames } = await page.evaluate(() => ({
    shift: window.shift,
    frames: window.frames_ms.sort((a, b) => a - b),
  }));
  const script = each("ScriptDuration");
  console.log(
    `per token: script ${script.toFixed(3)} ms, layout ${each("LayoutDuration").toFixed(3)} ms, ` +
      `style ${each("RecalcStyleDuration").toFixed(3)} ms; frames: median ` +
      `${frames[frames.length >> 1].toFixed(1)} ms, 95th percentile ` +
      `${frames[Math.floor(frames.length * 0.95)].toFixed(1)} ms; layout shift ${shift.toFixed(4)}`,
  );
  await screenshot(page, "long");
  await hasCount(page.getByRole("button", { name: "Scroll to latest message" }), 0);
  assert.ok(script < SCRIPT_MS_PER_TOKEN);
  assert.ok(shift < 0.01, "no layout shift");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
