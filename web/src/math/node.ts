/** MathML elements, before they are made. */

export interface MathNode {
  tag: string;
  attributes?: Record<string, string>;
  /** Either a text or elements. */
  content: string | MathNode[];
}

export const node = (
  tag: string,
  content: string | MathNode[],
  attributes?: Record<string, string>,
): MathNode => ({ tag, content, ...(attributes && { attributes }) });

export const row = (content: MathNode[]): MathNode =>
  content.length === 1 ? content[0]! : node("mrow", content);

export const space = (em: number): MathNode => node("mspace", [], { width: `${em}em` });

/** A bracket that grows with what it encloses; none if it is empty. */
export const fence = (text: string): MathNode[] =>
  text ? [node("mo", text, { stretchy: "true" })] : [];

const NAMESPACE = "http://www.w3.org/1998/Math/MathML";

/** Makes the elements. Texts stay texts: nothing is parsed. */
export function elementOf({ tag, attributes = {}, content }: MathNode): Element {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (typeof content === "string") element.textContent = content;
  else element.append(...content.map(elementOf));
  return element;
}
