// Every view on a phone and on a desktop, light and dark: nothing is wider than the screen, and axe, which measures
// contrast, finds nothing. Screenshots are for people to look at.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { closeBrowser, hasCount, responded, screenshot, sendMessage, visit } from "./browser.mjs";
import { startMcp } from "./mcp_server.mjs";
import { chunk, end, startMock, thought } from "./mock.mjs";
import { startServer } from "./server.mjs";

const DECODE = {
  default: "autoregressive",
  modes: ["autoregressive", "diffusion"],
  docs: { diffusion: "fills blocks of masks" },
  rules: ["threshold", "static"],
  block_size: 32,
  sub_block_size: 8,
};
const THINKING = {
  efforts: [
    { name: "none", max_tokens: 0 },
    { name: "medium", max_tokens: 2048 },
    { name: "high", max_tokens: null },
  ],
};
const MODELS = ["a-model-with-a-very-long-name-1.58-bit", "small"];
/** What a response can be made of. */
const RESPONSE = `## Sums

Seven and five are **twelve**, as [this page](https://example.com) and \`7 + 5\` say.

| number | a column with a long title | another column | the last |
| --- | --- | --- | --- |
| 7 | ${"a long cell ".repeat(4)} | 2 | 3 |

\`\`\`python
def add(first, second):  # a line that is longer than a phone is wide, ${"and longer ".repeat(8)}
    return first + second
\`\`\`

> A quote, and a formula: $x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$

$$\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2} + ${Array.from({ length: 24 }, (_, i) => `a_{${i}}`).join(" + ")}$$

1. one
2. two: ${"anunbreakablewordthatislong".repeat(6)}
`;
const TIMINGS = {
  queue_ms: 0,
  cache_n: 0,
  prompt_n: 5,
  prompt_ms: 10,
  prompt_per_second: 500,
  predicted_n: 20,
  predicted_ms: 700,
  predicted_per_second: 28.6,
};

let mcp, mock, server;
before(async () => {
  mcp = await startMcp();
  mock = await startMock({
    props: {
      decode: DECODE,
      thinking: THINKING,
      models: MODELS,
      model_names: [MODELS[0]],
      mcp_servers: [mcp.url],
    },
    respond: async (text, send, body) => {
      if (text.endsWith("Use a tool") && body.messages.at(-1).role !== "tool") {
        const call = { name: "add", arguments: JSON.stringify({ a: 2, b: 3 }) };
        const tool_calls = [{ index: 0, id: "call-1", function: call }];
        send({ choices: [{ delta: { tool_calls }, finish_reason: "tool_calls" }] });
      } else {
        send(thought(`They ask for a sum. ${"I count on. ".repeat(20)}`));
        send(chunk(RESPONSE));
      }
      send({ ...end(20), timings: TIMINGS });
    },
  });
  server = await startServer();
});
after(async () => {
  await closeBrowser();
  mock.close();
  mcp.close();
  await server.kill();
});

/** Waits for animations that have an end: dialogs and lists slide in. */
const atRest = (page) =>
  page.evaluate(() => {
    const ending = document
      .getAnimations()
      .filter(({ effect }) => effect.getComputedTiming().endTime !== Infinity);
    return Promise.allSettled(ending.map(({ finished }) => finished));
  });

/** Fails if the page, or something in it that cannot be scrolled to, is wider than the screen. */
async function assertFits(page, where) {
  const wide = await page.evaluate(() => {
    const isScrolled = (element) => {
      for (let at = element; at && at !== document.body; at = at.parentElement) {
        if (/auto|scroll/.test(getComputedStyle(at).overflowX)) return true;
        // Hidden on purpose, or cut with an ellipsis.
        if (/hidden|clip/.test(getComputedStyle(at).overflowX)) return true;
      }
      return false;
    };
    const found = [...document.querySelectorAll("body *")].filter((element) => {
      const { left, right, width, height } = element.getBoundingClientRect();
      const isVisible = width > 0 && height > 0 && element.checkVisibility({ visibilityProperty: true });
      return isVisible && (right > innerWidth + 1 || left < -1) && !isScrolled(element);
    });
    const names = found.map((element) => `${element.tagName}.${element.className}`);
    if (document.documentElement.scrollWidth > innerWidth) names.push("the page");
    return names;
  });
  assert.deepEqual(wide, [], where);
}

