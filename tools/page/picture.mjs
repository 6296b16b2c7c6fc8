// The picture of the page in docs/images: the demo model, with a seed, so that it is the same each time.
import { closeBrowser, ask, visit } from "./browser.mjs";
import { startServer } from "./server.mjs";

const server = await startServer(["--temperature", "0.7"]);
const page = await visit(server.url, {
  settings: { numbers: { seed: 5 } },
  colorScheme: "light",
  viewport: { width: 1200, height: 750 },
});
for (const question of ["Tell me about the sea", "Tell me about a clever cat", "Tell me a story"]) {
  await page.keyboard.press("Control+Shift+O");
  await ask(page, question);
}
await page.evaluate(() => document.activeElement.blur());
await page.mouse.move(0, 0);
const path = new URL("../../docs/images/page.png", import.meta.url).pathname;
await page.screenshot({ path });
await closeBrowser();
await server.kill();
