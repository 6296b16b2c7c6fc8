import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutStart } from "../src/state/block.ts";
import { Written } from "../src/state/written.ts";

const piece = (content: string, finish_reason: string | null = null) => ({
  choices: [{ delta: { content }, finish_reason }],
});

test("what became text leaves the block from its start", () => {
  const block = ["Once", " upon", null, " time"];
  assert.deepEqual(withoutStart(block, 0), block);
  assert.deepEqual(withoutStart(block, 4), [" upon", null, " time"]);
  assert.deepEqual(withoutStart(block, 5), ["upon", null, " time"]);
  assert.deepEqual(withoutStart(block, 9), [null, " time"]);
  assert.deepEqual(withoutStart(block, 99), [null, " time"], "text ends before a mask");
  assert.deepEqual(withoutStart(["a", ""], 1), []);
});

test("text and block together never lose a word, and the end leaves no block", () => {
  const written = new Written(100, true);
  written.take({ choices: [], block_preview: [null, "b", null] });
  assert.equal(written.phase().kind, "writing");
  assert.deepEqual([written.text, written.block], ["", [null, "b", null]]);
  written.take({ choices: [], block_preview: ["a", "b", "c"] });
  for (const letter of "abc") {
    written.take(piece(letter));
    assert.equal(written.text + written.block.join(""), "abc");
  }
  assert.deepEqual(written.block, []);
  written.take({ choices: [], block_preview: ["d", null, null] });
  written.take(piece("d"));
  assert.deepEqual(written.block, [null, null]);
  written.take(piece("", "stop"));
  assert.deepEqual(written.block, []);
});

test("a reply that is asked for once more begins anew", () => {
  const written = new Written(100, true);
  written.take({ choices: [], block_preview: [null, "b"] });
  written.restart();
  assert.deepEqual(written.block, []);
  assert.equal(written.phase().kind, "asking");
});

test("what a reply cost has its passes and drafts, and a speed that counts every block", () => {
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
  const inBlocks = new Written(100, true);
  inBlocks.take({ usage, timings });
  const { passes, replyPerSecond } = inBlocks.stats() ?? {};
  assert.deepEqual([passes, replyPerSecond], [16, 40]);
  assert.equal("drafted" in inBlocks.stats()!, false);
  const drafted = new Written(100, false);
  drafted.take({ usage, timings: { ...timings, draft_n: 30, draft_n_accepted: 24 } });
  const stats = drafted.stats()!;
  assert.deepEqual([stats.drafted, stats.accepted, stats.replyPerSecond], [30, 24, 78]);
});
