// Several models: the choice in the header and in the comparison, and the requests that follow it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { becomes, closeBrowser, hasCount, lastResponse, screenshot, sendMessage, visit } from "./browser.mjs";
import { chunk, end, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

const MODELS = ["small", "large"];

let bodies = [];
let server;
/** Number of `large`'s loads that fail. */
let failures = 0;
before(async () => {
  server = await startMock({
    props: { models: MODELS, model_names: ["small"] },
    respond: async (_, send, body) => {
      bodies.push(body);
      send(chunk(`I am ${body.model ?? "small"}`));
      send(end(3));
    },
    more: {
      "/props?model=small": (_, response) => json(response, 200, propsOf("small")),
      "/props?model=large": (_, response) => {
        if (failures-- > 0)
          return json(response, 500, { error: { message: "model large cannot be loaded" } });
        json(response, 200, propsOf("large"));
      },
    },
  });
});
after(async () => {
  await closeBrowser();
  server.close();
});

const json = (response, status, value) => {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
};

const propsOf = (name) => ({
  default_generation_settings: { n_ctx: 4096 },
  sampling_params: [{ name: "temperature", default: 0.7, min: 0, max: 100, doc: "Randomness" }],
  limits: { stop: 16, stop_bytes: 256, logit_bias: 1024, deadline_seconds: 600 },
  model_names: [name],
  models: MODELS,
});

const chooser = (page) => page.getByRole("combobox", { name: "Model" });

for (const width of [390, 1280]) {
  test(`the chosen model is that of requests, also after a reload, at ${width} pixels`, async () => {
    const page = await visit(server.url, { viewport: { width, height: 800 } });
    await becomes(() => chooser(page).inputValue(), "small");
    await chooser(page).selectOption("large");
    await page.getByRole("heading", { name: "Chat with large" }).waitFor();
    bodies = [];
    await sendMessage(page, "Who are you?");
    assert.equal(bodies[0].model, "large");
    await lastResponse(page).getByText("I am large").waitFor();
    await screenshot(page, `models-${width}`);
    await assertAccessible(page, "models");
    await page.reload();
    await chooser(page).waitFor();
    await becomes(() => chooser(page).inputValue(), "large");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

test("a model that cannot be loaded is reported, and the old one stays", async () => {
  const page = await visit(server.url);
  await chooser(page).waitFor();
  failures = 1;
  await chooser(page).selectOption("large");
  await page.getByText("model large cannot be loaded").waitFor();
  await becomes(() => chooser(page).inputValue(), "small");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a model that is gone is forgotten", async () => {
  const page = await visit(server.url);
  await chooser(page).waitFor();
  await page.evaluate(() => localStorage.setItem("wf-model", '"former"'));
  await page.reload();
  await chooser(page).waitFor();
  await becomes(() => chooser(page).inputValue(), "small");
  await page.context().close();
});

test("two models can be compared", async () => {
  const page = await visit(server.url);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  const side = (name) => page.getByRole("region", { name: `Settings ${name}` });
  await side("B").getByLabel("Model").selectOption("large");
  bodies = [];
  await page.getByLabel("Prompt", { exact: true }).fill("Who are you?");
  await page.keyboard.press("Enter");
  await side("B").getByText("I am large").waitFor();
  assert.deepEqual(
    bodies.map(({ model }) => model),
    [undefined, "large"],
    "the first is the default",
  );
  await page.context().close();
});

test("with one model there is nothing to choose, and the built-in one suggests what it is good at", async (t) => {
  const real = await startServer();
  t.after(() => real.kill());
  const page = await visit(real.url);
  await page.getByRole("heading", { name: "Chat with wf-demo" }).waitFor();
  await hasCount(chooser(page), 0);
  await page.getByRole("button", { name: "Why is the sky blue?" }).click();
  await page.locator("article.assistant").getByText("blue light").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
