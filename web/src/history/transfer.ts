/** Exports chats to JSON and imports them. Imported files are untrusted: every field is checked. */
import type { CallState, Round, ToolCall } from "./calls.ts";
import { type TextFile, cleanName } from "./files.ts";
import type { Chat, Ending, Message, Stats, Thinking } from "./tree.ts";

const FORMAT = "wrinklefree-chats";
const VERSION = 1;

export function write(chats: Chat[]): string {
  return JSON.stringify({ format: FORMAT, version: VERSION, chats }, null, 2);
}

/** Parses an exported file. Throws an error that says what is wrong with it. */
export function read(text: string): Chat[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("the file is not valid JSON");
  }
  if (!isObject(file) || file.format !== FORMAT) {
    throw new Error(`the file is not a chat export: "format" is not "${FORMAT}"`);
  }
  if (file.version !== VERSION) {
    throw new Error(`version ${String(file.version)} is not supported: expected ${VERSION}`);
  }
  if (!Array.isArray(file.chats)) throw new Error("chats is not an array");
  return file.chats.map((chat, at) => {
    try {
      return chatOf(chat);
    } catch (error) {
      throw new Error(`chat ${at + 1}: ${(error as Error).message}`);
    }
  });
}

function chatOf(value: unknown): Chat {
  if (!isObject(value)) throw new Error("not an object");
  if (!Array.isArray(value.messages)) throw new Error("messages is not an array");
  const known = new Set<string>();
  const messages = value.messages.map((message: unknown) => {
    const checked = messageOf(message);
    if (known.has(checked.id)) throw new Error(`duplicate message id ${checked.id}`);
    // Parents come first, which rules out cycles.
    if (checked.parent !== null && !known.has(checked.parent)) {
      throw new Error(`message ${checked.id} has an unknown parent ${checked.parent}`);
    }
    known.add(checked.id);
    return checked;
  });
  const chosen = isObject(value.chosen) ? value.chosen : {};
  return {
    id: text(value, "id"),
    title: text(value, "title"),
    isNamed: value.isNamed === true,
    system: typeof value.system === "string" ? value.system : "",
    created: number(value, "created"),
    updated: number(value, "updated"),
    messages,
    chosen: Object.fromEntries(
      Object.entries(chosen).filter(
        (entry): entry is [string, string] => typeof entry[1] === "string",
      ),
    ),
  };
}

const ENDINGS: Ending[] = ["stop", "length", "deadline", "stopped", "interrupted"];

function messageOf(value: unknown): Message {
  if (!isObject(value)) throw new Error("a message is not an object");
  const { role, parent } = value;
  if (role !== "user" && role !== "assistant")
    throw new Error(`unknown role ${String(role)}: expected user or assistant`);
  if (parent !== null && typeof parent !== "string")
    throw new Error("parent is neither a string nor null");
  const message: Message = {
    id: text(value, "id"),
    parent,
    role,
    content: text(value, "content"),
    created: number(value, "created"),
  };
  const ending = ENDINGS.find((ending) => ending === value.ending);
  if (ending) message.ending = ending;
  if (typeof value.problem === "string") message.problem = value.problem;
  if (Array.isArray(value.files)) message.files = value.files.map(fileOf);
  if (isObject(value.thinking)) message.thinking = thinkingOf(value.thinking);
  if (Array.isArray(value.rounds)) message.rounds = value.rounds.map(roundOf);
  if (isObject(value.stats)) message.stats = statsOf(value.stats);
  return message;
}

function fileOf(value: unknown): TextFile {
  if (!isObject(value)) throw new Error("a file is not an object");
  const file: TextFile = { name: cleanName(text(value, "name")), text: text(value, "text") };
  if (value.tokens !== undefined) file.tokens = number(value, "tokens");
  return file;
}

const CALL_STATES: CallState[] = ["asking", "running", "done", "failed", "denied"];

function roundOf(value: unknown): Round {
  if (!isObject(value) || !Array.isArray(value.calls)) throw new Error("calls is not an array");
  const calls = value.calls.map((call: unknown): ToolCall => {
    if (!isObject(call)) throw new Error("a tool call is not an object");
    const state = CALL_STATES.find((state) => state === call.state) ?? "denied";
    return {
      id: text(call, "id"),
      name: text(call, "name"),
      arguments: text(call, "arguments"),
      state,
      ...(call.result !== undefined && { result: text(call, "result") }),
    };
  });
  return { content: text(value, "content"), calls };
}

function thinkingOf(value: Record<string, unknown>): Thinking {
  return { text: text(value, "text"), ms: number(value, "ms") };
}

function statsOf(value: Record<string, unknown>): Stats {
  const stats: Stats = {
    promptTokens: number(value, "promptTokens"),
    cachedTokens: number(value, "cachedTokens"),
    replyTokens: number(value, "replyTokens"),
    replyPerSecond: number(value, "replyPerSecond"),
    promptPerSecond: number(value, "promptPerSecond"),
    queueMs: number(value, "queueMs"),
    context: number(value, "context"),
  };
  for (const name of ["seed", "passes", "drafted", "accepted", "outOfSight"] as const) {
    if (value[name] !== undefined) stats[name] = number(value, name);
  }
  if (typeof value.model === "string") stats.model = value.model;
  if (value.slides === true) stats.slides = true;
  return stats;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(object: Record<string, unknown>, name: string): string {
  const value = object[name];
  if (typeof value !== "string") throw new Error(`${name} is not a string`);
  return value;
}

function number(object: Record<string, unknown>, name: string): number {
  const value = object[name];
  if (typeof value !== "number" || !Number.isFinite(value))
    throw new Error(`${name} is not a number`);
  return value;
}
