import assert from "node:assert/strict";
import { test } from "node:test";
import type { Props } from "../src/api/wire.ts";
import { type Settings, numberFields, requestFields, settings } from "../src/state/settings.ts";

const PROPS = {
  sampling_params: [
    { name: "top_p", default: 0.9, min: 0, max: 1, exclusive_min: true, doc: "Nucleus" },
    { name: "top_k", default: 40, min: 0, max: null, integer: true, doc: "Candidates" },
    { name: "logit_bias", min: -100, max: 100, doc: "Bias" },
  ],
} as Partial<Props> as Props;

test("fields have the ranges, defaults and help of the server", () => {
  const [topP, topK, ...others] = numberFields(PROPS);
  assert.equal(topP?.placeholder(PROPS), "0.9");
  assert.deepEqual([topP?.label, topP?.min, topP?.max], ["Top-p", 0, 1]);
  assert.ok(topP?.isMinExclusive);
  assert.deepEqual([topK?.min, topK?.max, topK?.step], [0, undefined, 1]);
  assert.equal(topK?.help, "Candidates.");
  assert.deepEqual(
    others.map(({ name }) => name),
    ["max_tokens", "min_tokens", "seed"],
  );
});

test("numbers that the server does not list are not sent", () => {
  const stored: Settings = { ...settings.peek(), numbers: { top_k: 5, typical_p: 1, seed: 3 } };
  assert.deepEqual(requestFields(stored, PROPS), { top_k: 5, seed: 3 });
  assert.deepEqual(requestFields(stored, null), stored.numbers, "before the server has responded");
});
