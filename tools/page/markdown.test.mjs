// Rendering of Markdown: the same while streaming and after a reload, with code that can be copied.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { becomes, closeBrowser, lastResponse, screenshot, sendMessage, visit } from "./browser.mjs";
import { sendChunks, startMock } from "./mock.mjs";

const CODE = 'fn main() {\n    println!("<b>{}</b>", 1 + 1);\n}\n';

const DOCUMENT = `# A heading

Some *text* with **weight**, \`code\`, ~~nothing~~ and a [link][there].

1. one

2. two, in a loose list
   - below it
   - and again

| left | right |
| :--- | ----: |
| 1 | 2 |

> quoted
> text

- [x] done
- [ ] not done

\`\`\`rust
${CODE}\`\`\`

A line
===

Last words: https://example.org/a?b=1&c=2

[there]: https://example.org/there
`;

let server;
before(async () => {
  server = await startMock({ respond: (size, send) => sendChunks(DOCUMENT, Number(size), send) });
});
after(async () => {
  await closeBrowser();
  server.close();
});

test("a response does not depend on the sizes of chunks", async () => {
  const page = await visit(server.url);
  const seen = new Set();
  for (const size of [1, 3, 7, 64, 10_000]) {
    await sendMessage(page, String(size));
    // Only blocks rendered last are inside the tail element.
    const html = () =>
      lastResponse(page).evaluate((node) => node.innerHTML.replace(/<div class="tail">|<\/div>/g, ""));
    seen.add(await html());
    await page.reload();
    await lastResponse(page).waitFor();
    seen.add(await html());
    await page.keyboard.press("Control+Shift+O");
  }
  assert.equal(seen.size, 1);
  await page.context().close();
});

test("code is highlighted and can be copied, links are safe", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await visit(server.url, { colorScheme });
    await sendMessage(page, "50");
    await page.evaluate(() => document.querySelector(".scroller").scrollTo(0, 0));
    await screenshot(page, `markdown-${colorScheme}`);
    const keyword = lastResponse(page).locator(".hljs-keyword", { hasText: "fn" });
    const colour = (node) => getComputedStyle(node).color;
    assert.notEqual(await keyword.evaluate(colour), await lastResponse(page).evaluate(colour));
    await page.getByRole("button", { name: "Copy", exact: true }).getByText("Copy").click();
    await page.getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), CODE);
    const link = lastResponse(page).getByRole("link", { name: "link" });
    await becomes(() => link.getAttribute("href"), "https://example.org/there");
    await becomes(() => link.getAttribute("rel"), "noopener noreferrer nofollow");
    await becomes(() => link.getAttribute("target"), "_blank");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
});

test("the source of a response can be copied", async () => {
  const page = await visit(server.url);
  await sendMessage(page, "50");
  await page.locator("article.assistant footer").getByRole("button", { name: "Copy" }).click();
  await page.locator("article.assistant footer").getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), DOCUMENT);
  await page.context().close();
});
