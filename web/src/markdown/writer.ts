/**
 * Shows Markdown that is still being written. Blocks that can no longer change are put into the
 * page once; only the last two are made anew with every piece. So a piece costs what the end of the
 * answer costs, not what all of it does, and nothing above moves.
 */
import { clean } from "./clean.ts";
import { decorate } from "./decorate.ts";
import { blocks, toHtml } from "./parse.ts";
import { withoutTurns } from "./visible.ts";

/** A line can turn the last block into another kind, or join it to the one before. */
const OPEN_BLOCKS = 2;
/** A single block beyond this is shown as it is: nobody reads it, and parsing it could take long. */
const LONGEST_BLOCK = 200_000;

export class MarkdownWriter {
  /** Blocks that will not change. */
  private settled: string[] = [];
  private settledText = "";
  private readonly tail = document.createElement("div");

  constructor(private readonly host: HTMLElement) {
    this.tail.className = "tail";
    host.replaceChildren(this.tail);
  }

  /** Shows all of a text, of which the beginning is most often what was shown before. */
  show(text: string, isFinal: boolean): void {
    const source = withoutTurns(text.replace(/\r\n?/g, "\n"));
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

  /** What came in pieces may have been cut otherwise than the whole is. */
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

/** Links whose address stands in another block. */
function hasReferences(source: string): boolean {
  return /^ {0,3}\[[^\]]+\]:/m.test(source);
}

function split(source: string): string[] {
  if (!source) return [];
  if (source.length > LONGEST_BLOCK) return [source];
  try {
    return blocks(source);
  } catch {
    // Nested deeper than the parser can follow.
    return [source];
  }
}

function render(source: string, isFinal: boolean): DocumentFragment {
  if (source.length > LONGEST_BLOCK) return plain(source);
  try {
    const nodes = clean(toHtml(source));
    decorate(nodes, isFinal);
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
