/** One chat in the sidebar: opens, renames and deletes it. */
import { useState } from "preact/hooks";
import { download } from "../browser/download.ts";
import { fileNameOf, toMarkdown } from "../history/document.ts";
import { escapeBidi } from "../markdown/bidi.ts";
import type { Chat } from "../history/tree.ts";
import { changeChat, deleteChat } from "../state/chats.ts";
import { isSidebarOpen } from "../state/dialogs.ts";
import { go } from "../state/route.ts";
import { runOf, stop } from "../state/run.ts";
import { IconButton } from "./IconButton.tsx";
import { Download, Pencil, Trash } from "./icons.tsx";

type Mode = "idle" | "renaming" | "deleting";

export function ChatItem({ chat, isCurrent }: { chat: Chat; isCurrent: boolean }) {
  const [mode, setMode] = useState<Mode>("idle");
  const done = () => setMode("idle");
  const title = escapeBidi(chat.title);
  if (mode === "renaming") return <Rename chat={chat} onDone={done} />;
  if (mode === "deleting") return <Delete chat={chat} title={title} onDone={done} />;
  return (
    <li class={isCurrent ? "chat-item current" : "chat-item"}>
      <a
        href={`#chat/${chat.id}`}
        dir="auto"
        aria-current={isCurrent ? "page" : undefined}
        title={title}
        onClick={(event) => {
          event.preventDefault();
          isSidebarOpen.value = false;
          go({ kind: "chat", id: chat.id });
        }}
      >
        {title}
      </a>
      {runOf(chat.id) && <span class="pulse" role="img" aria-label="Generating" />}
      <span class="chat-tools">
        <IconButton
          label={`Export ${title} as Markdown`}
          onClick={() => download(toMarkdown(chat), fileNameOf(chat.title), "text/markdown")}
        >
          <Download />
        </IconButton>
        <IconButton label={`Rename ${title}`} onClick={() => setMode("renaming")}>
          <Pencil />
        </IconButton>
        <IconButton label={`Delete ${title}`} onClick={() => setMode("deleting")}>
          <Trash />
        </IconButton>
      </span>
    </li>
  );
}

function Rename({ chat, onDone }: { chat: Chat; onDone: () => void }) {
  const [name, setName] = useState(chat.title);
  const save = () => {
    const title = name.trim();
    if (title) changeChat(chat.id, (chat) => ({ ...chat, title, isNamed: true }));
    onDone();
  };
  return (
    <li class="chat-item">
      <input
        ref={(input) => input?.focus()}
        aria-label="Chat title"
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        onBlur={save}
        onKeyDown={(event) => {
          if (event.key === "Enter") save();
          if (event.key === "Escape") {
            event.stopPropagation();
            onDone();
          }
        }}
      />
    </li>
  );
}

function Delete({ chat, title, onDone }: { chat: Chat; title: string; onDone: () => void }) {
  return (
    <li class="chat-item asking" role="group" aria-label={`Delete ${title}?`}>
      <span>Delete?</span>
      <button
        type="button"
        class="text-button danger"
        ref={(button) => button?.focus()}
        onClick={() => {
          stop(chat.id);
          deleteChat(chat.id);
        }}
      >
        Delete
      </button>
      <button type="button" class="text-button" onClick={onDone}>
        Cancel
      </button>
    </li>
  );
}
