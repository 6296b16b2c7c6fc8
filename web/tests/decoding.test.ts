import assert from "node:assert/strict";
import { test } from "node:test";
import type { DecodeFacts } from "../src/api/wire.ts";
import { type Decoding, USUAL, decodeFields, decodeNumbers } from "../src/state/decoding.ts";

const SERVER: DecodeFacts = {
  default: "autoregressive",
  modes: ["autoregressive", "diffusion", "drafted", "lookup"],
  rules: ["threshold", "factor", "static"],
  block_size: 32,
  sub_block_size: 8,
};
const fields = (said: Partial<Decoding>, server: Partial<DecodeFacts> = {}) =>
  decodeFields({ ...USUAL, ...said }, { ...SERVER, ...server });

test("who chooses nothing says nothing", () => {
  assert.deepEqual(fields({}), {});
  assert.deepEqual(decodeFields({ ...USUAL, mode: "diffusion" }, undefined), {});
});

test("settings go with their mode alone", () => {
  const numbers = { threshold: 0.5, steps: 3, tokens: 7 };
  assert.deepEqual(fields({ mode: "diffusion", rule: "factor", numbers }), {
    decode: "diffusion",
    diffusion: { threshold: 0.5, steps: 3, rule: "factor", preview: true },
  });
  assert.deepEqual(fields({ mode: "lookup", rule: "factor", numbers }), {
    decode: "lookup",
    draft: { tokens: 7 },
  });
  assert.deepEqual(fields({ mode: "autoregressive", numbers }), { decode: "autoregressive" });
  assert.deepEqual(fields({ mode: "diffusion", showsBlocks: false }), { decode: "diffusion" });
});

test("a server that fills blocks by itself is told what to show", () => {
  assert.deepEqual(fields({}, { default: "diffusion" }), { diffusion: { preview: true } });
});

test("what this server does not have is not asked of it", () => {
  assert.deepEqual(fields({ mode: "drafted" }, { modes: ["autoregressive", "lookup"] }), {});
  const kept = fields({ mode: "diffusion", rule: "edit", showsBlocks: false });
  assert.deepEqual(kept, { decode: "diffusion" });
});

test("a rule has the bounds of its number, or no number", () => {
  const bounds = (rule: string) =>
    decodeNumbers({ ...USUAL, mode: "diffusion", rule }, SERVER).map(({ name, max }) => [
      name,
      max,
    ]);
  assert.deepEqual(bounds("threshold"), [
    ["threshold", 1],
    ["steps", undefined],
  ]);
  assert.deepEqual(bounds("factor")[0], ["threshold", 1000]);
  assert.deepEqual(bounds("static"), [["steps", undefined]]);
});
