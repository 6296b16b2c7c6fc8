import assert from "node:assert/strict";
import { test } from "node:test";
import { contextNote, inSight } from "../src/history/sight.ts";
import { type Chat, type Message, add, newChat } from "../src/history/tree.ts";

const STATS = {
  promptTokens: 100,
  cachedTokens: 0,
  replyTokens: 20,
  replyPerSecond: 1,
  promptPerSecond: 1,
  queueMs: 0,
  context: 2048,
};

/** A chat of responses with these statistics, one below the other. */
function chatOf(all: object[]): [Chat, Message[]] {
  const messages = all.map((stats, at) => ({
    id: `${at}`,
    parent: at ? `${at - 1}` : null,
    role: "assistant" as const,
    content: "",
    created: 0,
    stats: { ...STATS, ...stats },
  }));
  return [messages.reduce(add, newChat("chat", 0)), messages];
}

const notes = (...all: object[]) => {
  const [chat, messages] = chatOf(all);
  return messages.map((message) => contextNote(chat, message));
};

test("a chat without a window is told to near its end, and how to go on", () => {
  const [early, late, unknown] = notes(
    {},
    { promptTokens: 1900 },
    { promptTokens: 1900, context: 0 },
  );
  assert.equal(early, undefined);
  assert.match(late ?? "", /nears the end of the context.*--attention window=1024,sinks=4/);
  assert.equal(unknown, undefined);
});

test("the first response whose beginning is out of sight says so", () => {
  const slides = { slides: true, context: 516 };
  const found = notes(
    { ...slides, promptTokens: 490 },
    { ...slides, promptTokens: 600, outOfSight: 105 },
    { ...slides, promptTokens: 900, outOfSight: 405 },
  );
  assert.equal(found[0], undefined);
  assert.match(found[1] ?? "", /^Earlier messages are out of sight/);
  assert.equal(found[2], undefined);
  assert.equal(inSight({ ...STATS, ...slides, promptTokens: 600, outOfSight: 105 }), 515);
});
