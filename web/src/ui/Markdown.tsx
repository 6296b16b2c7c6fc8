/** A response, rendered while it streams, followed by the block that is being filled. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { BlockView } from "../markdown/block.ts";
import { MarkdownWriter } from "../markdown/writer.ts";
import type { Block } from "../state/block.ts";

export function Markdown({
  text,
  block,
  isFinal,
}: {
  text: string;
  block: Block;
  isFinal: boolean;
}) {
  const host = useRef<HTMLDivElement>(null);
  const writer = useRef<MarkdownWriter | null>(null);
  const filling = useRef<BlockView | null>(null);
  useLayoutEffect(() => {
    if (!host.current) return;
    writer.current ??= new MarkdownWriter(host.current);
    writer.current.show(text, isFinal);
  }, [text, isFinal]);
  // Runs after the effect above, so that the block follows the current text.
  useLayoutEffect(() => {
    if (!host.current || (!block.length && !filling.current)) return;
    filling.current ??= new BlockView(host.current);
    filling.current.show(block, text);
  }, [text, block, isFinal]);
  return <div class="markdown" dir="auto" ref={host} />;
}
