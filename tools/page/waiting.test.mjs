// States before the first token, with a mock that waits for the test.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { becomes, closeBrowser, hasCount, lastResponse, responded, screenshot, visit } from "./browser.mjs";
import { end, chunk, startMock } from "./mock.mjs";

after(closeBrowser);

/** A promise and the function that resolves it. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}

test("a long prompt shows its progress", async (t) => {
  const half = gate();
  const server = await startMock({
    respond: async (_, send) => {
      send({ choices: [], prompt_progress: { total: 6000, processed: 2600, cache: 512 } });
      await half.opened;
      send(chunk("Here it is."));
      send(end(3));
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url);
  await page.getByLabel("Message", { exact: true }).fill("A very long text");
  await page.keyboard.press("Enter");
  await page.getByText("Processing the prompt: 2,600 of 6,000 tokens").waitFor();
  await becomes(() => page.getByRole("progressbar").getAttribute("value"), "2600");
  await screenshot(page, "reading");
  half.open();
  await responded(page);
  await becomes(() => lastResponse(page).innerText(), "Here it is.");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the page waits while the model is loading", async (t) => {
  let isLoading = true;
  const server = await startMock({
    health: () => (isLoading ? { status: 503, code: "loading" } : undefined),
    respond: (_, send) => {
      send(chunk("Now I am here."));
      send(end(4));
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url);
  await page.getByText("The model is loading.", { exact: true }).waitFor();
  await page.getByLabel("Message", { exact: true }).fill("Hello?");
  await page.keyboard.press("Enter");
  await page.getByText("Your message is sent when it is ready").waitFor();
  await screenshot(page, "loading");
  isLoading = false;
  await lastResponse(page).getByText("Now I am here.").waitFor();
  await page.getByRole("img", { name: "Server ready" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("an error in a stream keeps the text and offers a retry", async (t) => {
  let isBroken = true;
  const server = await startMock({
    respond: (_, send) => {
      send(chunk("The beginning"));
      if (isBroken) send({ error: { message: "a step failed", code: "internal_error" } });
      else send(end(2));
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url);
  await page.getByLabel("Message", { exact: true }).fill("Go");
  await page.keyboard.press("Enter");
  await page.getByText("The response was interrupted: a step failed.").waitFor();
  await becomes(() => lastResponse(page).innerText(), "The beginning");
  await screenshot(page, "interrupted");
  isBroken = false;
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByLabel("Version 2 of 2").waitFor();
  await hasCount(page.getByText("interrupted"), 0);
  await page.context().close();
});

test("scrolling up stops following the text", async (t) => {
  const more = gate();
  const paragraphs = Array.from({ length: 60 }, (_, at) => `Paragraph ${at} of many.`).join("\n\n");
  const server = await startMock({
    respond: async (_, send) => {
      send(chunk(paragraphs));
      await more.opened;
      send(chunk(`\n\n${paragraphs}\n\nThe end.`));
      send(end(500));
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url);
  await page.getByLabel("Message", { exact: true }).fill("Go");
  await page.keyboard.press("Enter");
  await page.getByText("Paragraph 59 of many.").waitFor();
  const top = () => page.evaluate(() => document.querySelector(".scroller").scrollTop);
  await page.mouse.move(700, 400);
  await page.mouse.wheel(0, -600);
  const latest = page.getByRole("button", { name: "Scroll to latest message" });
  await latest.waitFor();
  const before = await top();
  more.open();
  await responded(page);
  assert.equal(await top(), before);
  await latest.click();
  await latest.waitFor({ state: "detached" });
  assert.ok((await top()) > before);
  await page.context().close();
});
