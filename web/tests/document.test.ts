import assert from "node:assert/strict";
import { test } from "node:test";
import { fileNameOf, toMarkdown } from "../src/history/document.ts";
import { type Message, add, newChat } from "../src/history/tree.ts";

const message = (id: string, parent: string | null, more: Partial<Message> = {}): Message => ({
  id,
  parent,
  role: id.startsWith("q") ? "user" : "assistant",
  content: id,
  created: 1,
  ...more,
});

test("a document has tool calls with their results", () => {
  const call = { id: "c", name: "add", arguments: '{"a":2}', state: "done" as const, result: "5" };
  const rounds = [{ content: "Let me see.", calls: [call] }];
  const chat = [message("q1", null), message("a1", "q1", { rounds, content: "It is 5." })].reduce(
    add,
    newChat("c", 0),
  );
  const text = 'Let me see.\n\nTool call add {"a":2}:\n\n```\n5\n```\n\nIt is 5.';
  assert.ok(toMarkdown(chat).endsWith(`## Assistant\n\n${text}\n`), toMarkdown(chat));
});

test("a document has the shown path, the system prompt and quoted thinking", () => {
  const thinking = { text: "Two\nlines", ms: 1 };
  const chat = [
    message("q1", null, { content: "Say *this*" }),
    message("a1", "q1"),
    message("a2", "q1", { thinking, content: "```\ncode\n```\n" }),
  ].reduce(add, newChat("c", 0, "Be kind"));
  assert.equal(
    toMarkdown(chat),
    `# Say *this*

## System prompt

Be kind

## User

Say *this*

## Assistant

> Two
> lines

\`\`\`
code
\`\`\`
`,
  );
});

test("file names are safe", () => {
  assert.equal(fileNameOf("../../etc: The Sea & me?"), "etc-the-sea-me.md");
  assert.equal(fileNameOf("Grüße, 世界"), "grüße-世界.md");
  assert.equal(fileNameOf("…"), "chat.md");
  assert.equal(fileNameOf("x".repeat(500)).length, 63);
});
