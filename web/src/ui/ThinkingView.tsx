/** What the model thought before it answered: open while it thinks, folded afterwards. */
import { useState } from "preact/hooks";
import type { Thinking } from "../history/tree.ts";
import { escapeBidi } from "../markdown/bidi.ts";
import { duration } from "./units.ts";

export function ThinkingView({
  thinking,
  isThinking,
}: {
  thinking: Thinking;
  isThinking: boolean;
}) {
  /** Set once the user opens or folds it. */
  const [choice, setChoice] = useState<boolean | null>(null);
  const isOpen = choice ?? isThinking;
  return (
    <details class="thinking" open={isOpen}>
      <summary
        // A key press on a summary is a click too.
        onClick={(event) => {
          event.preventDefault();
          setChoice(!isOpen);
        }}
      >
        {isThinking ? "Thinking" : "Thought"} for {duration(thinking.ms)}
      </summary>
      <div class="thinking-text" dir="auto">
        {escapeBidi(thinking.text.trim())}
      </div>
    </details>
  );
}
