import assert from "node:assert/strict";
import { test } from "node:test";
import type { DecodeInfo } from "../src/api/wire.ts";
import {
  type Decoding,
  DEFAULT_DECODING,
  decodeFields,
  decodeNumbers,
  modeHelp,
} from "../src/state/decoding.ts";

const SERVER: DecodeInfo = {
  default: "autoregressive",
  modes: ["autoregressive", "diffusion", "drafted", "lookup"],
  rules: ["threshold", "factor", "static"],
  block_size: 32,
  sub_block_size: 8,
};
const fields = (decoding: Partial<Decoding>, server: Partial<DecodeInfo> = {}) =>
  decodeFields({ ...DEFAULT_DECODING, ...decoding }, { ...SERVER, ...server });

test("default settings send no fields", () => {
  assert.deepEqual(fields({}), {});
  assert.deepEqual(decodeFields({ ...DEFAULT_DECODING, mode: "diffusion" }, undefined), {});
});

test("only the settings of the selected mode are sent", () => {
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

test("a server that decodes by diffusion is asked for previews", () => {
  assert.deepEqual(fields({}, { default: "diffusion" }), { diffusion: { preview: true } });
});

test("modes and rules that the server does not support are not sent", () => {
  assert.deepEqual(fields({ mode: "drafted" }, { modes: ["autoregressive", "lookup"] }), {});
  const stored = fields({ mode: "diffusion", rule: "edit", showsBlocks: false });
  assert.deepEqual(stored, { decode: "diffusion" });
});

test("the bounds of the threshold depend on the rule", () => {
  const bounds = (rule: string) =>
    decodeNumbers({ ...DEFAULT_DECODING, mode: "diffusion", rule }, SERVER).map(({ name, max }) => [
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

test("the server describes its modes", () => {
  const docs = { lookup: "drafts from earlier text" };
  assert.equal(modeHelp("lookup", { ...SERVER, docs }), "Drafts from earlier text.");
  assert.equal(modeHelp("drafted", { ...SERVER, docs }), "");
  assert.equal(modeHelp("lookup", SERVER), "");
});
