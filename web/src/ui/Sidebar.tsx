/** Chat history, newest first, with search, export and import. */
import { useState } from "preact/hooks";
import { download } from "../browser/download.ts";
import { read, write } from "../history/transfer.ts";
import { type Chat, matches } from "../history/tree.ts";
import { chats, currentChat, importChats } from "../state/chats.ts";
import { notify } from "../state/notice.ts";
import { isSidebarOpen } from "../state/dialogs.ts";
import { newChat } from "../state/shortcuts.ts";
import { ChatItem } from "./ChatItem.tsx";
import { IconButton } from "./IconButton.tsx";
import { Close, Download, Mark, Plus, Upload } from "./icons.tsx";

export function Sidebar() {
  const [query, setQuery] = useState("");
  const saved = chats.value.filter((chat) => chat.messages.length > 0);
  const found = saved.filter((chat) => matches(chat, query));
  found.sort((a, b) => b.updated - a.updated);
  return (
    <nav class={isSidebarOpen.value ? "sidebar open" : "sidebar"} aria-label="Chats">
      <div class="sidebar-head">
        <Mark />
        <span class="brand">WrinkleFree</span>
        <span class="only-small">
          <IconButton label="Close chat list" onClick={() => (isSidebarOpen.value = false)}>
            <Close />
          </IconButton>
        </span>
      </div>
      <button type="button" class="button main wide" onClick={newChat}>
        <Plus /> New chat
      </button>
      <input
        id="search"
        type="search"
        placeholder="Search"
        aria-label="Search chats"
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
      />
      <ul class="chats">
        {found.map((chat) => (
          <ChatItem key={chat.id} chat={chat} isCurrent={chat.id === currentChat.value?.id} />
        ))}
      </ul>
      {!found.length && <p class="quiet">{query ? "No chats found." : "No chats yet."}</p>}
      <Files chats={saved} />
    </nav>
  );
}

function Files({ chats }: { chats: Chat[] }) {
  return (
    <div class="sidebar-foot">
      <button
        type="button"
        class="text-button"
        disabled={!chats.length}
        onClick={() => exportAll(chats)}
      >
        <Download /> Export
      </button>
      <label class="text-button">
        <Upload /> Import
        <input
          type="file"
          class="unseen"
          accept="application/json,.json"
          onChange={(event) => {
            void importFile(event.currentTarget.files?.[0]);
            event.currentTarget.value = "";
          }}
        />
      </label>
    </div>
  );
}

function exportAll(chats: Chat[]): void {
  const day = new Date().toISOString().slice(0, 10);
  download(write(chats), `wrinklefree-${day}.json`, "application/json");
}

async function importFile(file: File | undefined): Promise<void> {
  if (!file) return;
  try {
    const imported = read(await file.text());
    importChats(imported);
    notify(imported.length === 1 ? "1 chat imported." : `${imported.length} chats imported.`);
  } catch (error) {
    notify(`Import failed: ${(error as Error).message}.`);
  }
}
