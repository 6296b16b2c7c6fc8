/**
 * A conversation is a tree: every answer that was written again and every question that was asked
 * otherwise stands beside the first one. What is shown is one path from the top to a leaf.
 *
 * Pure functions; a changed conversation is a new one.
 */

export type Role = "user" | "assistant";

/** How a reply ended. */
export type Ending = "stop" | "length" | "deadline" | "stopped" | "interrupted";

export interface Stats {
  promptTokens: number;
  cachedTokens: number;
  replyTokens: number;
  replyPerSecond: number;
  promptPerSecond: number;
  queueMs: number;
  /** The most tokens there could have been. */
  context: number;
  seed?: number;
  model?: string;
  /** Runs of the model that wrote the reply. */
  passes?: number;
  /** Tokens that were guessed ahead, and those of them that were right. */
  drafted?: number;
  accepted?: number;
}

export interface Message {
  id: string;
  parent: string | null;
  role: Role;
  content: string;
  created: number;
  ending?: Ending;
  /** What went wrong, if it did. */
  problem?: string;
  stats?: Stats;
}

export interface Chat {
  id: string;
  title: string;
  /** Whether a person gave the title. */
  isNamed: boolean;
  system: string;
  created: number;
  updated: number;
  /** In the order in which they were written; parents come first. */
  messages: Message[];
  /** For a message, which of those below it is shown; the top is "". */
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

/** The messages shown, from the top. */
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

/** The messages from the top down to this one. */
export function pathTo(chat: Chat, id: string): Message[] {
  const byId = new Map(chat.messages.map((message) => [message.id, message]));
  const above: Message[] = [];
  for (let at = byId.get(id); at; at = at.parent === null ? undefined : byId.get(at.parent)) {
    above.unshift(at);
  }
  return above;
}

/** All that stand at the same place. */
export function versions(chat: Chat, parent: string | null): Message[] {
  return chat.messages.filter((message) => message.parent === parent);
}

/** With one more message, which is shown. */
export function add(chat: Chat, message: Message): Chat {
  const isFirst = !chat.messages.length && message.role === "user" && !chat.isNamed;
  return {
    ...chat,
    title: isFirst ? titleOf(message.content) : chat.title,
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

/** Shows the version that is so many further on. */
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

/** Whether every word is in the title or in a message. */
export function matches(chat: Chat, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const texts = [chat.title, ...chat.messages.map((message) => message.content)];
  const all = texts.join("\n").toLowerCase();
  return words.every((word) => all.includes(word));
}
