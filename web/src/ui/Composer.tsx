/** Input for the next message. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { editedMessage } from "../state/dialogs.ts";
import { addFiles, draftFiles, filesProblem, takeFiles } from "../state/files.ts";
import { type Run, send, stop } from "../state/run.ts";
import { acceptDrops, isDragging } from "./drop.ts";
import { DraftFiles } from "./Files.tsx";
import { IconButton } from "./IconButton.tsx";
import { ThinkingSelect } from "./ThinkingSelect.tsx";
import { rate } from "./units.ts";
import { Clip, Send, Stop } from "./icons.tsx";

interface ComposerProps {
  chat: string | null;
  /** Message that the next one follows; null for the last one. */
  after: string | null;
  run: Run | undefined;
  /** Message that the up arrow edits. */
  lastQuestion: string | undefined;
  onSent: () => void;
}

export function Composer({ chat, after, run, lastQuestion, onSent }: ComposerProps) {
  const [text, setText] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  // Before the next event, so that focus is not moved away from what the user clicks or types in next.
  useLayoutEffect(() => {
    // On a phone, the on-screen keyboard would cover half of the messages.
    if (matchMedia("(pointer: fine)").matches) area.current?.focus();
  }, [chat, after]);
  useEffect(() => acceptDrops((files) => void addFiles(files)), []);
  const canSend = !filesProblem.value && (text.trim() !== "" || draftFiles.value.length > 0);
  const submit = () => {
    if (!canSend || run) return;
    send(chat, text, { files: takeFiles(), after });
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
      <DraftFiles />
      <form
        class={isDragging.value ? "composer dropping" : "composer"}
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <AttachButton />
        <textarea
          ref={area}
          id="composer"
          class="grows"
          rows={1}
          dir="auto"
          placeholder={isDragging.value ? "Drop files to add them" : "Write a message"}
          aria-label="Message"
          enterkeyhint="send"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
          onPaste={(event) => {
            const files = event.clipboardData?.files;
            if (!files?.length) return;
            event.preventDefault();
            void addFiles(files);
          }}
        />
        {run ? (
          <IconButton kind="main" label="Stop" onClick={() => stop(run.chat)}>
            <Stop />
          </IconButton>
        ) : (
          <IconButton kind="main" label="Send" disabled={!canSend} onClick={submit}>
            <Send />
          </IconButton>
        )}
      </form>
      <div class="below-composer">
        <Note run={run} />
        <ThinkingSelect />
      </div>
    </>
  );
}

function AttachButton() {
  return (
    <label class="icon-button attach" title="Attach text files">
      <Clip />
      <input
        type="file"
        class="unseen"
        multiple
        aria-label="Attach text files"
        onChange={(event) => {
          void addFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </label>
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
