/** One message with its actions. */
import { useState } from "preact/hooks";
import type { Round } from "../history/calls.ts";
import { contextNote } from "../history/sight.ts";
import { type Chat, type Message, step, versions } from "../history/tree.ts";
import { EMPTY_BLOCK } from "../state/block.ts";
import { changeChat } from "../state/chats.ts";
import { copyText } from "../browser/clipboard.ts";
import { notify } from "../state/notice.ts";
import { branchPoint, editedMessage } from "../state/dialogs.ts";
import { type Run, editAndSend, regenerate } from "../state/run.ts";
import { Editor } from "./Editor.tsx";
import { SentFiles } from "./Files.tsx";
import { IconButton } from "./IconButton.tsx";
import { Markdown } from "./Markdown.tsx";
import { PhaseLine } from "./PhaseLine.tsx";
import { StatsLine } from "./StatsLine.tsx";
import { ThinkingView } from "./ThinkingView.tsx";
import { Rounds } from "./ToolCalls.tsx";
import { Again, Branch, Check, Copy, Left, Pencil, Right } from "./icons.tsx";

interface MessageProps {
  chat: Chat;
  message: Message;
  /** The response being generated in this chat, if any. */
  run: Run | undefined;
}

export function MessageView({ chat, message, run }: MessageProps) {
  return message.role === "user" ? (
    <Question chat={chat} message={message} run={run} />
  ) : (
    <Answer chat={chat} message={message} run={run} />
  );
}

function Question({ chat, message, run }: MessageProps) {
  const close = () => (editedMessage.value = null);
  if (editedMessage.value === message.id) {
    const send = (text: string) => {
      close();
      editAndSend(chat.id, message, text);
    };
    return (
      <article class="message user editing" aria-label="Editing your message">
        <Editor text={message.content} onSend={send} onCancel={close} />
      </article>
    );
  }
  return (
    <article class="message user" aria-label="You">
      {message.files && <SentFiles files={message.files} />}
      {message.content && (
        <div class="bubble" dir="auto">
          {message.content}
        </div>
      )}
      <footer class="actions">
        <Versions chat={chat} message={message} isBusy={!!run} />
        <CopyButton text={message.content} />
        <IconButton
          label="Edit and resend"
          disabled={!!run}
          onClick={() => (editedMessage.value = message.id)}
        >
          <Pencil />
        </IconButton>
      </footer>
    </article>
  );
}

/** While tools are called, nobody waits for the server. */
const isCalling = (rounds: Round[]): boolean =>
  rounds.at(-1)?.calls.some(({ state }) => state === "asking" || state === "running") ?? false;

function Answer({ chat, message, run }: MessageProps) {
  const own = run?.message === message.id ? run : undefined;
  const isStreaming = own?.phase.value.kind === "streaming";
  const text = own ? own.text.value : message.content;
  const thinking = own ? own.thinking.value : message.thinking;
  const rounds = own ? own.rounds.value : (message.rounds ?? []);
  return (
    <article class="message assistant" aria-label="Response" aria-busy={!!own}>
      <Rounds rounds={rounds} isRunning={!!own} />
      {thinking && <ThinkingView thinking={thinking} isThinking={!!own && !text} />}
      <Markdown text={text} block={own ? own.block.value : EMPTY_BLOCK} isFinal={!own} />
      {!own && <Ending message={message} chat={chat} isBusy={!!run} />}
      {!own && <ContextNote message={message} chat={chat} />}
      <footer class={isStreaming ? "actions hidden" : "actions"}>
        {own ? (
          !isCalling(rounds) && <PhaseLine phase={own.phase.value} />
        ) : (
          <>
            <Versions chat={chat} message={message} isBusy={!!run} />
            <CopyButton text={message.content} />
            <IconButton
              label="Regenerate"
              disabled={!!run}
              onClick={() => regenerate(chat.id, message)}
            >
              <Again />
            </IconButton>
            {versions(chat, message.id).length > 0 && (
              <IconButton
                label="Branch from here"
                disabled={!!run}
                onClick={() => (branchPoint.value = message.id)}
              >
                <Branch />
              </IconButton>
            )}
            {message.stats && <StatsLine stats={message.stats} />}
          </>
        )}
      </footer>
    </article>
  );
}

/** Says that the chat nears the end of the context, or that its beginning is out of sight. */
function ContextNote({ message, chat }: { message: Message; chat: Chat }) {
  const note = contextNote(chat, message);
  return note ? <p class="ending">{note}</p> : null;
}

const ENDINGS: Record<string, string> = {
  length: "The response reached the maximum length.",
  deadline: "The response reached the time limit of the server.",
  stopped: "Stopped.",
};

/** Says why a response ended, unless it ended normally. */
function Ending({ message, chat, isBusy }: { message: Message; chat: Chat; isBusy: boolean }) {
  if (message.ending === "stop") return null;
  const note = ENDINGS[message.ending ?? ""];
  if (note) return <p class="ending">{note}</p>;
  return (
    <p class="ending problem" role="alert">
      <span>The response was interrupted{message.problem ? `: ${message.problem}` : ""}.</span>
      <button
        type="button"
        class="text-button"
        disabled={isBusy}
        onClick={() => regenerate(chat.id, message)}
      >
        Retry
      </button>
    </p>
  );
}

function Versions({ chat, message, isBusy }: { chat: Chat; message: Message; isBusy: boolean }) {
  const all = versions(chat, message.parent);
  if (all.length < 2) return null;
  const at = all.findIndex((version) => version.id === message.id);
  const show = (by: number) => {
    branchPoint.value = null;
    changeChat(chat.id, (chat) => step(chat, message.id, by));
  };
  return (
    <span class="versions" role="group" aria-label="Versions">
      <IconButton label="Previous version" disabled={isBusy || at === 0} onClick={() => show(-1)}>
        <Left />
      </IconButton>
      <span aria-label={`Version ${at + 1} of ${all.length}`}>
        {at + 1} of {all.length}
      </span>
      <IconButton
        label="Next version"
        disabled={isBusy || at === all.length - 1}
        onClick={() => show(1)}
      >
        <Right />
      </IconButton>
    </span>
  );
}

function CopyButton({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    if (!(await copyText(text))) return notify("The browser denied access to the clipboard.");
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <IconButton label={isCopied ? "Copied" : "Copy"} onClick={() => void copy()}>
      {isCopied ? <Check /> : <Copy />}
    </IconButton>
  );
}
