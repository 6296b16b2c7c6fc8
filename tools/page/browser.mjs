// Starts a browser that can reach only the server under test and reports any other request.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { chromium } from "playwright-core";

const root = new URL("../../", import.meta.url);
export const screenshots = new URL("target/page/", root);
mkdirSync(screenshots, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Containers run as root and have little shared memory.
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
export const closeBrowser = () => browser.close();

/** The page in crates/server/assets, with its content security policy. */
export const built = {
  html: readFileSync(new URL("crates/server/assets/page.html", root)),
  policy: readFileSync(new URL("crates/server/assets/page.csp", root), "utf8"),
};

/**
 * Opens the page in a new browser context. `page.problems` collects errors, policy violations and requests to
 * other origins, except for the addresses in `others`. `script` runs in the page before its own code.
 */
export async function visit(url, { settings, script, others = [], isTimed = false, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  if (settings) {
    const text = JSON.stringify(settings);
    await context.addInitScript((text) => localStorage.setItem("wf-settings", text), text);
  }
  if (script) await context.addInitScript(script);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(`error: ${error.message}`));
  page.on("console", (line) => {
    // Some tests stop the server or make it reject requests; the page reports these errors itself.
    const isExpected = /Failed to load resource/.test(line.text());
    if (line.type() === "error" && !isExpected) page.problems.push(`console: ${line.text()}`);
  });
  page.on("dialog", (dialog) => {
    page.problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  if (!isTimed) await watchRequests(context, page, url, others);
  await page.goto(url);
  return page;
}

/** Blocks requests to other origins. This slows down each request, so timed tests do not use it. */
async function watchRequests(context, page, url, others) {
  const { origin } = new URL(url);
  await context.route("**/*", (route) => {
    const target = new URL(route.request().url());
    if (target.origin === origin || others.includes(target.href)) return route.fallback();
    page.problems.push(`request: ${target}`);
    return route.abort();
  });
  if (process.env.WF_PAGE_BUILT) {
    // For development: serves the last build instead of the page in the binary.
    const policy = built.policy.replace("connect-src 'self'", ["connect-src 'self'", ...others].join(" "));
    const headers = { "content-type": "text/html", "content-security-policy": policy };
    await context.route(url, (route) => route.fulfill({ body: built.html, headers }));
  }
}

/** Writes a screenshot to target/page. */
export async function screenshot(page, name) {
  await page.screenshot({ path: new URL(`${name}.png`, screenshots).pathname });
}

/** Waits until `read` returns what is expected: the page may not have drawn it yet. Fails with the last value. */
export async function becomes(read, expected) {
  const deadline = Date.now() + 30_000;
  let value = await read();
  while (!isDeepStrictEqual(value, expected) && Date.now() < deadline) {
    await setTimeout(20);
    value = await read();
  }
  assert.deepEqual(value, expected);
}
export const hasCount = (locator, count) => becomes(() => locator.count(), count);
export const hasTexts = (locator, texts) => becomes(() => locator.allInnerTexts(), texts);

/** Sends a message and waits for the end of the response. */
export async function sendMessage(page, text) {
  const before = await page.locator("article.assistant").count();
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
  await page.locator("article.assistant").nth(before).waitFor();
  await responded(page);
}

/** Waits until no response is being generated. */
export async function responded(page) {
  await page.locator("article.assistant").last().waitFor();
  await page.locator("article[aria-busy=true]").waitFor({ state: "detached" });
}

export const lastResponse = (page) => page.locator("article.assistant").last().locator(".markdown");
