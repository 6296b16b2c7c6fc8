// Tools by MCP: off by default, each call shown and allowed by a click, results back in the chat.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { becomes, closeBrowser, hasCount, lastResponse, responded, screenshot, visit } from "./browser.mjs";
import { startMcp } from "./mcp_server.mjs";
import { chunk, end, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

after(closeBrowser);

const call = (name, args) => ({
  choices: [
    {
      delta: {
        tool_calls: [{ index: 0, id: "call-1", function: { name, arguments: JSON.stringify(args) } }],
      },
      finish_reason: "tool_calls",
    },
  ],
});

/** Starts a server whose model calls a tool once, and then says what it returned. */
async function start(t, { mcp, name = "add", args = { a: 2, b: 3 } }) {
  const bodies = [];
  const server = await startMock({
    props: { mcp_servers: [mcp.url] },
    respond: async (_, send, body) => {
      bodies.push(body);
      const last = body.messages.at(-1);
      if (!body.tools) send(chunk("I have no tools."));
      else if (last.role === "tool") send(chunk(`It is ${last.content}.`));
      else {
        send(chunk("Let me see. "));
        send(call(name, args));
      }
      send(end(3));
    },
  });
  t.after(() => {
    server.close();
    mcp.close();
  });
  return { server, bodies };
}

const toolCall = (page, name) => page.getByRole("region", { name: `Tool call ${name}` });

async function switchOn(page, url) {
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel(url).check();
  await page.getByText("Tools: add, fail").waitFor();
  await page.keyboard.press("Escape");
}

async function send(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
}

test("a server is not contacted before it is switched on", async (t) => {
  const mcp = await startMcp();
  const { server, bodies } = await start(t, { mcp });
  const page = await visit(server.url);
  await send(page, "Add 2 and 3");
  await lastResponse(page).getByText("I have no tools.").waitFor();
  await page.getByRole("button", { name: "Settings" }).click();
  await becomes(() => page.getByLabel(mcp.url).isChecked(), false);
  assert.deepEqual([mcp.methods, bodies[0].tools], [[], undefined]);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

for (const [width, colorScheme] of [
  [1280, "light"],
  [390, "dark"],
]) {
  test(`a call is shown, allowed and answered at ${width} pixels, ${colorScheme}`, async (t) => {
    const mcp = await startMcp({ isStreaming: width === 390 });
    const { server, bodies } = await start(t, { mcp });
    const page = await visit(server.url, {
      others: [mcp.url],
      colorScheme,
      viewport: { width, height: 800 },
    });
    await switchOn(page, mcp.url);
    await send(page, "Add 2 and 3");
    await toolCall(page, "add").getByText("waits for you").waitFor();
    assert.deepEqual(mcp.calls, [], "nothing is called without a click");
    await hasCount(page.locator("article").getByText("Let me see."), 1);
    await screenshot(page, `mcp-asks-${width}`);
    await assertAccessible(page, "mcp");
    await page.getByRole("button", { name: "Allow once" }).click();
    await lastResponse(page).getByText("It is 5.").waitFor();
    await responded(page);
    assert.deepEqual(mcp.calls, [{ name: "add", args: { a: 2, b: 3 } }]);
    assert.equal(mcp.headers.at(-1).cookie, undefined);
    assert.equal(mcp.headers.at(-1).authorization, undefined);
    const [, asked, result] = bodies[1].messages;
    assert.deepEqual(asked.tool_calls[0].function, { name: "add", arguments: '{"a":2,"b":3}' });
    assert.deepEqual(result, { role: "tool", tool_call_id: "call-1", content: "5" });
    assert.deepEqual(
      bodies[0].tools.map((tool) => tool.function.name),
      ["add", "fail"],
    );
    await screenshot(page, `mcp-answered-${width}`);
    // The calls are a part of the chat: of later requests, and after a reload.
    await page.reload();
    await toolCall(page, "add").getByText("done").waitFor();
    await page.getByText("It is 5.").last().waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

test("a tool that is always allowed is not asked about, until the user takes that back", async (t) => {
  const mcp = await startMcp();
  const { server } = await start(t, { mcp });
  const page = await visit(server.url, { others: [mcp.url] });
  await switchOn(page, mcp.url);
  await send(page, "Add");
  await page.getByRole("button", { name: "Always allow this tool" }).click();
  await responded(page);
  await send(page, "Again");
  await responded(page);
  assert.equal(mcp.calls.length, 2);
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByRole("button", { name: "Ask again for 1 tool" }).click();
  await page.keyboard.press("Escape");
  await send(page, "Once more");
  await page.getByRole("button", { name: "Deny" }).click();
  await lastResponse(page).getByText("The user did not allow this call.").waitFor();
  assert.equal(mcp.calls.length, 2);
  await page.context().close();
});

test("errors of tools and servers are shown", async (t) => {
  const mcp = await startMcp();
  const { server } = await start(t, { mcp, name: "fail", args: {} });
  const page = await visit(server.url, { others: [mcp.url] });
  await switchOn(page, mcp.url);
  await send(page, "Fail");
  await page.getByRole("button", { name: "Allow once" }).click();
  await toolCall(page, "fail").getByText("failed").waitFor();
  await toolCall(page, "fail").getByText("it is broken").waitFor();
  await responded(page);
  await page.context().close();
});

test("a server that does not allow the page is reported", async (t) => {
  const mcp = await startMcp({ isOpen: false });
  const { server } = await start(t, { mcp });
  const page = await visit(server.url, { others: [mcp.url] });
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel(mcp.url).check();
  await page.getByText("does not allow requests of this page (CORS)").waitFor();
  await page.getByRole("button", { name: "Try again" }).waitFor();
  // Nothing shows above the title of a dialog that is scrolled.
  await page.setViewportSize({ width: 1280, height: 400 });
  await page.locator("dialog").evaluate((dialog) => dialog.scrollTo(0, dialog.scrollHeight));
  const head = page.locator(".dialog-head");
  assert.equal(await head.evaluate((head) => head.getBoundingClientRect().top), 0);
  await page.context().close();
});

test("the policy of the real server lists exactly the servers of the operator", async (t) => {
  const mcp = await startMcp();
  const real = await startServer(["--mcp-server", mcp.url]);
  t.after(async () => {
    mcp.close();
    await real.kill();
  });
  const policy = (await fetch(real.url)).headers.get("content-security-policy");
  assert.match(policy, new RegExp(`; connect-src 'self' ${mcp.url};`));
  const page = await visit(real.url, { others: [mcp.url] });
  await switchOn(page, mcp.url);
  await send(page, "hello");
  await responded(page);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a call that waits can be stopped by key", async (t) => {
  const mcp = await startMcp();
  const { server } = await start(t, { mcp });
  const page = await visit(server.url, { others: [mcp.url] });
  await switchOn(page, mcp.url);
  await send(page, "Add");
  await page.getByRole("button", { name: "Deny" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("Stopped.").waitFor();
  await hasCount(page.getByRole("button", { name: "Allow once" }), 0);
  assert.deepEqual(mcp.calls, []);
  await page.context().close();
});
