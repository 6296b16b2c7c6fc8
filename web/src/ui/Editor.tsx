/** Editor of a message that has been sent. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";

interface EditorProps {
  text: string;
  onSend: (text: string) => void;
  onCancel: () => void;
}

export function Editor({ text, onSend, onCancel }: EditorProps) {
  const [draft, setDraft] = useState(text);
  const area = useRef<HTMLTextAreaElement>(null);
  // Before the next event: an effect after the paint would move the caret while the user already types.
  useLayoutEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
  }, []);
  const send = () => draft.trim() && onSend(draft);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      onCancel();
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    }
  };
  return (
    <>
      <textarea
        ref={area}
        class="grows"
        dir="auto"
        aria-label="Edit your message"
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="editor-buttons">
        <button type="button" class="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="button" class="button main" disabled={!draft.trim()} onClick={send}>
          Send
        </button>
      </div>
    </>
  );
}
