// The server view: the last hour, percentiles, refusals; and the page as an app.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { becomes, closeBrowser, screenshot, sendMessage, visit } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

after(closeBrowser);

const METRICS = `wf:generation_tokens_total 5000
wf:num_preemptions_total 4
wf:num_requests_running 2
wf:http_requests_total{handler="/v1/chat/completions",status="200"} 40
wf:http_requests_total{handler="/v1/chat/completions",status="429"} 6
wf:http_requests_total{handler="/v1/completions",status="429"} 1
wf:http_requests_total{handler="/v1/completions",status="400"} 3
wf:time_to_first_token_seconds_bucket{le="0.25"} 50
wf:time_to_first_token_seconds_bucket{le="0.75"} 90
wf:time_to_first_token_seconds_bucket{le="2.5"} 100
wf:time_to_first_token_seconds_bucket{le="+Inf"} 100
# EOF
`;

/** An hour in which 100 tokens per second were generated in the first half, and none in the second. */
const HISTORY = {
  period_seconds: 10,
  samples: Array.from({ length: 360 }, (_, at) => ({
    time_ms: 1_800_000_000_000 + at * 10_000,
    running: at % 7,
    waiting: at % 50 > 40 ? 3 : 0,
    kv_pages_in_use: at % 90,
    kv_pages_kept: 100,
    prompt_tokens_total: at * 300,
    generation_tokens_total: Math.min(at, 180) * 1000,
    resident_bytes: 1.25e9 + at * 1e5,
  })),
};

const send = (type, body) => (_, response) => {
  response.writeHead(200, { "content-type": type });
  response.end(body);
};

for (const colorScheme of ["light", "dark"]) {
  test(`the last hour, percentiles and refusals are shown in the ${colorScheme} theme`, async (t) => {
    const server = await startMock({
      respond: () => {},
      more: {
        "/metrics": send("text/plain", METRICS),
        "/history": send("application/json", JSON.stringify(HISTORY)),
      },
    });
    t.after(() => server.close());
    const page = await visit(server.url, { colorScheme });
    await page.keyboard.press("Alt+2");
    await page.getByRole("img", { name: "Generated tokens: now 0.0/s, maximum 100/s" }).waitFor();
    await page.getByRole("img", { name: /^Memory: now 1\.29 GB/ }).waitFor();
    const row = (name) => page.getByRole("row", { name }).getByRole("cell").allInnerTexts();
    await becomes(() => row("Time to first token"), ["250 ms", "750 ms", "2.3 s"]);
    await becomes(() => row("Time between tokens"), ["–", "–", "–"]);
    const facts = (await page.locator(".facts > div").allInnerTexts()).map((text) => text.split("\n"));
    const value = (name) => facts.find(([term]) => term === name)?.at(-1);
    assert.equal(value("429 queue full or limit reached"), "7");
    assert.equal(value("400 invalid request"), "3");
    assert.equal(value("Preemptions"), "4");
    await screenshot(page, `server-hour-${colorScheme}`);
    await assertAccessible(page, "server");
    await page.getByRole("button", { name: "Last 2 minutes" }).click();
    await page.getByRole("img", { name: "Generated tokens: now 0.0/s, maximum 0.0/s" }).waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

test("the server keeps its own history, which a new page shows", async (t) => {
  const server = await startServer();
  t.after(() => server.kill());
  const page = await visit(server.url);
  const history = async () => (await (await fetch(`${server.url}history`)).json()).samples;
  // The first sample is taken once there is a model, the others every ten seconds.
  while (!(await history()).length) await page.waitForTimeout(500);
  const [first] = await history();
  assert.ok(first.time_ms > 1.7e12);
  if (process.platform === "linux") assert.ok(first.resident_bytes > 1e6);
  await sendMessage(page, "Tell me a story");
  const newest = async () => (await history()).at(-1).generation_tokens_total;
  while ((await newest()) === first.generation_tokens_total) await page.waitForTimeout(500);
  const other = await visit(server.url);
  await other.keyboard.press("Alt+2");
  await other.getByRole("button", { name: "Last hour", pressed: true }).waitFor();
  await other.getByRole("img", { name: /^Generated tokens: now 0\.0\/s, maximum [\d.]*[1-9]/ }).waitFor();
  await other.getByRole("row", { name: /Time to first token \d/ }).waitFor();
  assert.deepEqual(other.problems, []);
  await other.context().close();
  await page.context().close();
});

test("browsers can install the page as an app", async (t) => {
  const server = await startServer(["--api-key", "secret"]);
  t.after(() => server.kill());
  const response = await fetch(`${server.url}manifest.webmanifest`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/manifest+json");
  const page = await visit(server.url);
  const session = await page.context().newCDPSession(page);
  const { url, errors, manifest } = await session.send("Page.getAppManifest");
  assert.equal(url, `${server.url}manifest.webmanifest`);
  assert.deepEqual(errors, []);
  assert.equal(manifest.startUrl, server.url);
  const { installabilityErrors } = await session.send("Page.getInstallabilityErrors");
  assert.deepEqual(
    installabilityErrors.map(({ errorId }) => errorId).filter((id) => id !== "in-incognito"),
    [],
  );
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
