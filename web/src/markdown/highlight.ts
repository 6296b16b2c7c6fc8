/** Syntax highlighting for the languages most common in responses. */
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { clean } from "./clean.ts";

const LANGUAGES = {
  bash,
  cpp,
  css,
  go,
  java,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};

/** Code longer than this is not highlighted, because highlighting it would block the page. */
const MAX_LENGTH = 50_000;

let isReady = false;

/** Registers the grammars with the first code block, so that they do not delay the first paint. */
function prepare(): void {
  if (isReady) return;
  isReady = true;
  for (const [name, grammar] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, grammar);
  // TypeScript contains JavaScript.
  hljs.registerAliases(["javascript", "js", "jsx", "mjs"], { languageName: "typescript" });
}

export function highlight(code: HTMLElement): void {
  const language = /language-(\S+)/.exec(code.className)?.[1]?.toLowerCase();
  const text = code.textContent ?? "";
  if (!language || text.length > MAX_LENGTH) return;
  prepare();
  if (!hljs.getLanguage(language)) return;
  code.replaceChildren(clean(hljs.highlight(text, { language }).value));
}
