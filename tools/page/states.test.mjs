// A server that requires a key, is full, shuts down, crashes and restarts.
import assert from "node:assert/strict";
import { after, test } from "node:test";
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
import { startServer } from "./server.mjs";

const ENDLESS = { ignoreEos: true };

after(closeBrowser);

/** Occupies a slot of the server by sending requests in a loop. Returns a function that stops it. */
function occupy(server, replies = 1) {
  const abort = new AbortController();
  const body = { messages: [{ role: "user", content: "Hi" }], ignore_eos: true, n: replies };
  const loop = async () => {
    while (!abort.signal.aborted) {
      const response = await fetch(`${server.url}v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: abort.signal,
      });
      await response.text();
    }
  };
  // Both the abort and the end of the server are errors.
  loop().catch(() => {});
  return () => abort.abort();
}

/** Waits until the server reports a number of running and waiting requests that `isReached` accepts. */
async function waitForLoad(server, isReached) {
  while (!isReached(await (await fetch(`${server.url}health`)).json()));
}

test("the API key is requested and stored for the tab or permanently", async (t) => {
  const server = await startServer(["--api-key", "open sesame"]);
  t.after(() => server.kill());
  const page = await visit(server.url);
  const dialog = page.getByRole("dialog", { name: "API key required" });
  await dialog.waitFor();
  await screenshot(page, "key");
  // The dialog can be dismissed.
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Server", exact: true }).click();
  await page.waitForResponse((response) => response.url().endsWith("/metrics"));
  await hasCount(dialog, 0);
  await page.getByRole("button", { name: "Chat", exact: true }).click();
  await page.getByRole("button", { name: "Enter key" }).click();
  await dialog.getByLabel("API key").fill("wrong");
  await page.keyboard.press("Enter");
  await dialog.getByText("The server rejected the key.").waitFor();
  await screenshot(page, "key-wrong");
  await dialog.getByLabel("API key").fill("open sesame");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await sendMessage(page, "Tell me a story");
  assert.ok((await lastResponse(page).innerText()).length > 0);
  const kept = () => page.evaluate(() => [sessionStorage.length, localStorage.getItem("wf-key")]);
  assert.deepEqual(await kept(), [1, null]);
  const other = await page.context().newPage();
  await other.goto(server.url);
  const again = other.getByRole("dialog", { name: "API key required" });
  await again.getByLabel("API key").fill("open sesame");
  await again.getByRole("checkbox").check();
  await other.keyboard.press("Enter");
  await again.waitFor({ state: "detached" });
  const third = await page.context().newPage();
  await third.goto(server.url);
  await third.getByRole("img", { name: "Server ready" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the page retries while the queue is full", async (t) => {
  const server = await startServer(["--max-running", "1", "--max-waiting", "1"]);
  t.after(() => server.kill());
  const page = await visit(server.url);
  // Up to eight requests of a caller take turns. Another one waits, and another one is turned away.
  const stops = Array.from({ length: 10 }, () => occupy(server));
  await waitForLoad(server, ({ waiting }) => waiting === 1);
  await page.getByLabel("Message", { exact: true }).fill("Tell me a story");
  await page.keyboard.press("Enter");
  await page.getByText(/The queue is full. Retrying in \d+ s/).waitFor();
  await screenshot(page, "queue-full");
  stops.forEach((stop) => stop());
  await responded(page);
  assert.ok((await lastResponse(page).innerText()).length > 0);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("after a crash the page waits for the server and keeps the partial response", async (t) => {
  let server = await startServer();
  t.after(() => server.kill());
  const page = await visit(server.url, { settings: ENDLESS });
  await page.getByLabel("Message", { exact: true }).fill("Go on and on");
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    () => document.querySelector("[aria-busy=true] .markdown")?.textContent?.length > 40,
  );
  await server.kill();
  await page.getByText("The response was interrupted: the server cannot be reached.").waitFor();
  await page.getByText("The server cannot be reached. Retrying every second.").waitFor();
  await screenshot(page, "offline");
  const begun = await lastResponse(page).innerText();
  assert.ok(begun.length > 40);
  // A message sent meanwhile is delivered when the server is back.
  await page.evaluate(() => localStorage.setItem("wf-settings", "{}"));
  await page.getByLabel("Message", { exact: true }).fill("Are you there?");
  await page.keyboard.press("Enter");
  await page.getByText("Your message is sent when it is back").waitFor();
  await screenshot(page, "offline-asked");
  server = await startServer([], server.port);
  await page.getByRole("img", { name: "Server ready" }).waitFor();
  await page.waitForFunction(() => {
    const last = [...document.querySelectorAll("article.assistant")].at(-1);
    return last.querySelector(".markdown").textContent.length > 0;
  });
  await page.getByRole("button", { name: "Stop" }).click();
  await responded(page);
  await becomes(() => page.locator("article.assistant .markdown").first().innerText(), begun);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a server that is shutting down is reported", async (t) => {
  const server = await startServer(["--drain", "20"]);
  t.after(() => server.kill());
  const page = await visit(server.url);
  await sendMessage(page, "Tell me a story");
  const leave = occupy(server, 4);
  await waitForLoad(server, ({ running }) => running === 4);
  server.terminate();
  await page.waitForFunction(async () => (await fetch("/health")).status === 503);
  await page.getByLabel("Message", { exact: true }).fill("And then?");
  await page.keyboard.press("Enter");
  await page.getByText("The server is shutting down: running requests finish").waitFor();
  await page.getByText("The server is shutting down. Your message is sent when it is back").waitFor();
  await screenshot(page, "stopping");
  leave();
  await page.getByText("The server cannot be reached.").first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
