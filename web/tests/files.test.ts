import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, readText } from "../src/browser/text.ts";
import { cleanName, fenced, promptOf } from "../src/history/files.ts";

test("a file is a code block below its name, before the text of the message", () => {
  const files = [{ name: "a.csv", text: "x,y\n1,2\n" }];
  const message = { id: "", parent: null, role: "user" as const, created: 0, content: "Sum?" };
  assert.equal(promptOf({ ...message, files }), "File a.csv:\n\n```csv\nx,y\n1,2\n```\n\nSum?");
  assert.equal(promptOf({ ...message, content: "", files: [] }), "");
});

test("no file can end its block", () => {
  assert.equal(fenced({ name: "x", text: "a\n````\nb" }), "File x:\n\n`````\na\n````\nb\n`````");
  assert.ok(fenced({ name: "n.MD", text: "" }).startsWith("File n.MD:\n\n```markdown\n"));
  assert.equal(cleanName("a\n`b`\u202E.txt"), "a__b__.txt");
  assert.equal(cleanName(""), "file");
});

const bytes = (...values: number[]) => new Uint8Array(values);

test("text is decoded, everything else is refused by name", async () => {
  assert.equal(decode(new TextEncoder().encode("\uFEFFä\r\nb\rc")), "ä\nb\nc");
  assert.equal(decode(bytes(255, 254, 0xe4, 0)), "ä");
  assert.equal(decode(bytes(254, 255, 0, 0xe4)), "ä");
  assert.throws(() => decode(bytes(0x89, 0x50, 0x4e, 0x47)), /not a text file \(neither/);
  assert.throws(() => decode(bytes(65, 0, 65)), /NUL/);
  await assert.rejects(readText(new File([" \n"], "a")), /empty/);
  await assert.rejects(readText(new File(["x".repeat(1_000_001)], "a")), /larger than 1 MB/);
});
