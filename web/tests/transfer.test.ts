import assert from "node:assert/strict";
import { test } from "node:test";
import { read, write } from "../src/history/transfer.ts";
import { type Chat, add, newChat } from "../src/history/tree.ts";

function chat(): Chat {
  const empty = newChat("c1", 5, "be brief");
  const sent = add(empty, { id: "m1", parent: null, role: "user", content: "Hi", created: 6 });
  return add(sent, {
    id: "m2",
    parent: "m1",
    role: "assistant",
    content: "Hello",
    created: 7,
    ending: "length",
    stats: {
      promptTokens: 3,
      cachedTokens: 1,
      replyTokens: 2,
      replyPerSecond: 10.5,
      promptPerSecond: 20,
      queueMs: 0,
      context: 2048,
      seed: 7,
      model: "m",
      passes: 1,
      drafted: 4,
      accepted: 1,
    },
  });
}

test("an exported file is imported unchanged", () => {
  assert.deepEqual(read(write([chat(), newChat("c2", 1)])), [chat(), newChat("c2", 1)]);
});

test("tool calls are kept, and checked", () => {
  const calls = [{ id: "c", name: "add", arguments: "{}", state: "done" as const, result: "5" }];
  const rounds = [{ content: "Let me see.", calls }];
  const called = add(chat(), {
    id: "m3",
    parent: "m1",
    role: "assistant",
    content: "It is 5.",
    created: 8,
    rounds,
  });
  assert.deepEqual(read(write([called])), [called]);
  const file = JSON.parse(write([called]));
  file.chats[0].messages[2].rounds[0].calls[0].state = "<b>";
  assert.equal(read(JSON.stringify(file))[0]!.messages[2]!.rounds![0]!.calls[0]!.state, "denied");
  file.chats[0].messages[2].rounds[0].calls[0].result = 5;
  assert.throws(() => read(JSON.stringify(file)), /result is not a string/);
});

test("unknown fields are dropped", () => {
  const file = JSON.parse(write([chat()]));
  file.chats[0].messages[0].onclick = "alert(1)";
  file.chats[0].extra = {};
  assert.deepEqual(read(JSON.stringify(file)), [chat()]);
});

test("an invalid file is rejected with a reason", () => {
  const changed = (change: (file: any) => void): string => {
    const file = JSON.parse(write([chat()]));
    change(file);
    return JSON.stringify(file);
  };
  const wrong: [string, RegExp][] = [
    ["", /not valid JSON/],
    ["[]", /not a chat export/],
    ["{}", /not a chat export/],
    [changed((file) => (file.version = 2)), /version 2 is not supported/],
    [changed((file) => (file.chats = {})), /chats is not an array/],
    [changed((file) => (file.chats[0].messages = "x")), /chat 1: messages is not an array/],
    [changed((file) => (file.chats[0].title = 5)), /title is not a string/],
    [changed((file) => (file.chats[0].messages[0].role = "system")), /unknown role system/],
    [changed((file) => (file.chats[0].messages[0].parent = "m2")), /unknown parent m2/],
    [changed((file) => (file.chats[0].messages[1].id = "m1")), /duplicate message id m1/],
    [changed((file) => (file.chats[0].messages[1].stats.context = "x")), /context is not a number/],
    [changed((file) => (file.chats[0].messages[1].content = null)), /content is not a string/],
  ];
  for (const [text, reason] of wrong) assert.throws(() => read(text), reason);
});
