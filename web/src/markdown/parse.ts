/**
 * Converts Markdown to an HTML string. HTML in the source is escaped and images become links, so that
 * nothing is fetched. The result is sanitized before it is inserted anywhere (`clean.ts`).
 */
import { Marked, type MarkedExtension, type Token } from "marked";
import { math, mayHaveMath } from "./math.ts";

const LINKS = /^(https?:|mailto:)/i;

const OPTIONS: MarkedExtension = {
  gfm: true,
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ href, text }) => link(href, escape(`image: ${text || href}`)),
    link({ href, tokens }) {
      return link(href, this.parser.parseInline(tokens));
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
};

const markdown = new Marked(OPTIONS);
const markdownWithMath = new Marked(OPTIONS, math);

const markedFor = (source: string): Marked => (mayHaveMath(source) ? markdownWithMath : markdown);

export function toHtml(source: string): string {
  return markedFor(source).parse(source, { async: false });
}

/** Splits the source into its top-level blocks (paragraphs, lists, code). Joined, they equal the source. */
export function blocks(source: string): string[] {
  const parts: string[] = [];
  for (const token of markedFor(source).lexer(source) as Token[]) {
    // Blank lines belong to the block above them.
    if (token.type === "space" && parts.length) parts[parts.length - 1] += token.raw;
    else parts.push(token.raw);
  }
  return parts;
}

/** Returns a link with its target as the title, or only the text if the scheme is not allowed. */
function link(href: string, html: string): string {
  if (!LINKS.test(href)) return html;
  return `<a href="${escape(href)}" title="${escape(href)}">${html}</a>`;
}

function escape(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