for (const width of [390, 1280]) {
  for (const colorScheme of ["light", "dark"]) {
    const look = async (page, view) => {
      const name = `view-${view}-${width}-${colorScheme}`;
      await atRest(page);
      await screenshot(page, name);
      await assertFits(page, name);
      await assertAccessible(page, name);
    };
    const options = {
      colorScheme,
      viewport: { width, height: width < 600 ? 844 : 800 },
      ...(width < 600 && { isMobile: true, hasTouch: true }),
    };

    test(`chat, thinking, files, compare, settings, tools and models at ${width}, ${colorScheme}`, async () => {
      const page = await visit(mock.url, { ...options, others: [mcp.url] });
      await page.getByLabel("Thinking").waitFor();
      await look(page, "welcome");
      await sendMessage(page, "What are seven and five?");
      await look(page, "chat");
      await page.locator("article.assistant summary").first().click();
      await page.evaluate(() => document.querySelector(".thinking").scrollIntoView());
      await look(page, "thinking");
      await page.getByLabel("Attach text files").setInputFiles([
        {
          name: "a-file-with-a-rather-long-name-for-a-phone.csv",
          mimeType: "text/plain",
          buffer: Buffer.from("a,b\n"),
        },
        { name: "notes.md", mimeType: "text/plain", buffer: Buffer.from("# Notes\n".repeat(40)) },
      ]);
      await page
        .getByRole("list", { name: "Attached files" })
        .getByText(/tokens/)
        .nth(1)
        .waitFor();
      await look(page, "files");
      await page.getByRole("button", { name: "Settings" }).click();
      await page.getByLabel(mcp.url).check();
      await page.getByText("Tools: add, fail").waitFor();
      await look(page, "settings");
      await page.getByLabel(mcp.url).scrollIntoViewIfNeeded();
      await look(page, "settings-mcp");
      await page.keyboard.press("Escape");
      await page.getByLabel("Message", { exact: true }).fill("Use a tool");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Allow once" }).waitFor();
      // The call waits for the user, and nothing for the server.
      await hasCount(page.getByText("Waiting for the server"), 0);
      await look(page, "tool");
      await page.getByRole("button", { name: "Deny" }).click();
      await responded(page);
      await page.getByRole("button", { name: "Compare", exact: true }).click();
      await look(page, "compare-settings");
      await page.getByLabel("Prompt", { exact: true }).fill("What are seven and five?");
      await page.keyboard.press("Enter");
      await page.locator(".compare .stats").nth(1).waitFor();
      await look(page, "compare");
      await page.getByRole("button", { name: "Chat", exact: true }).click();
      if (width < 600) {
        await page.getByRole("button", { name: "Open chat list" }).click();
        await look(page, "list");
        await page.getByRole("button", { name: "Close chat list" }).click();
      }
      await page.getByRole("button", { name: "Help" }).click();
      await look(page, "help");
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });

    test(`the server at ${width}, ${colorScheme}`, async () => {
      const page = await visit(server.url, options);
      await sendMessage(page, "Hi");
      await page.getByRole("button", { name: "Server", exact: true }).click();
      await page.getByText("Running requests").waitFor();
      await look(page, "server");
      await page
        .locator(".scroller")
        .last()
        .evaluate((scroller) => scroller.scrollTo(0, scroller.scrollHeight));
      await look(page, "server-end");
      assert.deepEqual(page.problems, []);
      await page.context().close();
    });
  }
}
