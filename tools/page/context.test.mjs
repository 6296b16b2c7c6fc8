// The context meter: a chat that nears its end, and one whose beginning is out of sight.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { becomes, closeBrowser, hasCount, screenshot, sendMessage, visit } from "./browser.mjs";
import { chunk, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

after(closeBrowser);

/** The last event of a response to a prompt of this many tokens. */
const end = (tokens) => ({
  choices: [{ delta: {}, finish_reason: "stop" }],
  usage: { prompt_tokens: tokens, completion_tokens: 1 },
});

test("a chat that nears the end of the context says how to go on", async (t) => {
  let tokens = 7000;
  const server = await startMock({
    respond: (_, send) => {
      send(chunk("Yes."));
      send(end(tokens));
      tokens += 600;
    },
  });
  t.after(() => server.close());
  const page = await visit(server.url);
  const note = page.getByText(/nears the end of the context/);
  await sendMessage(page, "Hello");
  await page.getByRole("meter", { name: "Context: 7,001 of 8,192 tokens" }).waitFor();
  await hasCount(note, 0);
  await sendMessage(page, "And now?");
  await note.waitFor();
  assert.match(await note.innerText(), /--attention window=4096,sinks=4/);
  await screenshot(page, "context");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a chat with a window goes on, and says that its beginning is out of sight", async (t) => {
  const window = ["--context", "256", "--attention", "window=128,sinks=4"];
  const server = await startServer(window);
  t.after(() => server.kill());
  const page = await visit(server.url, { settings: { ignoreEos: true, numbers: { max_tokens: 60 } } });
  const note = page.getByText("Earlier messages are out of sight of the model", { exact: false });
  for (let turn = 0; turn < 6; turn += 1) await sendMessage(page, "Tell me a story about a dog");
  await becomes(() => note.count(), 1);
  // The next token is one of the 132.
  await page
    .getByRole("meter", { name: /^In sight: 131 of 132 tokens, \d+ out of sight$/ })
    .last()
    .waitFor();
  await page.getByRole("button", { name: "Server", exact: true }).click();
  await page.getByText("window=128,sinks=4", { exact: true }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
