// Comparison: one prompt, two settings, both speeds.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { assertAccessible } from "./accessible.mjs";
import { becomes, closeBrowser, screenshot, visit } from "./browser.mjs";
import { chunk, end, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

const DECODE = { default: "ar", modes: ["ar", "lookup"], rules: [], block_size: null, sub_block_size: null };

let server;
let bodies = [];
/** Number of requests that are answered at the same time. */
let concurrent = 0;
let mostConcurrent = 0;
/** Answers wait for it. */
let gate = Promise.resolve();
before(async () => {
  server = await startMock({
    props: { decode: DECODE },
    respond: async (_, send, body) => {
      bodies.push(body);
      concurrent += 1;
      mostConcurrent = Math.max(mostConcurrent, concurrent);
      await setTimeout(1100);
      send(chunk(`Temperature ${body.temperature}`));
      await gate;
      const speed = body.decode === "lookup" ? 30 : 10;
      const timings = { queue_ms: 0, cache_n: 0, prompt_n: 5, prompt_ms: 10, prompt_per_second: 500 };
      const drafts = body.decode === "lookup" ? { draft_n: 8, draft_n_accepted: 6 } : {};
      send({
        ...end(20),
        timings: { ...timings, ...drafts, predicted_n: 20, predicted_ms: 1, predicted_per_second: speed },
      });
      concurrent -= 1;
    },
  });
});
after(async () => {
  await closeBrowser();
  server.close();
});

const side = (page, name) => page.getByRole("region", { name: `Settings ${name}` });

async function openComparison(options) {
  const page = await visit(server.url, options);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await side(page, "B").getByLabel("Temperature").waitFor();
  return page;
}

async function fill(page) {
  await side(page, "A").getByLabel("Temperature").fill("0.2");
  await side(page, "B").getByLabel("Temperature").fill("1.5");
  await side(page, "B").getByLabel("Mode").selectOption("lookup");
  await page.getByLabel("Prompt", { exact: true }).fill("Tell me a story");
}

for (const colorScheme of ["light", "dark"]) {
  test(`both responses and their speeds are shown in the ${colorScheme} theme`, async () => {
    const page = await openComparison({ colorScheme });
    await fill(page);
    bodies = [];
    await page.keyboard.press("Enter");
    await side(page, "B").getByText("Waiting for the other response").waitFor();
    await page.waitForFunction(() => document.querySelectorAll(".result .stats").length === 2);
    assert.equal(mostConcurrent, 1, "one after the other");
    assert.deepEqual(
      bodies.map(({ temperature, decode }) => [temperature, decode]),
      [
        [0.2, undefined],
        [1.5, "lookup"],
      ],
    );
    assert.notEqual(bodies[0].cache_salt, bodies[1].cache_salt);
    const speeds = await page.locator(".speeds dd").allInnerTexts();
    assert.deepEqual([speeds[0], speeds[2]], ["10.0", "30.0"]);
    for (const time of [speeds[1], speeds[3]]) assert.match(time, /^[1-9][\d.]* s$/);
    await side(page, "B").getByText("drafts 6 of 8").waitFor();
    await screenshot(page, `compare-${colorScheme}`);
    await assertAccessible(page, "compare");
    // The settings stay; those of chats are not changed.
    await page.reload();
    await side(page, "B").getByLabel("Temperature").waitFor();
    await becomes(() => side(page, "B").getByLabel("Temperature").inputValue(), "1.5");
    await becomes(() => side(page, "B").getByLabel("Mode").inputValue(), "lookup");
    assert.equal(await page.evaluate(() => localStorage.getItem("wf-settings")), null);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

test("a comparison can be stopped by key", async () => {
  const page = await openComparison();
  await fill(page);
  let open;
  gate = new Promise((resolve) => (open = resolve));
  await page.keyboard.press("Enter");
  await side(page, "A").getByText("Temperature 0.2").waitFor();
  bodies = [];
  await page.keyboard.press("Escape");
  await side(page, "A").getByText("Stopped.").waitFor();
  await page.getByRole("button", { name: "Compare both" }).waitFor();
  assert.equal(bodies.length, 0, "the second is not sent");
  open();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("decoding modes of the real server are compared", async (t) => {
  const server = await startServer();
  t.after(() => server.kill());
  const page = await visit(server.url, { settings: { numbers: {} } });
  await page.keyboard.press("Alt+3");
  for (const name of ["A", "B"]) {
    await side(page, name).getByLabel("Temperature").fill("0");
    await side(page, name).getByText("Other sampling settings").click();
    await side(page, name).getByLabel("Max tokens").fill("20");
  }
  await side(page, "B").getByLabel("Mode").selectOption("lookup");
  await page.getByLabel("Prompt", { exact: true }).fill("Tell me a story");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".result .stats").length === 2);
  const texts = await page.locator(".result .markdown").allInnerTexts();
  assert.equal(texts[0], texts[1], "greedy: drafts change the speed, not the text");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
