/** Colours for code, in the languages that answers have most. */
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/cpp";
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

hljs.registerLanguage("bash", bash);
hljs.registerLanguage("cpp", c);
hljs.registerLanguage("css", css);
hljs.registerLanguage("go", go);
hljs.registerLanguage("java", java);
hljs.registerLanguage("json", json);
hljs.registerLanguage("python", python);
hljs.registerLanguage("rust", rust);
hljs.registerLanguage("sql", sql);
// JavaScript is read as TypeScript, which contains it.
hljs.registerLanguage("typescript", typescript);
hljs.registerAliases(["javascript", "js", "jsx", "mjs"], { languageName: "typescript" });
hljs.registerLanguage("xml", xml);
hljs.registerLanguage("yaml", yaml);

/** Beyond this, colouring takes longer than anybody wants to wait. */
const LONGEST = 50_000;

export function highlight(code: HTMLElement): void {
  const language = /language-(\S+)/.exec(code.className)?.[1]?.toLowerCase();
  const text = code.textContent ?? "";
  if (!language || text.length > LONGEST || !hljs.getLanguage(language)) return;
  code.replaceChildren(clean(hljs.highlight(text, { language }).value));
}
