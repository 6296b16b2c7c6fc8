/** How tokens are found: the ways a server has, and what may be said about each. */
import type { DecodeFacts } from "../api/wire.ts";
import type { NumberField } from "./settings.ts";

export interface Decoding {
  /** One of the server's modes; empty leaves it to the server. */
  mode: string;
  /** Which guesses in a block stay; empty leaves it to the server. */
  rule: string;
  /** By the names of the fields below; what is absent is left to the server. */
  numbers: Record<string, number>;
  /** Whether a block is shown while it is being filled. */
  showsBlocks: boolean;
}

export const USUAL: Decoding = { mode: "", rule: "", numbers: {}, showsBlocks: true };

/** What a mode does, for those who do not know its name. */
export const MODES: Record<string, string> = {
  autoregressive: "One token after the other.",
  diffusion: "Blocks of masks, each filled in a few passes: another reply, in fewer passes.",
  drafted: "Tokens are guessed from masks and checked together: the same reply, in fewer passes.",
  lookup:
    "Tokens are guessed from earlier text and checked together: the same reply, in fewer passes.",
  "drafted+lookup": "Guesses from earlier text, else from masks: the same reply, in fewer passes.",
};

/** The mode of the next reply. What is kept from another server, which could do more, does not count. */
export function modeOf(decoding: Decoding, server: DecodeFacts): string {
  return server.modes.includes(decoding.mode) ? decoding.mode : server.default;
}

export const fillsBlocks = (mode: string): boolean => mode === "diffusion";
export const drafts = (mode: string): boolean => /drafted|lookup/.test(mode);

/** The fields of a mode that are numbers. */
export function decodeNumbers(decoding: Decoding, server: DecodeFacts): NumberField[] {
  const mode = modeOf(decoding, server);
  if (drafts(mode)) return [DRAFT_TOKENS];
  if (!fillsBlocks(mode)) return [];
  return HAS_NO_NUMBER.has(decoding.rule) ? [STEPS] : [threshold(decoding.rule), STEPS];
}

const HAS_NO_NUMBER = new Set(["static", "single"]);
/** Rules whose number is no probability. */
const IS_WIDE = new Set(["factor", "entropy"]);

const threshold = (rule: string): NumberField => ({
  name: "threshold",
  label: "Threshold",
  help: "The number that steers the rule.",
  min: 0,
  max: IS_WIDE.has(rule) ? 1000 : 1,
  step: 0.01,
  byDefault: () => "the rule's own",
});

const STEPS: NumberField = {
  name: "steps",
  label: "Most passes",
  help: "On each part of a block.",
  min: 1,
  step: 1,
  byDefault: () => "as many as it takes",
};

const DRAFT_TOKENS: NumberField = {
  name: "tokens",
  label: "Draft tokens",
  help: "The most to guess at once.",
  min: 1,
  max: 64,
  step: 1,
  byDefault: () => "the server's choice",
};

/** The fields of a request. A server that announces no modes is told nothing. */
export function decodeFields(
  decoding: Decoding,
  server: DecodeFacts | undefined,
): Record<string, unknown> {
  if (!server) return {};
  const mode = modeOf(decoding, server);
  const fields: Record<string, unknown> = mode === decoding.mode ? { decode: mode } : {};
  const said: Record<string, unknown> = {};
  for (const { name } of decodeNumbers(decoding, server)) {
    if (decoding.numbers[name] !== undefined) said[name] = decoding.numbers[name];
  }
  if (fillsBlocks(mode)) {
    if (server.rules.includes(decoding.rule)) said.rule = decoding.rule;
    if (decoding.showsBlocks) said.preview = true;
  }
  const name = fillsBlocks(mode) ? "diffusion" : "draft";
  if (Object.keys(said).length) fields[name] = said;
  return fields;
}
