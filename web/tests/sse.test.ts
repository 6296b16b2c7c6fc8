import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader } from "../src/api/sse.ts";

const STREAM =
  'data: {"a":1}\n\n: alive\n\ndata: two\r\ndata:lines\r\n\r\nevent: x\ndata\n\ndata: [DONE]\n\n';
const EVENTS = ['{"a":1}', "two\nlines", "", "[DONE]"];

test("events do not depend on the sizes of chunks", () => {
  for (let size = 1; size <= STREAM.length; size += 1) {
    const reader = new EventReader();
    const events: string[] = [];
    for (let at = 0; at < STREAM.length; at += size) {
      events.push(...reader.push(STREAM.slice(at, at + size)));
    }
    assert.deepEqual(events, EVENTS, `chunks of ${size}`);
  }
});

test("an incomplete event is not returned", () => {
  const reader = new EventReader();
  assert.deepEqual(reader.push("data: half"), []);
  assert.deepEqual(reader.push("\n"), []);
  assert.deepEqual(reader.push("\n"), ["half"]);
});
