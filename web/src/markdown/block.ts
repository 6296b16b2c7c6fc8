/**
 * Shows a diffusion block that is still being filled after the final text, in the line, list item or
 * code block where its text will appear. It is plain text; Markdown is parsed only once the text is
 * final. Masks are narrower than most tokens, so a block only grows and nothing above it moves.
 */
import type { Block } from "../state/block.ts";
import { escapeBidi } from "./bidi.ts";

/** Elements whose last line the text continues. */
const HOLDERS = new Set(["UL", "OL", "LI", "BLOCKQUOTE", "P", "H1", "H2", "H3", "H4", "H5", "H6"]);

export class BlockView {
  private readonly view = document.createElement("span");
  private shown: Block = [];

  constructor(private readonly host: HTMLElement) {
    this.view.className = "block";
    // Screen readers get the final text only.
    this.view.ariaHidden = "true";
  }

  /** Shows `block` after `text`, which the host already contains. */
  show(block: Block, text: string): void {
    if (block.length) {
      this.fill(block);
      // It is detached if the end of the text was rendered again. Moving it otherwise would restart its animation.
      if (!this.view.isConnected) this.place(text);
    } else {
      (this.view.closest(".begun") ?? this.view).remove();
    }
    this.shown = block;
  }

  /** Replaces only the tokens that changed, so that only those are animated. */
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

/** Returns the element that `text` continues, or null if a new paragraph begins. */
function holderIn(last: Element, text: string): Element | null {
  // A code block continues until its fence is closed.
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
  // As in Markdown, blank lines separate paragraphs and other line breaks are spaces.
  const [first = "", ...others] = escapeBidi(token ?? "").split(/\n\s*\n/);
  node.append(first);
  for (const part of others) {
    const gap = document.createElement("span");
    gap.className = "gap";
    gap.textContent = "\n\n";
    node.append(gap, part);
  }
  return node;
}
