/** Input for the next message. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { editedMessage } from "../state/dialogs.ts";
import { type Run, send, stop } from "../state/run.ts";
import { IconButton } from "./IconButton.tsx";
import { rate } from "./StatsLine.tsx";
import { Send, Stop } from "./icons.tsx";

interface ComposerProps {
  chat: string | null;
  run: Run | undefined;
  /** Message that the up arrow edits. */
  lastQuestion: string | undefined;
  onSent: () => void;
}

export function Composer({ chat, run, lastQuestion, onSent }: ComposerProps) {
  const [text, setText] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  // Before the next event, so that focus is not moved away from what the user clicks or types in next.
  useLayoutEffect(() => {
    // On a phone, the on-screen keyboard would cover half of the messages.
    if (matchMedia("(pointer: fine)").matches) area.current?.focus();
  }, [chat]);
  const submit = () => {
    if (!text.trim() || run) return;
    send(chat, text);
    setText("");
    onSent();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === "ArrowUp" && !text && !run && lastQuestion) {
      event.preventDefault();
      editedMessage.value = lastQuestion;
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      submit();
    }
  };
  return (
    <>
      <form
        class="composer"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <textarea
          ref={area}
          id="composer"
          class="grows"
          rows={1}
          dir="auto"
          placeholder="Write a message"
          aria-label="Message"
          enterkeyhint="send"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        {run ? (
          <IconButton kind="main" label="Stop" onClick={() => stop(run.chat)}>
            <Stop />
          </IconButton>
        ) : (
          <IconButton kind="main" label="Send" disabled={!text.trim()} onClick={submit}>
            <Send />
          </IconButton>
        )}
      </form>
      <Note run={run} />
    </>
  );
}

/** Shows the speed during generation, and otherwise the keys. */
function Note({ run }: { run: Run | undefined }) {
  const phase = run?.phase.value;
  const speed =
    phase?.kind === "streaming" && phase.perSecond > 0 && `${rate(phase.perSecond)} tok/s`;
  return (
    <p class="note">
      {run ? (
        <>
          {speed && `${speed} · `}
          <kbd>Esc</kbd> to stop
        </>
      ) : (
        <>
          <kbd>Enter</kbd> to send, <kbd>Shift + Enter</kbd> for a new line
        </>
      )}
    </p>
  );
}
