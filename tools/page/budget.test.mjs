// How quick it is: the first moment somebody can type, and what each token of a long answer costs.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ask, closeBrowser, shoot, visit } from "./browser.mjs";
import { sendPieces, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

after(closeBrowser);

const INTERACTIVE_MS = 200;
const SCRIPT_MS_A_TOKEN = 1;

test(`the page can be used within ${INTERACTIVE_MS} ms`, async (t) => {
  const server = await startServer();
  t.after(() => server.kill());
  const page = await visit(server.url, { isTimed: true });
  const interactive = () => performance.getEntriesByName("interactive")[0].startTime;
  const times = [await page.evaluate(interactive)];
  // A machine that is busy with other things makes visits late; the page's own share is the best of them.
  while (times.length < 20 && !(times.length >= 5 && Math.min(...times) < INTERACTIVE_MS)) {
    await page.reload();
    times.push(await page.evaluate(interactive));
  }
  await page.context().close();
  console.log(`usable after ${times.map(Math.round).join(", ")} ms`);
  assert.ok(Math.min(...times) < INTERACTIVE_MS);
});

const WORDS = "the quick brown fox jumps over a lazy dog and then it goes home to sleep ".split(" ");

/** An answer of so many words with everything in it that Markdown has. */
function answer(tokens) {
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

test("a long answer costs little for each token, and nothing moves", async (t) => {
  const tokens = 4000;
  const pieces = answer(tokens);
  const server = await startMock({
    reply: async (_, send) => {
      for (const text of pieces) await sendPieces(text, text.length, send);
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
  await ask(page, "Go");
  const last = await metrics();
  const each = (name) => ((last[name] - first[name]) * 1000) / tokens;
  const { shift, frames } = await page.evaluate(() => ({
    shift: window.shift,
    frames: window.frames_ms.sort((a, b) => a - b),
  }));
  const script = each("ScriptDuration");
  console.log(
    `each token: script ${script.toFixed(3)} ms, layout ${each("LayoutDuration").toFixed(3)} ms, ` +
      `style ${each("RecalcStyleDuration").toFixed(3)} ms; frames: median ` +
      `${frames[frames.length >> 1].toFixed(1)} ms, 95 in 100 within ` +
      `${frames[Math.floor(frames.length * 0.95)].toFixed(1)} ms; layout shift ${shift.toFixed(4)}`,
  );
  await shoot(page, "long");
  assert.equal(await page.getByRole("button", { name: "To the latest message" }).count(), 0);
  assert.ok(script < SCRIPT_MS_A_TOKEN);
  assert.ok(shift < 0.01, "nothing that was read moves");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
