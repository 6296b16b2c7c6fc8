// Settings, colours, sizes, keys, and what axe has to say about each.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { ask, closeBrowser, shoot, visit } from "./browser.mjs";
import { startServer } from "./server.mjs";

let server;
before(async () => {
  server = await startServer(["--temperature", "0.5"]);
});
after(async () => {
  await closeBrowser();
  await server.kill();
});

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

test("settings come from the server, are kept and are sent", async () => {
  const page = await visit(server.url);
  await page.getByText("Talk with wf-demo").waitFor();
  await page.keyboard.press("Control+,");
  assert.equal(await page.getByLabel("Temperature").getAttribute("placeholder"), "0.5");
  await page.getByLabel("System prompt of new chats").fill("You tell stories");
  await page.getByLabel("Temperature").fill("0.2");
  await page.getByLabel("Longest reply").fill("7");
  await page.getByLabel("Seed").fill("42");
  await page.getByLabel("Top p").fill("5");
  await page.getByLabel("Texts that end a reply").fill("zebra\nyak");
  await page.getByLabel("Tokens that end a reply").fill("3 x");
  await page.getByLabel("Tokens that end a reply").fill("3, 4");
  await page.getByLabel("Bias of tokens").fill("7: -100");
  await shoot(page, "settings");
  await assertAccessible(page, "settings");
  await page.keyboard.press("Escape");
  await page.reload();
  const [request] = await Promise.all([
    page.waitForRequest((request) => request.method() === "POST"),
    ask(page, "Tell me a story"),
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
  await page.getByText("The reply reached its longest length.").waitFor();
  await page.keyboard.press("Control+,");
  await page.getByRole("button", { name: "Leave all to the server" }).click();
  assert.equal(await page.getByLabel("Temperature").inputValue(), "");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`in ${colorScheme}, nobody is kept out`, async () => {
    const page = await visit(server.url, { colorScheme });
    await page.getByText("Talk with wf-demo").waitFor();
    await assertAccessible(page, "welcome");
    await ask(page, "Tell me a story");
    await shoot(page, `reply-${colorScheme}`);
    await assertAccessible(page, "reply");
    await page.keyboard.press("Control+,");
    await assertAccessible(page, "settings");
    await shoot(page, `settings-${colorScheme}`);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Help" }).click();
    await assertAccessible(page, "help");
    await shoot(page, `help-${colorScheme}`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Alt+2");
    await page.getByText("Replies running").waitFor();
    await assertAccessible(page, "server");
    await shoot(page, `server-${colorScheme}`);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });
}

test("colours follow the system until somebody chooses, and stay chosen", async () => {
  const page = await visit(server.url, { colorScheme: "dark" });
  const dark = await background(page);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await background(page);
  assert.notEqual(dark, light);
  const button = page.getByRole("button", { name: "Colours" });
  await button.click();
  await button.click();
  assert.equal(await background(page), dark);
  await page.reload();
  assert.equal(await background(page), dark);
  await page.context().close();
});

test("a phone has room for all of it", async () => {
  const page = await visit(server.url, {
    viewport: { width: 375, height: 667 },
    isMobile: true,
    hasTouch: true,
    deviceScaleFactor: 2,
  });
  await page.getByText("Talk with wf-demo").waitFor();
  await shoot(page, "phone-welcome");
  await ask(page, "Tell me about a girl and her dog");
  await shoot(page, "phone-reply");
  await assertAccessible(page, "phone");
  const isWide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(await isWide(), false);
  await page.getByRole("button", { name: "Open the list of chats" }).tap();
  await page.getByRole("link", { name: "Tell me about a girl and her dog" }).waitFor();
  await page.waitForTimeout(250);
  await shoot(page, "phone-list");
  await assertAccessible(page, "phone list");
  await page.getByRole("button", { name: "Close the list of chats" }).tap();
  await page.getByRole("button", { name: "Settings" }).tap();
  await shoot(page, "phone-settings");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Server", exact: true }).tap();
  await page.getByText("Replies running").waitFor();
  await shoot(page, "phone-server");
  assert.equal(await isWide(), false);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("everything can be done without a mouse", async () => {
  const page = await visit(server.url);
  await page.getByText("Talk with wf-demo").waitFor();
  await page.keyboard.type("Tell me a story");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Write again" }).waitFor();
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
  for (const name of [
    "New chat",
    "Search the history",
    "Chat",
    "Server",
    "Settings",
    "Help",
    "Write again",
  ]) {
    assert.ok(reached.has(name), `${name} is not among ${[...reached].join(", ")}`);
  }
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Help" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "composer");
  await page.keyboard.press("Alt+2");
  await page.getByText("Replies running").waitFor();
  await page.keyboard.press("Alt+1");
  await page.getByLabel("Message", { exact: true }).waitFor();
  await page.context().close();
});

test("who wants no motion gets none", async () => {
  const page = await visit(server.url, { reducedMotion: "reduce", settings: { ignoreEos: true } });
  await page.getByLabel("Message", { exact: true }).fill("Go on");
  await page.keyboard.press("Enter");
  await page.locator("article[aria-busy=true]").waitFor();
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  await page.context().close();
});

test("the server's tab shows what it is doing", async () => {
  const page = await visit(server.url, { settings: { ignoreEos: true } });
  await page.getByLabel("Message", { exact: true }).fill("Go on");
  await page.keyboard.press("Enter");
  await page.locator("article[aria-busy=true]").waitFor();
  await page.getByRole("button", { name: "Server", exact: true }).click();
  await page.getByRole("img", { name: /^Replies running: now 1/ }).waitFor();
  await page.getByRole("img", { name: /^Reply tokens: now [1-9][\d.,]*\/s/ }).waitFor();
  await page.getByRole("img", { name: /^K\/V pages in use: now [1-9]\d* of 256/ }).waitFor();
  await shoot(page, "server-busy");
  await page.getByRole("button", { name: "Chat", exact: true }).click();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped.").waitFor();
  await page.context().close();
});
