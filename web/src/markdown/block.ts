/**
 * Shows a block that is being filled behind the text that is final, where it will stand: in the same
 * line, item or code. It is plain text; Markdown in it counts only when it is final. Masks are
 * narrower than most tokens, so a block that is filled grows, and what stands above it stays.
 */
import type { Block } from "../state/block.ts";
import { withoutTurns } from "./visible.ts";

/** Elements in whose last line a text goes on. */
const HOLDERS = new Set(["UL", "OL", "LI", "BLOCKQUOTE", "P", "H1", "H2", "H3", "H4", "H5", "H6"]);

export class BlockView {
  private readonly view = document.createElement("span");
  private shown: Block = [];

  constructor(private readonly host: HTMLElement) {
    this.view.className = "block";
    // Half of a sentence is no help to who listens: what is final is said at the end.
    this.view.ariaHidden = "true";
  }

  /** Shows a block behind a text that is in the host already. */
  show(block: Block, text: string): void {
    if (block.length) {
      this.fill(block);
      // It went with the end of the text if that was made anew; moving it for no reason would settle it again.
      if (!this.view.isConnected) this.place(text);
    } else {
      (this.view.closest(".begun") ?? this.view).remove();
    }
    this.shown = block;
  }

  /** Makes only what changed: what is known stays still, and what is new may settle in. */
  private fill(block: Block): void {
    if (block.length !== this.shown.length) this.view.replaceChildren(...block.map(tokenOf));
    else {
      for (const [at, token] of block.entries()) {
        if (token !== this.shown[at]) this.view.children[at]?.replaceWith(tokenOf(token));
      }
    }
  }

  private place(text: string): void {
    const tail = this.host.querySelector(":scope > .tail") ?? this.host;
    const last = tail.lastElementChild;
    const holder = last && holderIn(last, text);
    if (holder) return holder.append(this.view);
    const begun = document.createElement("p");
    begun.className = "begun";
    begun.append(this.view);
    tail.append(begun);
  }
}

/** Where a text goes on, or nothing where it begins anew. */
function holderIn(last: Element, text: string): Element | null {
  // The frame of code that is not closed yet.
  if (last.className === "code") return isInFence(text) ? last.querySelector("code") : null;
  if (/\n[ \t]*\n$/.test(text)) return null;
  let holder = null;
  for (let at: Element | null = last; at && HOLDERS.has(at.tagName); at = at.lastElementChild) {
    holder = at;
  }
  return holder;
}

function isInFence(text: string): boolean {
  return (text.match(/^ {0,3}(```|~~~)/gm)?.length ?? 0) % 2 === 1;
}

function tokenOf(token: string | null): HTMLElement {
  const node = document.createElement("span");
  node.className = token === null ? "mask" : "known";
  // As Markdown has it: empty lines part paragraphs, others are spaces.
  const [first = "", ...others] = withoutTurns(token ?? "").split(/\n\s*\n/);
  node.append(first);
  for (const part of others) {
    const gap = document.createElement("span");
    gap.className = "gap";
    gap.textContent = "\n\n";
    node.append(gap, part);
  }
  return node;
}
