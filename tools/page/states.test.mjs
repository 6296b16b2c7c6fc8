// A server that wants a key, is full, stops, dies and comes back.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ask, closeBrowser, lastReply, replied, shoot, visit } from "./browser.mjs";
import { startServer } from "./server.mjs";

const ENDLESS = { ignoreEos: true };

after(closeBrowser);

/** Holds a place at the server until told to leave: replies end when the context is full, so again and again. */
function occupy(server, replies = 1) {
  const leave = new AbortController();
  const body = { messages: [{ role: "user", content: "Hi" }], ignore_eos: true, n: replies };
  const stay = async () => {
    while (!leave.signal.aborted) {
      const answer = await fetch(`${server.url}v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: leave.signal,
      });
      await answer.text();
    }
  };
  // Leaving is an error, and so is a server that ends.
  stay().catch(() => {});
  return () => leave.abort();
}

/** Waits until so many replies are computed, and so many wait. */
async function busy(server, running, waiting) {
  for (;;) {
    const load = await (await fetch(`${server.url}health`)).json();
    if (load.running === running && load.waiting === waiting) return;
  }
}

test("a key is asked for, kept for the tab, and longer if wanted", async (t) => {
  const server = await startServer(["--api-key", "open sesame"]);
  t.after(() => server.kill());
  const page = await visit(server.url);
  const dialog = page.getByRole("dialog", { name: "This server wants a key" });
  await dialog.waitFor();
  await shoot(page, "key");
  // Who wants to look around first may.
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Server", exact: true }).click();
  await page.waitForResponse((response) => response.url().endsWith("/metrics"));
  assert.equal(await dialog.count(), 0);
  await page.getByRole("button", { name: "Chat", exact: true }).click();
  await page.getByRole("button", { name: "Enter a key" }).click();
  await dialog.getByLabel("API key").fill("wrong");
  await page.keyboard.press("Enter");
  await dialog.getByText("The key was not accepted.").waitFor();
  await shoot(page, "key-wrong");
  await dialog.getByLabel("API key").fill("open sesame");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await ask(page, "Tell me a story");
  assert.ok((await lastReply(page).innerText()).length > 0);
  const kept = () => page.evaluate(() => [sessionStorage.length, localStorage.getItem("wf-key")]);
  assert.deepEqual(await kept(), [1, null]);
  const other = await page.context().newPage();
  await other.goto(server.url);
  const again = other.getByRole("dialog", { name: "This server wants a key" });
  await again.getByLabel("API key").fill("open sesame");
  await again.getByRole("checkbox").check();
  await other.keyboard.press("Enter");
  await again.waitFor({ state: "detached" });
  const third = await page.context().newPage();
  await third.goto(server.url);
  await third.getByRole("img", { name: "Server ready" }).waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("a full queue is waited for", async (t) => {
  const server = await startServer(["--max-running", "1", "--max-waiting", "1"]);
  t.after(() => server.kill());
  const page = await visit(server.url);
  const first = occupy(server);
  await busy(server, 1, 0);
  const second = occupy(server);
  await busy(server, 1, 1);
  await page.getByLabel("Message", { exact: true }).fill("Tell me a story");
  await page.keyboard.press("Enter");
  await page.getByText(/The queue is full. Asking again in \d+ s/).waitFor();
  await shoot(page, "queue-full");
  first();
  second();
  await replied(page);
  assert.ok((await lastReply(page).innerText()).length > 0);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("a server that dies is waited for, and what it was writing is kept", async (t) => {
  let server = await startServer();
  t.after(() => server.kill());
  const page = await visit(server.url, { settings: ENDLESS });
  await page.getByLabel("Message", { exact: true }).fill("Go on and on");
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    () => document.querySelector("[aria-busy=true] .markdown")?.textContent?.length > 40,
  );
  await server.kill();
  await page.getByText("The reply was interrupted: the server cannot be reached.").waitFor();
  await page.getByText("The server cannot be reached. Trying again every second.").waitFor();
  await shoot(page, "offline");
  const begun = await lastReply(page).innerText();
  assert.ok(begun.length > 40);
  // What is asked meanwhile is sent when there is somebody to answer.
  await page.evaluate(() => localStorage.setItem("wf-settings", "{}"));
  await page.getByLabel("Message", { exact: true }).fill("Are you there?");
  await page.keyboard.press("Enter");
  await page.getByText("Your message is sent when it is back").waitFor();
  await shoot(page, "offline-asked");
  server = await startServer([], server.port);
  await page.getByRole("img", { name: "Server ready" }).waitFor();
  await page.waitForFunction(() => {
    const last = [...document.querySelectorAll("article.assistant")].at(-1);
    return last.querySelector(".markdown").textContent.length > 0;
  });
  await page.getByRole("button", { name: "Stop" }).click();
  await replied(page);
  assert.equal(await page.locator("article.assistant .markdown").first().innerText(), begun);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("a server that is stopping says so, and finishes", async (t) => {
  const server = await startServer(["--drain", "20"]);
  t.after(() => server.kill());
  const page = await visit(server.url);
  await ask(page, "Tell me a story");
  const leave = occupy(server, 4);
  await busy(server, 4, 0);
  server.terminate();
  await page.waitForFunction(async () => (await fetch("/health")).status === 503);
  await page.getByLabel("Message", { exact: true }).fill("And then?");
  await page.keyboard.press("Enter");
  await page.getByText("The server is stopping: it finishes what it has begun").waitFor();
  await page.getByText("The server is stopping. Your message is sent when it is back").waitFor();
  await shoot(page, "stopping");
  leave();
  await page.getByText("The server cannot be reached.").first().waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
