/** An answer, shown as it is written. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { MarkdownWriter } from "../markdown/writer.ts";

export function Markdown({ text, isFinal }: { text: string; isFinal: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const writer = useRef<MarkdownWriter | null>(null);
  useLayoutEffect(() => {
    if (!host.current) return;
    writer.current ??= new MarkdownWriter(host.current);
    writer.current.show(text, isFinal);
  }, [text, isFinal]);
  return <div class="markdown" dir="auto" ref={host} />;
}
