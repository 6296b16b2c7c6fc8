// Formulas: MathML while streaming and after a reload; what is not understood is shown as its source.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { becomes, closeBrowser, hasCount, lastResponse, screenshot, sendMessage, visit } from "./browser.mjs";
import { sendChunks, startMock } from "./mock.mjs";

const DOCUMENT = String.raw`The roots of $ax^2 + bx + c = 0$ are

$$
x_{1,2} = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}
$$

and \(e^{i\pi} + 1 = 0\). With a sum:

\[\sum_{k=1}^{n} k = \frac{n(n+1)}{2}, \qquad \int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}\]

A matrix $$A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$$ in a line, and

$$
\begin{aligned}
f(x) &= \begin{cases} 1 & \text{if } x \in \mathbb{Q} \\ 0 & \text{otherwise} \end{cases} \\
\left\lVert \frac{\vec{v}}{2} \right\rVert &\le \max_{i} \hat{v}_i = \boxed{42}
\end{aligned}
$$

It costs $5, not $10. This is unknown: $\mystery{x}$.
`;

let server;
before(async () => {
  server = await startMock({ respond: (size, send) => sendChunks(DOCUMENT, Number(size), send) });
});
after(async () => {
  await closeBrowser();
  server.close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`formulas are shown in the ${colorScheme} theme`, async () => {
    const page = await visit(server.url, { colorScheme });
    await sendMessage(page, "9");
    await page.evaluate(() => document.querySelector(".scroller").scrollTo(0, 0));
    await screenshot(page, `math-${colorScheme}`);
    const response = lastResponse(page);
    await hasCount(response.locator("math"), 6);
    await hasCount(response.locator("math[display=block]"), 4);
    await becomes(() => response.locator(".source").innerText(), String.raw`$\mystery{x}$`);
    assert.match(await response.innerText(), /It costs \$5, not \$10\./);
    // The browser lays formulas out: a fraction is taller than a line, and the root of a number wider than the number.
    const height = (at) =>
      response
        .locator("mfrac")
        .nth(at)
        .evaluate((node) => node.getBoundingClientRect().height);
    assert.ok((await height(0)) > 25);
    await assertAccessible(page, "math");
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

test("a formula does not depend on the sizes of chunks", async () => {
  const page = await visit(server.url);
  const seen = new Set();
  for (const size of [1, 5, 64, 10_000]) {
    await sendMessage(page, String(size));
    const html = () =>
      lastResponse(page).evaluate((node) => node.innerHTML.replace(/<div class="tail">|<\/div>/g, ""));
    seen.add(await html());
    await page.keyboard.press("Control+Shift+O");
  }
  assert.equal(seen.size, 1);
  await page.context().close();
});

test("a wide formula scrolls and does not widen the page", async () => {
  const page = await visit(server.url, { viewport: { width: 390, height: 760 } });
  await sendMessage(page, "64");
  assert.equal(
    await page.evaluate(() => document.querySelector(".scroller").scrollWidth > innerWidth),
    false,
  );
  await screenshot(page, "math-phone");
  await page.context().close();
});
