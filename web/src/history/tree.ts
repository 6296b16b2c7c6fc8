/**
 * A chat is a tree: each regenerated response and each edited message is a sibling of the original.
 * The page shows one path from the root to a leaf.
 *
 * All functions are pure; a changed chat is a new object.
 */

import type { Round } from "./calls.ts";
import type { TextFile } from "./files.ts";

export type Role = "user" | "assistant";

/** Reason for which a response ended. */
export type Ending = "stop" | "length" | "deadline" | "stopped" | "interrupted";

export interface Stats {
  promptTokens: number;
  cachedTokens: number;
  replyTokens: number;
  replyPerSecond: number;
  promptPerSecond: number;
  queueMs: number;
  /** Number of tokens that the model sees at once. */
  context: number;
  /** True if a window slides over longer chats. */
  slides?: boolean;
  /** Tokens that it has slid over. */
  outOfSight?: number;
  seed?: number;
  model?: string;
  /** Forward passes of the model. */
  passes?: number;
  /** Draft tokens, and the number of them that were accepted. */
  drafted?: number;
  accepted?: number;
}

export interface Thinking {
  text: string;
  ms: number;
}

export interface Message {
  id: string;
  parent: string | null;
  role: Role;
  content: string;
  /** What the model thought before it answered. It is not part of later requests. */
  thinking?: Thinking;
  /** Tool calls before the content, with the text before each. */
  rounds?: Round[];
  /** Text files sent before the content. */
  files?: TextFile[];
  created: number;
  ending?: Ending;
  /** Error message, if the response was interrupted. */
  problem?: string;
  stats?: Stats;
}

export interface Chat {
  id: string;
  title: string;
  /** True if the user chose the title. */
  isNamed: boolean;
  system: string;
  created: number;
  updated: number;
  /** In order of creation; parents come first. */
  messages: Message[];
  /** Id of the child that is shown, by the id of its parent; the root is "". */
  chosen: Record<string, string>;
}

export function newChat(id: string, now: number, system = ""): Chat {
  return {
    id,
    title: "New chat",
    isNamed: false,
    system,
    created: now,
    updated: now,
    messages: [],
    chosen: {},
  };
}

/** Returns the messages that are shown, from the root. */
export function path(chat: Chat): Message[] {
  const shown: Message[] = [];
  let parent: string | null = null;
  for (;;) {
    const below = versions(chat, parent);
    const chosen: Message | undefined =
      below.find((message) => message.id === chat.chosen[parent ?? ""]) ?? below.at(-1);
    if (!chosen) return shown;
    shown.push(chosen);
    parent = chosen.id;
  }
}

/** Returns the messages from the root to the message `id`. */
export function pathTo(chat: Chat, id: string): Message[] {
  const byId = new Map(chat.messages.map((message) => [message.id, message]));
  const above: Message[] = [];
  for (let at = byId.get(id); at; at = at.parent === null ? undefined : byId.get(at.parent)) {
    above.unshift(at);
  }
  return above;
}

/** Returns all messages with the same parent. */
export function versions(chat: Chat, parent: string | null): Message[] {
  return chat.messages.filter((message) => message.parent === parent);
}

/** Adds a message and shows it. */
export function add(chat: Chat, message: Message): Chat {
  const isFirst = !chat.messages.length && message.role === "user" && !chat.isNamed;
  return {
    ...chat,
    title: isFirst ? titleOf(message.content || (message.files?.[0]?.name ?? "")) : chat.title,
    updated: message.created,
    messages: [...chat.messages, message],
    chosen: { ...chat.chosen, [message.parent ?? ""]: message.id },
  };
}

export function change(chat: Chat, id: string, changes: Partial<Message>): Chat {
  const changed = (message: Message) =>
    message.id === id ? { ...message, ...changes, id } : message;
  return { ...chat, messages: chat.messages.map(changed) };
}

/** Shows the version `by` positions after the message `id`. */
export function step(chat: Chat, id: string, by: number): Chat {
  const message = chat.messages.find((message) => message.id === id);
  if (!message) return chat;
  const all = versions(chat, message.parent);
  const next = all[all.indexOf(message) + by];
  if (!next) return chat;
  return { ...chat, chosen: { ...chat.chosen, [message.parent ?? ""]: next.id } };
}

const TITLE_LENGTH = 60;

export function titleOf(text: string): string {
  const words = text.replace(/\s+/g, " ").trim();
  if (!words) return "New chat";
  const characters = [...words];
  if (characters.length <= TITLE_LENGTH) return words;
  return `${characters
    .slice(0, TITLE_LENGTH - 1)
    .join("")
    .trimEnd()}…`;
}

/** Returns true if each word of the query occurs in the title or in a message. */
export function matches(chat: Chat, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const texts = [chat.title, ...chat.messages.map((message) => message.content)];
  const all = texts.join("\n").toLowerCase();
  return words.every((word) => all.includes(word));
}
