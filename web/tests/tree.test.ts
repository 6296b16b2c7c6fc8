import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Chat,
  type Message,
  add,
  change,
  matches,
  newChat,
  path,
  pathTo,
  step,
  titleOf,
  versions,
} from "../src/history/tree.ts";

const message = (id: string, parent: string | null, content = id): Message => ({
  id,
  parent,
  role: id.startsWith("q") ? "user" : "assistant",
  content,
  created: 1,
});

/** q1 has the responses a1 and a2; a1 is followed by q2 and its response a3. */
function grown(): Chat {
  const all: [string, string | null][] = [
    ["q1", null],
    ["a1", "q1"],
    ["q2", "a1"],
    ["a3", "q2"],
    ["a2", "q1"],
  ];
  return all.reduce((chat, [id, parent]) => add(chat, message(id, parent)), newChat("c", 0));
}

const ids = (messages: Message[]) => messages.map(({ id }) => id).join(" ");

test("the newest version is shown and the others are kept", () => {
  const chat = grown();
  assert.equal(ids(path(chat)), "q1 a2");
  assert.equal(ids(versions(chat, "q1")), "a1 a2");
});

test("showing a version shows the messages below it", () => {
  const chat = step(grown(), "a2", -1);
  assert.equal(ids(path(chat)), "q1 a1 q2 a3");
  assert.equal(ids(path(step(chat, "a1", 1))), "q1 a2");
  assert.equal(step(chat, "a1", -1), chat, "the first has no predecessor");
  assert.equal(step(chat, "nobody", 1), chat);
});

test("an edited message is a sibling of the original", () => {
  const chat = add(grown(), message("q3", null));
  assert.equal(ids(path(chat)), "q3");
  assert.equal(ids(path(step(chat, "q3", -1))), "q1 a2");
});

test("a path contains only the ancestors of a message", () => {
  assert.equal(ids(pathTo(grown(), "q2")), "q1 a1 q2");
  assert.equal(ids(pathTo(grown(), "nobody")), "");
});

test("changing a message leaves the others unchanged", () => {
  const before = grown();
  const after = change(before, "a1", { content: "new" });
  assert.equal(after.messages.find(({ id }) => id === "a1")?.content, "new");
  assert.equal(before.messages.find(({ id }) => id === "a1")?.content, "a1");
  assert.equal(after.messages[0], before.messages[0]);
});

test("the first message becomes the title unless the user chose one", () => {
  assert.equal(grown().title, "q1");
  const named = { ...newChat("c", 0), title: "mine", isNamed: true };
  assert.equal(add(named, message("q1", null)).title, "mine");
  assert.equal(titleOf("  many \n lines  "), "many lines");
  assert.equal(titleOf("   "), "New chat");
  assert.equal([...titleOf("😀".repeat(100))].length, 60);
});

test("a search matches all words in titles and messages", () => {
  const chat = add(newChat("c", 0), message("q1", null, "The Sea and the dog"));
  for (const found of ["", "sea", "DOG sea", " the  "]) assert.ok(matches(chat, found), found);
  assert.ok(!matches(chat, "sea cat"));
});
