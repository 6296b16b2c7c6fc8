// A browser that sees only the server under test, and reports whatever else it tries.
import { mkdirSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const root = new URL("../../", import.meta.url);
export const shots = new URL("target/page/", root);
mkdirSync(shots, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Containers run as root and have little shared memory.
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
export const closeBrowser = () => browser.close();

/** The page as it was built last, with its policy. */
export const built = {
  html: readFileSync(new URL("crates/server/assets/page.html", root)),
  policy: readFileSync(new URL("crates/server/assets/page.csp", root), "utf8"),
};

/**
 * A new visitor. `page.faults` collects what must not happen: errors, refusals of the policy, and requests
 * that leave the origin.
 */
export async function visit(url, { settings, isTimed = false, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  if (settings) {
    const text = JSON.stringify(settings);
    await context.addInitScript((text) => localStorage.setItem("wf-settings", text), text);
  }
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
  page.on("console", (line) => {
    // A server that is away or refuses is part of some tests; the page says so itself.
    const isExpected = /Failed to load resource/.test(line.text());
    if (line.type() === "error" && !isExpected) page.faults.push(`console: ${line.text()}`);
  });
  page.on("dialog", (dialog) => {
    page.faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  if (!isTimed) await watchRequests(context, page, url);
  await page.goto(url);
  return page;
}

/** Lets nothing out. Each request takes longer for it, so not where time is measured. */
async function watchRequests(context, page, url) {
  const { origin } = new URL(url);
  await context.route("**/*", (route) => {
    const target = new URL(route.request().url());
    if (target.origin === origin) return route.fallback();
    page.faults.push(`request: ${target}`);
    return route.abort();
  });
  if (process.env.WF_PAGE_BUILT) {
    // While working on the page: not the one in the binary, but the one built last.
    const headers = { "content-type": "text/html", "content-security-policy": built.policy };
    await context.route(url, (route) => route.fulfill({ body: built.html, headers }));
  }
}

/** Writes a picture of the page to target/page. */
export async function shoot(page, name) {
  await page.screenshot({ path: new URL(`${name}.png`, shots).pathname });
}

/** Asks something and waits for the whole of the reply. */
export async function ask(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
  await replied(page);
}

/** Waits until no reply is being written. */
export async function replied(page) {
  await page.locator("article.assistant").last().waitFor();
  await page.locator("article[aria-busy=true]").waitFor({ state: "detached" });
}

export const lastReply = (page) => page.locator("article.assistant").last().locator(".markdown");
