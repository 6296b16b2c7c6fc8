import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutStart } from "../src/state/block.ts";
import { ResponseState } from "../src/state/response.ts";

const chunk = (content: string, finish_reason: string | null = null) => ({
  choices: [{ delta: { content }, finish_reason }],
});

test("final text is removed from the start of the block", () => {
  const block = ["Once", " upon", null, " time"];
  assert.deepEqual(withoutStart(block, 0), block);
  assert.deepEqual(withoutStart(block, 4), [" upon", null, " time"]);
  assert.deepEqual(withoutStart(block, 5), ["upon", null, " time"]);
  assert.deepEqual(withoutStart(block, 9), [null, " time"]);
  assert.deepEqual(withoutStart(block, 99), [null, " time"], "final text ends before a mask");
  assert.deepEqual(withoutStart(["a", ""], 1), []);
});

test("text and block together lose no token, and the block is empty at the end", () => {
  const response = new ResponseState({ tokens: 100, slides: false }, true);
  response.take({ choices: [], block_preview: [null, "b", null] });
  assert.equal(response.phase().kind, "streaming");
  assert.deepEqual([response.text, response.block], ["", [null, "b", null]]);
  response.take({ choices: [], block_preview: ["a", "b", "c"] });
  for (const letter of "abc") {
    response.take(chunk(letter));
    assert.equal(response.text + response.block.join(""), "abc");
  }
  assert.deepEqual(response.block, []);
  response.take({ choices: [], block_preview: ["d", null, null] });
  response.take(chunk("d"));
  assert.deepEqual(response.block, [null, null]);
  response.take(chunk("", "stop"));
  assert.deepEqual(response.block, []);
});

test("a retried response starts without a block", () => {
  const response = new ResponseState({ tokens: 100, slides: false }, true);
  response.take({ choices: [], block_preview: [null, "b"] });
  response.restart();
  assert.deepEqual(response.block, []);
  assert.equal(response.phase().kind, "sent");
});

test("statistics have passes and drafts, and a speed over all blocks", () => {
  const timings = {
    queue_ms: 0,
    cache_n: 0,
    prompt_n: 4,
    prompt_ms: 500,
    prompt_per_second: 8,
    predicted_n: 40,
    predicted_ms: 500,
    predicted_per_second: 78,
    passes_n: 16,
    draft_n: 0,
    draft_n_accepted: 0,
  };
  const usage = { prompt_tokens: 4, completion_tokens: 40 };
  const inBlocks = new ResponseState({ tokens: 100, slides: false }, true);
  inBlocks.take({ usage, timings });
  const { passes, replyPerSecond } = inBlocks.stats() ?? {};
  assert.deepEqual([passes, replyPerSecond], [16, 40]);
  assert.equal("drafted" in inBlocks.stats()!, false);
  const drafted = new ResponseState({ tokens: 100, slides: false }, false);
  drafted.take({ usage, timings: { ...timings, draft_n: 30, draft_n_accepted: 24 } });
  const stats = drafted.stats()!;
  assert.deepEqual([stats.drafted, stats.accepted, stats.replyPerSecond], [30, 24, 78]);
});
