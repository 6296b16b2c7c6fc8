/** Writes the shown path of a chat as a Markdown document. */
import type { Round, ToolCall } from "./calls.ts";
import { fenced, promptOf } from "./files.ts";
import { type Chat, type Message, path } from "./tree.ts";

export function toMarkdown(chat: Chat): string {
  const system = chat.system.trim() ? [section("System prompt", chat.system)] : [];
  return `${[`# ${oneLine(chat.title)}`, ...system, ...path(chat).map(messageOf)].join("\n\n")}\n`;
}

/** Returns a file name for the document that every system accepts. */
export function fileNameOf(title: string): string {
  const words = title.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return `${words.join("-").slice(0, 60) || "chat"}.md`;
}

function messageOf(message: Message): string {
  if (message.role === "user") return section("User", promptOf(message));
  const thinking = message.thinking ? [quote(message.thinking.text)] : [];
  const rounds = (message.rounds ?? []).map(roundOf);
  return section("Assistant", [...thinking, ...rounds, message.content.trim()].join("\n\n"));
}

function roundOf({ content, calls }: Round): string {
  const call = ({ name, arguments: args, result }: ToolCall) =>
    fenced({ name: `${name} ${args}`, text: result ?? "" }).replace(/^File/, "Tool call");
  return [content.trim(), ...calls.map(call)].filter(Boolean).join("\n\n");
}

const section = (name: string, text: string): string => `## ${name}\n\n${text.trim()}`;

const quote = (text: string): string => text.trim().replace(/^/gm, "> ");

const oneLine = (text: string): string => text.replace(/\s+/g, " ");
