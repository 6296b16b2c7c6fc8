// Settings, themes, screen sizes, keyboard and accessibility.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { becomes, closeBrowser, screenshot, sendMessage, visit } from "./browser.mjs";
import { SLOW, startServer } from "./server.mjs";

let server;
before(async () => {
  server = await startServer(["--temperature", "0.5"]);
});
after(async () => {
  await closeBrowser();
  await server.kill();
});

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

test("settings show the server's defaults, are stored and are sent", async () => {
  const page = await visit(server.url);
  await page.getByText("Chat with wf-demo").waitFor();
  await page.keyboard.press("Control+,");
  await becomes(() => page.getByLabel("Temperature").getAttribute("placeholder"), "0.5");
  await page.getByLabel("System prompt for new chats").fill("You tell stories");
  await page.getByLabel("Temperature").click();
  await page.keyboard.type("0.2");
  await page.getByLabel("Max tokens").fill("7");
  await page.getByLabel("Seed").fill("42");
  await page.getByLabel("Top-p").fill("5");
  await page.getByLabel("Stop strings").fill("zebra\nyak");
  await page.getByLabel("Stop token ids").fill("3 x");
  await page.getByLabel("Stop token ids").fill("3, 4");
  await page.getByLabel("Logit bias").fill("7: -100");
  await screenshot(page, "settings");
  await assertAccessible(page, "settings");
  await page.keyboard.press("Escape");
  await page.reload();
  const [request] = await Promise.all([
    page.waitForRequest((request) => request.method() === "POST"),
    sendMessage(page, "Tell me a story"),
  ]);
  const { messages, stream, stream_options, return_progress, ...settings } = request.postDataJSON();
  assert.deepEqual(settings, {
    temperature: 0.2,
    max_tokens: 7,
    seed: 42,
    stop: ["zebra", "yak"],
    stop_token_ids: [3, 4],
    logit_bias: { 7: -100 },
  });
  assert.equal(messages[0].content, "You tell stories");
  await page.getByText("The response reached the maximum length.").waitFor();
  await page.keyboard.press("Control+,");
  await page.getByRole("button", { name: "Reset to server defaults" }).click();
  await becomes(() => page.getByLabel("Temperature").inputValue(), "");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`the ${colorScheme} theme is accessible`, async () => {
    const page = await visit(server.url, { colorScheme });
    await page.getByText("Chat with wf-demo").waitFor();
    await assertAccessible(page, "welcome");
    await sendMessage(page, "Tell me a story");
    await screenshot(page, `response-${colorScheme}`);
    await assertAccessible(page, "response");
    await page.keyboard.press("Control+,");
    await assertAccessible(page, "settings");
    await screenshot(page, `settings-${colorScheme}`);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Help" }).click();
    await assertAccessible(page, "help");
    await screenshot(page, `help-${colorScheme}`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Alt+2");
    await page.getByText("Running requests").waitFor();
    await assertAccessible(page, "server");
    await screenshot(page, `server-${colorScheme}`);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

test("the theme follows the system until the user selects one", async () => {
  const page = await visit(server.url, { colorScheme: "dark" });
  const dark = await background(page);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await background(page);
  assert.notEqual(dark, light);
  const button = page.getByRole("button", { name: "Theme" });
  await button.click();
  await button.click();
  assert.equal(await background(page), dark);
  await page.reload();
  assert.equal(await background(page), dark);
  await page.context().close();
});

test("the page fits a phone", async () => {
  const page = await visit(server.url, {
    viewport: { width: 375, height: 667 },
    isMobile: true,
    hasTouch: true,
    deviceScaleFactor: 2,
  });
  await page.getByText("Chat with wf-demo").waitFor();
  await screenshot(page, "phone-welcome");
  await sendMessage(page, "Tell me about a girl and her dog");
  await screenshot(page, "phone-response");
  await assertAccessible(page, "phone");
  const isWide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(await isWide(), false);
  await page.getByRole("button", { name: "Open chat list" }).tap();
  await page.getByRole("link", { name: "Tell me about a girl and her dog" }).waitFor();
  await page.waitForTimeout(250);
  await screenshot(page, "phone-list");
  await assertAccessible(page, "phone list");
  await page.getByRole("button", { name: "Close chat list" }).tap();
  await page.getByRole("button", { name: "Settings" }).tap();
  await screenshot(page, "phone-settings");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Server", exact: true }).tap();
  await page.getByText("Running requests").waitFor();
  await screenshot(page, "phone-server");
  assert.equal(await isWide(), false);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the page is usable without a mouse", async () => {
  const page = await visit(server.url);
  await page.getByText("Chat with wf-demo").waitFor();
  await page.keyboard.type("Tell me a story");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Regenerate" }).waitFor();
  const reached = new Set();
  for (let presses = 0; presses < 40; presses += 1) {
    await page.keyboard.press("Tab");
    reached.add(
      await page.evaluate(() => {
        const { activeElement: at } = document;
        return at?.getAttribute("aria-label") ?? at?.textContent?.trim();
      }),
    );
  }
  for (const name of ["New chat", "Search chats", "Chat", "Server", "Settings", "Help", "Regenerate"]) {
    assert.ok(reached.has(name), `${name} is not among ${[...reached].join(", ")}`);
  }
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Help" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await becomes(() => page.evaluate(() => document.activeElement.id), "composer");
  await page.keyboard.press("Alt+2");
  await page.getByText("Running requests").waitFor();
  await page.keyboard.press("Alt+1");
  await page.getByLabel("Message", { exact: true }).waitFor();
  await page.context().close();
});

test("reduced motion disables animations", async () => {
  const page = await visit(server.url, { reducedMotion: "reduce", settings: { ignoreEos: true } });
  await page.getByLabel("Message", { exact: true }).fill("Go on");
  await page.keyboard.press("Enter");
  await page.locator("article[aria-busy=true]").waitFor();
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  await page.context().close();
});

test("the server view shows metrics", async (t) => {
  const server = await startServer(SLOW);
  t.after(() => server.kill());
  const page = await visit(server.url, { settings: { ignoreEos: true } });
  await page.getByLabel("Message", { exact: true }).fill("Go on");
  await page.keyboard.press("Enter");
  await page.locator("article[aria-busy=true]").waitFor();
  await page.getByRole("button", { name: "Server", exact: true }).click();
  await page.getByRole("img", { name: /^Running requests: now 1/ }).waitFor();
  await page.getByRole("img", { name: /^Generated tokens: now [1-9][\d.,]*\/s/ }).waitFor();
  await page.getByRole("img", { name: /^K\/V pages in use: now [1-9]\d* of 256/ }).waitFor();
  await screenshot(page, "server-busy");
  await page.getByRole("button", { name: "Chat", exact: true }).click();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped.").waitFor();
  await page.context().close();
});
