import assert from "node:assert/strict";
import { test } from "node:test";
import { biasOf, tokensOf } from "../src/state/lists.ts";

const BOUNDS = { min: -100, max: 100 };

test("token ids are separated by spaces or commas", () => {
  assert.deepEqual(tokensOf(" 1, 22\n333 "), [1, 22, 333]);
  assert.deepEqual(tokensOf(""), []);
  for (const wrong of ["x", "-1", "1.5", "1;2", "99999999999"]) {
    assert.equal(tokensOf(wrong), undefined, wrong);
  }
});

test("a bias is a token id and a number within the server's bounds", () => {
  assert.deepEqual(biasOf("1: -100\n\n 22 = 0.5 ", BOUNDS), { 1: -100, 22: 0.5 });
  assert.deepEqual(biasOf("", BOUNDS), {});
  for (const wrong of ["1", "1: x", "1: 101", "a: 1", "-1: 1", "1: 1e1"]) {
    assert.equal(biasOf(wrong, BOUNDS), undefined, wrong);
  }
});
