/** System prompt of a chat, folded to its first words. A change applies to the next response. */
import { changeSystem, systemOf } from "../state/chats.ts";
import { titleOf } from "../history/tree.ts";
import { escapeBidi } from "../markdown/bidi.ts";

export function SystemPrompt({ chat }: { chat: string | null }) {
  const text = systemOf(chat);
  return (
    <details class="system">
      <summary>
        System prompt{text.trim() ? ":" : ""}{" "}
        <span dir="auto">{text.trim() && escapeBidi(titleOf(text))}</span>
      </summary>
      <textarea
        class="grows"
        rows={2}
        dir="auto"
        aria-label="System prompt of this chat"
        placeholder="None"
        value={text}
        onInput={(event) => changeSystem(chat, event.currentTarget.value)}
      />
    </details>
  );
}
