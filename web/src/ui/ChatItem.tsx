/** One chat of the history: to open, to rename, to delete. */
import { useState } from "preact/hooks";
import { withoutTurns } from "../markdown/visible.ts";
import type { Chat } from "../history/tree.ts";
import { changeChat, dropChat } from "../state/chats.ts";
import { isListOpen } from "../state/open.ts";
import { go } from "../state/place.ts";
import { runOf, stop } from "../state/run.ts";
import { IconButton } from "./IconButton.tsx";
import { Pencil, Trash } from "./icons.tsx";

type Doing = "nothing" | "renaming" | "deleting";

export function ChatItem({ chat, isCurrent }: { chat: Chat; isCurrent: boolean }) {
  const [doing, setDoing] = useState<Doing>("nothing");
  const done = () => setDoing("nothing");
  const title = withoutTurns(chat.title);
  if (doing === "renaming") return <Rename chat={chat} onDone={done} />;
  if (doing === "deleting") return <Delete chat={chat} title={title} onDone={done} />;
  return (
    <li class={isCurrent ? "chat-item current" : "chat-item"}>
      <a
        href={`#chat/${chat.id}`}
        dir="auto"
        aria-current={isCurrent ? "page" : undefined}
        title={title}
        onClick={(event) => {
          event.preventDefault();
          isListOpen.value = false;
          go({ kind: "chat", id: chat.id });
        }}
      >
        {title}
      </a>
      {runOf(chat.id) && <span class="pulse" role="img" aria-label="being written" />}
      <span class="chat-tools">
        <IconButton label={`Rename ${title}`} onClick={() => setDoing("renaming")}>
          <Pencil />
        </IconButton>
        <IconButton label={`Delete ${title}`} onClick={() => setDoing("deleting")}>
          <Trash />
        </IconButton>
      </span>
    </li>
  );
}

function Rename({ chat, onDone }: { chat: Chat; onDone: () => void }) {
  const [name, setName] = useState(chat.title);
  const keep = () => {
    const title = name.trim();
    if (title) changeChat(chat.id, (chat) => ({ ...chat, title, isNamed: true }));
    onDone();
  };
  return (
    <li class="chat-item">
      <input
        ref={(input) => input?.focus()}
        aria-label="Name of the chat"
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        onBlur={keep}
        onKeyDown={(event) => {
          if (event.key === "Enter") keep();
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
          dropChat(chat.id);
        }}
      >
        Delete
      </button>
      <button type="button" class="text-button" onClick={onDone}>
        Keep
      </button>
    </li>
  );
}
