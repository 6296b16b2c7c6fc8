// Text files: chosen or dropped, counted in tokens, sent in the prompt, kept with the chat.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "./accessible.mjs";
import { becomes, closeBrowser, hasCount, responded, screenshot, sendMessage, visit } from "./browser.mjs";
import { chunk, end, startMock } from "./mock.mjs";
import { startServer } from "./server.mjs";

let server;
let bodies = [];
before(async () => {
  server = await startMock({
    respond: (_, send, body) => {
      bodies.push(body);
      send(chunk("Seen."));
      send(end(2));
    },
  });
});
after(async () => {
  await closeBrowser();
  server.close();
});

const file = (name, text) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
const attached = (page) => page.getByRole("list", { name: "Attached files" }).getByRole("listitem");
const input = (page) => page.getByLabel("Attach text files");

/** Drops a file on the page. */
async function drop(page, name, text) {
  const transfer = await page.evaluateHandle(
    ([name, text]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], name));
      return transfer;
    },
    [name, text],
  );
  await page.dispatchEvent("body", "dragover", { dataTransfer: transfer });
  await page.getByPlaceholder("Drop files to add them").waitFor();
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
}

test("files are counted, sent before the text, and kept", async () => {
  const page = await visit(server.url);
  await input(page).setInputFiles([file("sums.csv", "a,b\n1,2\n"), file("notes.md", "# Hi\n```\nx\n```\n")]);
  await drop(page, "data.json", '{"a": 1}');
  await becomes(
    async () => (await attached(page).allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim()),
    ["sums.csv 9 tokens", "notes.md 12 tokens", "data.json 10 tokens"],
  );
  await screenshot(page, "files");
  await assertAccessible(page, "files");
  await page.getByRole("button", { name: "Remove data.json" }).click();
  bodies = [];
  await sendMessage(page, "Sum?");
  await hasCount(attached(page), 0);
  const prompt =
    "File sums.csv:\n\n```csv\na,b\n1,2\n```\n\nFile notes.md:\n\n````markdown\n# Hi\n```\nx\n```\n````\n\nSum?";
  assert.deepEqual(bodies[0].messages, [{ role: "user", content: prompt }]);
  // An edited message keeps them, and so does a reload.
  await page.reload();
  await page.getByText("sums.csv").click();
  await page.getByText("a,b\n1,2").waitFor();
  await screenshot(page, "files-sent");
  await assertAccessible(page, "sent files");
  await page.getByRole("button", { name: "Edit and resend" }).click();
  await page.getByLabel("Edit your message").fill("Product?");
  await page.keyboard.press("Enter");
  await responded(page);
  assert.equal(bodies[1].messages[0].content, prompt.replace("Sum?", "Product?"));
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the text of a PDF file is sent, and a scan is refused", async () => {
  const page = await visit(server.url);
  // A file as the browser itself prints it: compressed, with fonts that map glyphs to text.
  const source = await page.context().newPage();
  await source.setContent("<h1>Größe: 5 €</h1><p>The second line, “quoted”.</p>");
  const print = await source.pdf();
  await source.setContent("<div style='width:50px;height:50px;background:teal'></div>");
  const scan = await source.pdf();
  await source.close();
  const pdf = (name, buffer) => ({ name, mimeType: "application/pdf", buffer });
  await input(page).setInputFiles([pdf("print.pdf", print), pdf("scan.pdf", scan)]);
  await page.getByText("scan.pdf: the PDF has no text that can be extracted: it may be a scan.").waitFor();
  await attached(page)
    .getByText(/^\d+ tokens/)
    .waitFor();
  bodies = [];
  await sendMessage(page, "Sum it up");
  const text = "File print.pdf:\n\n```\nGröße: 5 €\nThe second line, “quoted”.\n```\n\nSum it up";
  assert.equal(bodies[0].messages[0].content, text);
  await screenshot(page, "files-pdf");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("files that cannot be sent are refused with a reason", async () => {
  const page = await visit(server.url);
  await input(page).setInputFiles([
    { name: "a.png", mimeType: "image/png", buffer: Buffer.from([0x89, 0x50, 0xff]) },
    file("b.txt", ""),
    file("c.txt", "x".repeat(1_000_001)),
  ]);
  await page
    .getByText(
      "a.png: not a text file (neither UTF-8 nor UTF-16). b.txt: the file is empty. " +
        "c.txt: larger than 1 MB (1.0 MB).",
    )
    .waitFor();
  await hasCount(attached(page), 0);
  await input(page).setInputFiles(Array.from({ length: 11 }, (_, at) => file(`${at}.txt`, "text")));
  await page.getByText("10.txt: more than 10 files.").waitFor();
  for (let left = 10; left > 0; left -= 1)
    await page
      .getByRole("button", { name: /^Remove/ })
      .first()
      .click();
  // Four characters a token, and a context of 8,192 tokens.
  await input(page).setInputFiles([file("long.txt", "x".repeat(40_000))]);
  await page.getByText("The files have 10,006 tokens; the context of the model has 8,192.").waitFor();
  await screenshot(page, "files-too-long");
  await becomes(() => page.getByRole("button", { name: "Send" }).isDisabled(), true);
  await page.getByRole("button", { name: "Remove long.txt" }).click();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the server counts the tokens of files as it counts the prompt", async (t) => {
  const server = await startServer();
  t.after(() => server.kill());
  const page = await visit(server.url, { settings: { numbers: { max_tokens: 1 } } });
  const prompts = [];
  for (const text of ["The dog ran home. ", "The dog ran home. ".repeat(20)]) {
    await page.keyboard.press("Control+Shift+O");
    await input(page).setInputFiles([file("dog.txt", text)]);
    const size = await attached(page)
      .getByText(/tokens/)
      .innerText();
    await sendMessage(page, "Go on");
    const stats = await page.locator(".stats").last().innerText();
    prompts.push(Number(/prompt ([\d,]+)/.exec(stats)[1].replace(",", "")) - Number(/\d+/.exec(size)[0]));
  }
  // What is left is the chat template, which does not depend on the file.
  assert.equal(prompts[0], prompts[1]);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
