/**
 * Renders Markdown while it is streamed. Blocks that can no longer change are rendered once; only the
 * last two are rendered again for each chunk. The cost of a chunk therefore does not depend on the
 * length of the response, and nothing above moves.
 */
import { clean } from "./clean.ts";
import { decorate } from "./decorate.ts";
import { showMath } from "./math.ts";
import { blocks, toHtml } from "./parse.ts";
import { escapeBidi } from "./bidi.ts";

/** A new line can change the kind of the last block or merge it with the one before. */
const OPEN_BLOCKS = 2;
/** A longer block is shown as plain text, because parsing it could block the page. */
const MAX_BLOCK_LENGTH = 200_000;

export class MarkdownWriter {
  /** Blocks that can no longer change. */
  private settled: string[] = [];
  private settledText = "";
  private readonly tail = document.createElement("div");

  constructor(private readonly host: HTMLElement) {
    this.tail.className = "tail";
    host.replaceChildren(this.tail);
  }

  /** Shows `text`, which usually extends the text shown before. */
  show(text: string, isFinal: boolean): void {
    const source = escapeBidi(text.replace(/\r\n?/g, "\n"));
    if (!source.startsWith(this.settledText)) this.clear();
    const open = split(source.slice(this.settledText.length));
    const keep = isFinal ? 0 : OPEN_BLOCKS;
    while (open.length > keep) {
      const block = open.shift() ?? "";
      this.tail.before(render(block, true));
      this.settled.push(block);
      this.settledText += block;
    }
    this.tail.replaceChildren(render(open.join(""), false));
    if (isFinal) this.settle(source);
  }

  /** Renders everything again if the chunks were split into other blocks than the whole text is. */
  private settle(source: string): void {
    const whole = split(source);
    const isSame =
      whole.length === this.settled.length &&
      whole.every((block, at) => block === this.settled[at]);
    if (isSame && !hasReferences(source)) return;
    this.clear();
    this.tail.replaceChildren(render(source, true));
  }

  private clear(): void {
    this.settled = [];
    this.settledText = "";
    this.host.replaceChildren(this.tail);
  }
}

/** Returns true if the source has reference links, whose targets are in other blocks. */
function hasReferences(source: string): boolean {
  return /^ {0,3}\[[^\]]+\]:/m.test(source);
}

function split(source: string): string[] {
  if (!source) return [];
  if (source.length > MAX_BLOCK_LENGTH) return [source];
  try {
    return blocks(source);
  } catch {
    // Nested too deeply for the parser.
    return [source];
  }
}

function render(source: string, isFinal: boolean): DocumentFragment {
  if (source.length > MAX_BLOCK_LENGTH) return plain(source);
  try {
    const nodes = clean(toHtml(source));
    decorate(nodes, isFinal);
    showMath(nodes);
    return nodes;
  } catch {
    return plain(source);
  }
}

function plain(source: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const text = document.createElement("p");
  text.className = "plain";
  text.textContent = source;
  fragment.append(text);
  return fragment;
}
