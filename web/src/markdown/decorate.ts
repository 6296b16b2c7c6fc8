/** Adds a language label and a copy button to code, and scrolling to code, tables and formulas. */
import { copyText } from "../browser/clipboard.ts";
import { highlight } from "./highlight.ts";

export function decorate(nodes: DocumentFragment, isFinal: boolean): void {
  for (const pre of nodes.querySelectorAll("pre")) {
    const code = pre.querySelector("code");
    if (!code) continue;
    if (isFinal) highlight(code);
    const frame = element("div", "code");
    pre.replaceWith(frame);
    frame.append(head(code), pre);
    scrolls(pre, "code");
  }
  for (const table of nodes.querySelectorAll("table")) {
    const frame = element("div", "table");
    table.replaceWith(frame);
    frame.append(table);
    scrolls(frame, "table");
  }
  for (const formula of nodes.querySelectorAll<HTMLElement>("p.math")) scrolls(formula, "formula");
}

function head(code: HTMLElement): HTMLElement {
  const head = element("div", "code-head");
  const name = element("span", "code-name");
  name.textContent = /language-(\S+)/.exec(code.className)?.[1]?.slice(0, 20) ?? "code";
  const copy = element("button", "code-copy");
  copy.setAttribute("type", "button");
  copy.textContent = "Copy";
  copy.addEventListener("click", () => {
    void copyText(code.textContent ?? "").then((isCopied) => {
      copy.textContent = isCopied ? "Copied" : "Copy failed";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
  });
  head.append(name, copy);
  return head;
}

/** Makes a scrolling element focusable by keyboard and gives it a label. */
function scrolls(node: HTMLElement, name: string): void {
  node.tabIndex = 0;
  node.setAttribute("role", "region");
  node.setAttribute("aria-label", name);
}

function element(tag: string, name: string): HTMLElement {
  const made = document.createElement(tag);
  made.className = name;
  return made;
}
