/**
 * Finds formulas in Markdown: `$…$`, `$$…$$`, `\(…\)` and `\[…\]`. They become elements that contain their source;
 * `showMath` replaces those that it understands by MathML.
 */
import type { MarkedExtension, Tokens } from "marked";
import { elementOf } from "../math/node.ts";
import { parse } from "../math/parse.ts";

/** Longer formulas are text. It also bounds the time to look for their ends. */
const MAX_LENGTH = 5000;

interface Delimiters {
  open: string;
  close: string;
  isDisplay: boolean;
}

const DELIMITERS: Delimiters[] = [
  { open: "$$", close: "$$", isDisplay: true },
  { open: "\\[", close: "\\]", isDisplay: true },
  { open: "\\(", close: "\\)", isDisplay: false },
  { open: "$", close: "$", isDisplay: false },
];

/** Returns true if the source may contain formulas. Others are parsed without this extension. */
export const mayHaveMath = (source: string): boolean => /\$|\\[([]/.test(source);

/** Returns the formula with its delimiters at the start of the source. */
function formulaAt(source: string): string | undefined {
  const found = DELIMITERS.find(({ open }) => source.startsWith(open));
  if (!found) return undefined;
  const { open, close } = found;
  const from = source.slice(0, MAX_LENGTH);
  const end = endOf(from, open.length, close);
  if (end < 0 || !from.slice(open.length, end).trim()) return undefined;
  if (open === "$" && !isFormula(from, end)) return undefined;
  return from.slice(0, end + close.length);
}

/** Returns the place of the closing delimiter. A backslash before a dollar sign makes it text. */
function endOf(source: string, start: number, close: string): number {
  let end = source.indexOf(close, start);
  while (close.startsWith("$") && end > 0 && source[end - 1] === "\\") {
    end = source.indexOf(close, end + 1);
  }
  return end;
}

/** Tells a formula from amounts of money: no space inside of the signs, no digit after them, one line. */
function isFormula(source: string, end: number): boolean {
  const text = source.slice(1, end);
  return !/^\s|\s$|\n/.test(text) && !/\d/.test(source[end + 1] ?? "");
}

export const math: MarkedExtension = {
  extensions: [
    {
      name: "mathBlock",
      level: "block",
      start: (source) => source.slice(0, MAX_LENGTH).search(/\n {0,3}(?:\$\$|\\\[)/),
      tokenizer(source) {
        const indent = /^ {0,3}(?=\$\$|\\\[)/.exec(source)?.[0];
        const formula = indent === undefined ? undefined : formulaAt(source.slice(indent.length));
        if (!formula) return undefined;
        const raw = source.slice(0, indent!.length + formula.length);
        const rest = /^[ \t]*(?:\n|$)/.exec(source.slice(raw.length, raw.length + 100));
        // Text after it on its line makes it part of a paragraph.
        if (!rest) return undefined;
        return { type: "mathBlock", raw: raw + rest[0], text: formula };
      },
      renderer: ({ text }: Tokens.Generic) => `<p class="math">${escape(String(text))}</p>\n`,
    },
    {
      name: "mathInline",
      level: "inline",
      // Text ends at a backslash anyway.
      start: (source) => source.slice(0, MAX_LENGTH).indexOf("$"),
      tokenizer(source) {
        const formula = formulaAt(source);
        return formula ? { type: "mathInline", raw: formula, text: formula } : undefined;
      },
      renderer: ({ text }: Tokens.Generic) => `<span class="math">${escape(String(text))}</span>`,
    },
  ],
};

/** Replaces the source of each formula that is understood by MathML. */
export function showMath(nodes: DocumentFragment): void {
  for (const place of nodes.querySelectorAll(".math")) {
    const source = place.textContent ?? "";
    const found = DELIMITERS.find(({ open }) => source.startsWith(open));
    if (!found) continue;
    try {
      const { open, close, isDisplay } = found;
      const formula = parse(source.slice(open.length, -close.length), isDisplay);
      place.replaceChildren(elementOf(formula));
      place.setAttribute("title", source);
    } catch {
      // Not understood: the source stays.
      place.classList.add("source");
    }
  }
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
