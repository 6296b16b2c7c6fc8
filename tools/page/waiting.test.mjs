// What is shown before the first word, with a server that takes its time where the test wants it.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, lastReply, replied, shoot, visit } from "./browser.mjs";
import { end, piece, startMock } from "./mock.mjs";

after(closeBrowser);

/** Something to wait for, and the way to let it happen. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}

test("a long prompt shows how far it has been read", async (t) => {
  const half = gate();
  const server = await startMock({
    reply: async (_, send) => {
      send({ choices: [], prompt_progress: { total: 6000, processed: 2600, cache: 512 } });
      await half.opened;
      send(piece("Here it is."));
      send(end(3));
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url);
  await page.getByLabel("Message", { exact: true }).fill("A very long text");
  await page.keyboard.press("Enter");
  await page.getByText("Reading the prompt: 2,600 of 6,000 tokens").waitFor();
  assert.equal(await page.getByRole("progressbar").getAttribute("value"), "2600");
  await shoot(page, "reading");
  half.open();
  await replied(page);
  assert.equal(await lastReply(page).innerText(), "Here it is.");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("a model that is being loaded is waited for", async (t) => {
  let isLoading = true;
  const server = await startMock({
    health: () => (isLoading ? { status: 503, code: "loading" } : undefined),
    reply: (_, send) => {
      send(piece("Now I am here."));
      send(end(4));
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url);
  await page.getByText("The model is being loaded.", { exact: true }).waitFor();
  await page.getByLabel("Message", { exact: true }).fill("Hello?");
  await page.keyboard.press("Enter");
  await page.getByText("Your message is sent when it is there").waitFor();
  await shoot(page, "loading");
  isLoading = false;
  await lastReply(page).getByText("Now I am here.").waitFor();
  await page.getByRole("img", { name: "Server ready" }).waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("an error in the middle keeps what there is, and can be tried again", async (t) => {
  let isBroken = true;
  const server = await startMock({
    reply: (_, send) => {
      send(piece("The beginning"));
      if (isBroken) send({ error: { message: "a step failed", code: "internal_error" } });
      else send(end(2));
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url);
  await page.getByLabel("Message", { exact: true }).fill("Go");
  await page.keyboard.press("Enter");
  await page.getByText("The reply was interrupted: a step failed.").waitFor();
  assert.equal(await lastReply(page).innerText(), "The beginning");
  await shoot(page, "interrupted");
  isBroken = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByLabel("version 2 of 2").waitFor();
  assert.equal(await page.getByText("interrupted").count(), 0);
  await page.context().close();
});

test("who reads further up is left there", async (t) => {
  const more = gate();
  const paragraphs = Array.from({ length: 60 }, (_, at) => `Paragraph ${at} of many.`).join("\n\n");
  const server = await startMock({
    reply: async (_, send) => {
      send(piece(paragraphs));
      await more.opened;
      send(piece(`\n\n${paragraphs}\n\nThe end.`));
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
  const latest = page.getByRole("button", { name: "To the latest message" });
  await latest.waitFor();
  const before = await top();
  more.open();
  await replied(page);
  assert.equal(await top(), before);
  await latest.click();
  await latest.waitFor({ state: "detached" });
  assert.ok((await top()) > before);
  await page.context().close();
});
