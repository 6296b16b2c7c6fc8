/** Generation settings. An empty field uses the server's default. */
import { signal } from "@preact/signals";
import type { Props, SamplingParam } from "../api/wire.ts";
import { load, save } from "../browser/storage.ts";
import { type Decoding, DEFAULT_DECODING, decodeFields } from "./decoding.ts";

export interface NumberField {
  name: string;
  label: string;
  help: string;
  min?: number;
  max?: number;
  /** If true, values must be greater than `min`. */
  isMinExclusive?: boolean;
  step: number;
  /** Shown if the field is empty: what the server does by default. */
  placeholder: (props: Props) => string;
}

const LABELS: Record<string, string> = {
  max_tokens: "Max tokens",
  min_tokens: "Min tokens",
  top_k: "Top-k",
  top_p: "Top-p",
  min_p: "Min-p",
};

/** Parameters of every request that are not sampling parameters. */
const LENGTH_FIELDS: NumberField[] = [
  {
    name: "max_tokens",
    label: "Max tokens",
    help: "Maximum length of the response.",
    min: 1,
    step: 1,
    placeholder: () => "rest of context",
  },
  {
    name: "min_tokens",
    label: "Min tokens",
    help: "Minimum length of the response.",
    min: 0,
    step: 1,
    placeholder: () => "0",
  },
  {
    name: "seed",
    label: "Seed",
    help: "The same seed gives the same response.",
    min: 0,
    step: 1,
    placeholder: () => "random",
  },
];

/** Returns the fields of the settings dialog. Ranges, defaults and help come from the server. */
export function numberFields({ sampling_params }: Props): NumberField[] {
  const params = sampling_params.filter(({ name }) => name !== "logit_bias");
  const others = LENGTH_FIELDS.filter(({ name }) => !params.some((param) => param.name === name));
  return [...params.map(fieldOf), ...others];
}

function fieldOf(param: SamplingParam): NumberField {
  const name = param.name.replaceAll("_", " ");
  return {
    name: param.name,
    label: LABELS[param.name] ?? name.charAt(0).toUpperCase() + name.slice(1),
    help: `${param.doc}.`,
    ...(param.min != null && { min: param.min }),
    ...(param.max != null && { max: param.max }),
    isMinExclusive: param.exclusive_min ?? false,
    step: param.integer ? 1 : 0.01,
    placeholder: () => (param.default == null ? "" : String(param.default)),
  };
}

export interface Settings {
  /** System prompt of new chats. */
  system: string;
  /** Values by field name; absent fields use the server's defaults. */
  numbers: Record<string, number>;
  /** Strings that end a response. */
  stop: string[];
  /** Ids of tokens that end a response. */
  stopTokens: number[];
  /** Values added to logits, by token id. */
  logitBias: Record<string, number>;
  /** Continues after the end-of-sequence token. */
  ignoreEos: boolean;
  decoding: Decoding;
  /** Effort of thinking, by its name; empty for the model's default. */
  thinking: string;
}

const NAME = "wf-settings";
const DEFAULTS: Settings = {
  system: "",
  numbers: {},
  stop: [],
  stopTokens: [],
  logitBias: {},
  ignoreEos: false,
  decoding: DEFAULT_DECODING,
  thinking: "",
};

export const settings = signal<Settings>({ ...DEFAULTS, ...load<Partial<Settings>>(NAME, {}) });

export function changeSettings(changes: Partial<Settings>): void {
  settings.value = { ...settings.value, ...changes };
  save(NAME, settings.value);
}

/** Number of resets. Inputs are rendered anew when it changes. */
export const resets = signal(0);

export function resetSettings(): void {
  changeSettings(DEFAULTS);
  resets.value += 1;
}

/** Returns the request fields for these settings, without numbers that the server is known not to support. */
export function requestFields(settings: Settings, props: Props | null): Record<string, unknown> {
  const names = props && new Set(numberFields(props).map(({ name }) => name));
  const numbers = Object.entries(settings.numbers).filter(([name]) => !names || names.has(name));
  const fields: Record<string, unknown> = Object.fromEntries(numbers);
  if (settings.stop.length) fields.stop = settings.stop;
  if (settings.stopTokens.length) fields.stop_token_ids = settings.stopTokens;
  if (Object.keys(settings.logitBias).length) fields.logit_bias = settings.logitBias;
  if (settings.ignoreEos) fields.ignore_eos = true;
  if (props?.thinking?.efforts.some(({ name }) => name === settings.thinking)) {
    fields.reasoning_effort = settings.thinking;
  }
  return { ...fields, ...decodeFields(settings.decoding, props?.decode) };
}
