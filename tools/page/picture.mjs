// Takes the screenshot in docs/images: the demo model with a fixed seed, so that it is reproducible.
import { closeBrowser, sendMessage, visit } from "./browser.mjs";
import { startServer } from "./server.mjs";

const server = await startServer(["--temperature", "0.7"]);
const page = await visit(server.url, {
  settings: { numbers: { seed: 5 } },
  colorScheme: "light",
  viewport: { width: 1200, height: 750 },
});
for (const question of ["Tell me about the sea", "Tell me about a clever cat", "Tell me a story"]) {
  await page.keyboard.press("Control+Shift+O");
  await sendMessage(page, question);
}
await page.evaluate(() => document.activeElement.blur());
await page.mouse.move(0, 0);
const path = new URL("../../docs/images/page.png", import.meta.url).pathname;
await page.screenshot({ path });
await closeBrowser();
await server.kill();
