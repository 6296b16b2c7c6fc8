/** Decoding modes of the server and the settings of each. */
import type { DecodeInfo } from "../api/wire.ts";
import type { NumberField } from "./settings.ts";

export interface Decoding {
  /** One of the server's modes; empty for the server's default. */
  mode: string;
  /** Rule that selects the predictions to keep; empty for the server's default. */
  rule: string;
  /** Values by field name; absent fields use the server's defaults. */
  numbers: Record<string, number>;
  /** Shows blocks while they are being filled. */
  showsBlocks: boolean;
}

export const DEFAULT_DECODING: Decoding = { mode: "", rule: "", numbers: {}, showsBlocks: true };

/** Mode of the next response. A stored mode that this server does not support is ignored. */
export function modeOf(decoding: Decoding, server: DecodeInfo): string {
  return server.modes.includes(decoding.mode) ? decoding.mode : server.default;
}

/** Returns the server's description of a mode. */
export function modeHelp(mode: string, server: DecodeInfo): string {
  const doc = server.docs?.[mode];
  return doc ? `${doc.charAt(0).toUpperCase()}${doc.slice(1)}.` : "";
}

export const usesDiffusion = (mode: string): boolean => mode === "diffusion";
export const usesDrafts = (mode: string): boolean => /drafted|lookup/.test(mode);

/** Returns the numeric settings of the selected mode. */
export function decodeNumbers(decoding: Decoding, server: DecodeInfo): NumberField[] {
  const mode = modeOf(decoding, server);
  if (usesDrafts(mode)) return [DRAFT_TOKENS];
  if (!usesDiffusion(mode)) return [];
  return RULES_WITHOUT_THRESHOLD.has(decoding.rule) ? [STEPS] : [threshold(decoding.rule), STEPS];
}

const RULES_WITHOUT_THRESHOLD = new Set(["static", "single"]);
/** Rules whose threshold is not a probability. */
const RULES_WITH_WIDE_THRESHOLD = new Set(["factor", "entropy"]);

const threshold = (rule: string): NumberField => ({
  name: "threshold",
  label: "Threshold",
  help: "Parameter of the rule.",
  min: 0,
  max: RULES_WITH_WIDE_THRESHOLD.has(rule) ? 1000 : 1,
  step: 0.01,
  placeholder: () => "default of the rule",
});

const STEPS: NumberField = {
  name: "steps",
  label: "Max passes",
  help: "Per part of a block.",
  min: 1,
  step: 1,
  placeholder: () => "no limit",
};

const DRAFT_TOKENS: NumberField = {
  name: "tokens",
  label: "Draft tokens",
  help: "Maximum number of tokens drafted at once.",
  min: 1,
  max: 64,
  step: 1,
  placeholder: () => "server default",
};

/** Returns the decoding fields of a request. They are empty if the server lists no modes. */
export function decodeFields(
  decoding: Decoding,
  server: DecodeInfo | undefined,
): Record<string, unknown> {
  if (!server) return {};
  const mode = modeOf(decoding, server);
  const fields: Record<string, unknown> = mode === decoding.mode ? { decode: mode } : {};
  const options: Record<string, unknown> = {};
  for (const { name } of decodeNumbers(decoding, server)) {
    if (decoding.numbers[name] !== undefined) options[name] = decoding.numbers[name];
  }
  if (usesDiffusion(mode)) {
    if (server.rules.includes(decoding.rule)) options.rule = decoding.rule;
    if (decoding.showsBlocks) options.preview = true;
  }
  const name = usesDiffusion(mode) ? "diffusion" : "draft";
  if (Object.keys(options).length) fields[name] = options;
  return fields;
}
