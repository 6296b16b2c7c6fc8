/** What a person may decide about replies. An empty field leaves it to the server. */
import { signal } from "@preact/signals";
import type { Props } from "../api/wire.ts";
import { keep, recall } from "../browser/kept.ts";
import { type Decoding, USUAL, decodeFields } from "./decoding.ts";

export interface NumberField {
  name: string;
  label: string;
  help: string;
  min: number;
  max?: number;
  step: number;
  /** What the server does where nothing is said. */
  byDefault: (props: Props) => string;
}

const defaults = (props: Props) => props.default_generation_settings;

export const NUMBER_FIELDS: NumberField[] = [
  {
    name: "temperature",
    label: "Temperature",
    help: "0 takes the likeliest token each time; higher is more varied.",
    min: 0,
    max: 100,
    step: 0.1,
    byDefault: (props) => String(defaults(props).temperature),
  },
  {
    name: "top_p",
    label: "Top p",
    help: "Only the likeliest tokens that together have this probability.",
    min: 0.01,
    max: 1,
    step: 0.01,
    byDefault: (props) => String(defaults(props).top_p),
  },
  {
    name: "top_k",
    label: "Top k",
    help: "Only so many of the likeliest tokens; 0 is all.",
    min: 0,
    step: 1,
    byDefault: (props) => String(defaults(props).top_k),
  },
  {
    name: "min_p",
    label: "Min p",
    help: "Only tokens at least this likely, relative to the likeliest.",
    min: 0,
    max: 1,
    step: 0.01,
    byDefault: (props) => String(defaults(props).min_p),
  },
  {
    name: "repetition_penalty",
    label: "Repetition penalty",
    help: "More than 1 makes tokens that are already there less likely.",
    min: 0.01,
    max: 10,
    step: 0.01,
    byDefault: (props) => String(defaults(props).repetition_penalty),
  },
  {
    name: "presence_penalty",
    label: "Presence penalty",
    help: "Taken off the score of a token that is already in the reply.",
    min: -2,
    max: 2,
    step: 0.1,
    byDefault: () => "0",
  },
  {
    name: "frequency_penalty",
    label: "Frequency penalty",
    help: "The same, for each time it is there.",
    min: -2,
    max: 2,
    step: 0.1,
    byDefault: () => "0",
  },
  {
    name: "max_tokens",
    label: "Longest reply",
    help: "In tokens.",
    min: 1,
    step: 1,
    byDefault: () => "rest of context",
  },
  {
    name: "min_tokens",
    label: "Shortest reply",
    help: "In tokens.",
    min: 0,
    step: 1,
    byDefault: () => "0",
  },
  {
    name: "seed",
    label: "Seed",
    help: "The same seed gives the same reply.",
    min: 0,
    step: 1,
    byDefault: () => "drawn",
  },
];

export interface Settings {
  /** The system prompt of chats that are begun from now on. */
  system: string;
  /** By the names of the fields; what is absent is left to the server. */
  numbers: Record<string, number>;
  /** Texts that end a reply. */
  stop: string[];
  /** Tokens that do, by their numbers. */
  stopTokens: number[];
  /** Token numbers and what is added to their scores. */
  logitBias: Record<string, number>;
  /** Whether a reply goes on past the model's own end. */
  ignoreEos: boolean;
  decoding: Decoding;
}

const NAME = "wf-settings";
const NONE: Settings = {
  system: "",
  numbers: {},
  stop: [],
  stopTokens: [],
  logitBias: {},
  ignoreEos: false,
  decoding: USUAL,
};

export const settings = signal<Settings>({ ...NONE, ...recall<Partial<Settings>>(NAME, {}) });

export function changeSettings(changes: Partial<Settings>): void {
  settings.value = { ...settings.value, ...changes };
  keep(NAME, settings.value);
}

export function resetSettings(): void {
  changeSettings(NONE);
}

/** The fields of a request that these settings are. */
export function requestFields(settings: Settings, props: Props | null): Record<string, unknown> {
  const fields: Record<string, unknown> = { ...settings.numbers };
  if (settings.stop.length) fields.stop = settings.stop;
  if (settings.stopTokens.length) fields.stop_token_ids = settings.stopTokens;
  if (Object.keys(settings.logitBias).length) fields.logit_bias = settings.logitBias;
  if (settings.ignoreEos) fields.ignore_eos = true;
  return { ...fields, ...decodeFields(settings.decoding, props?.decode) };
}
