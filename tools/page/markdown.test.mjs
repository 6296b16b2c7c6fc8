// Answers as they are shown: the same while they stream and after a reload, with code that can be copied.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, closeBrowser, lastReply, shoot, visit } from "./browser.mjs";
import { sendPieces, startMock } from "./mock.mjs";

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
  server = await startMock({ reply: (size, send) => sendPieces(DOCUMENT, Number(size), send) });
});
after(async () => {
  await closeBrowser();
  server.close();
});

test("an answer is the same, however it came", async () => {
  const page = await visit(server.url);
  const seen = new Set();
  for (const size of [1, 3, 7, 64, 10_000]) {
    await ask(page, String(size));
    // Where blocks were put one by one, they have no frame around them.
    const html = () =>
      lastReply(page).evaluate((node) => node.innerHTML.replace(/<div class="tail">|<\/div>/g, ""));
    seen.add(await html());
    await page.reload();
    await lastReply(page).waitFor();
    seen.add(await html());
    await page.keyboard.press("Control+Shift+O");
  }
  assert.equal(seen.size, 1);
  await page.context().close();
});

test("code has colours and can be copied, links lead out safely", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await visit(server.url, { colorScheme });
    await ask(page, "50");
    await page.evaluate(() => document.querySelector(".scroller").scrollTo(0, 0));
    await shoot(page, `markdown-${colorScheme}`);
    const keyword = lastReply(page).locator(".hljs-keyword", { hasText: "fn" });
    const colour = (node) => getComputedStyle(node).color;
    assert.notEqual(await keyword.evaluate(colour), await lastReply(page).evaluate(colour));
    await page.getByRole("button", { name: "Copy", exact: true }).getByText("Copy").click();
    await page.getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), CODE);
    const link = lastReply(page).getByRole("link", { name: "link" });
    assert.equal(await link.getAttribute("href"), "https://example.org/there");
    assert.equal(await link.getAttribute("rel"), "noopener noreferrer nofollow");
    assert.equal(await link.getAttribute("target"), "_blank");
    assert.deepEqual(page.faults, []);
    await page.context().close();
  }
});

test("an answer can be copied as it was written", async () => {
  const page = await visit(server.url);
  await ask(page, "50");
  await page.locator("article.assistant footer").getByRole("button", { name: "Copy" }).click();
  await page.locator("article.assistant footer").getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), DOCUMENT);
  await page.context().close();
});
