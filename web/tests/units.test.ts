import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, latency } from "../src/ui/units.ts";

test("a duration has the precision that matters", () => {
  const shown = [0, 400, 4000, 9940, 9960, 12_400, 59_400, 59_600, 185_000].map(duration);
  assert.deepEqual(shown, [
    "0 s",
    "0.4 s",
    "4 s",
    "9.9 s",
    "10 s",
    "12 s",
    "59 s",
    "1 min 0 s",
    "3 min 5 s",
  ]);
});

test("a latency below a second is in milliseconds", () => {
  assert.deepEqual([0.84, 3, 9.96, 320.4, 999.6, 1234].map(latency), [
    "0.8 ms",
    "3 ms",
    "10 ms",
    "320 ms",
    "1 s",
    "1.2 s",
  ]);
});
