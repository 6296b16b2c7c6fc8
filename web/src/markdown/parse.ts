/**
 * Markdown to HTML, as text. HTML inside an answer is shown, not obeyed; pictures become links, so
 * nothing is fetched. What comes out is still cleaned before it is put anywhere (`clean.ts`).
 */
import { Marked, type Token } from "marked";

const LINKS = /^(https?:|mailto:)/i;

const markdown = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ href, text }) => link(href, escape(`picture: ${text || href}`)),
    link({ href, tokens }) {
      return link(href, this.parser.parseInline(tokens));
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

export function toHtml(source: string): string {
  return markdown.parse(source, { async: false });
}

/** The texts of the blocks one below the other: paragraphs, lists, code. Together they are the source. */
export function blocks(source: string): string[] {
  const parts: string[] = [];
  for (const token of markdown.lexer(source) as Token[]) {
    // Empty lines belong to what is above them.
    if (token.type === "space" && parts.length) parts[parts.length - 1] += token.raw;
    else parts.push(token.raw);
  }
  return parts;
}

/** A link that says where it leads; other kinds of address are shown without one. */
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
