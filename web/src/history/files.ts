/** Text files of a message, and their form in the prompt. */
import type { Message } from "./tree.ts";

export interface TextFile {
  name: string;
  text: string;
  /** Length in the prompt, in tokens; absent if the server did not count them. */
  tokens?: number;
}

/** Returns what a request contains for a message: its files, then its text. */
export function promptOf({ content, files = [] }: Message): string {
  return [...files.map(fenced), content].filter(Boolean).join("\n\n");
}

/** Writes a file as a code block below its name. No text can end the block. */
export function fenced({ name, text }: TextFile): string {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  const end = text.endsWith("\n") ? "" : "\n";
  return `File ${name}:\n\n${fence}${languageOf(name)}\n${text}${end}${fence}`;
}

/** Names of languages that are not the extension of their files. */
const LANGUAGES: Record<string, string> = {
  md: "markdown",
  txt: "",
  log: "",
  pdf: "",
  py: "python",
  rs: "rust",
  js: "javascript",
  ts: "typescript",
};

function languageOf(name: string): string {
  const extension = /\.([a-z\d]{1,10})$/i.exec(name)?.[1]?.toLowerCase() ?? "";
  return LANGUAGES[extension] ?? extension;
}

const MAX_NAME = 100;

/** Removes what could disguise a name or break the line it is written in. */
export function cleanName(name: string): string {
  return name.replace(/[\p{C}`]/gu, "_").slice(0, MAX_NAME) || "file";
}
