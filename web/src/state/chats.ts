/** All chats, in memory and in IndexedDB. Other tabs are notified of changes. */
import { computed, signal } from "@preact/signals";
import * as store from "../history/store.ts";
import { type Chat, newChat } from "../history/tree.ts";
import { notify } from "./notice.ts";
import { go, route } from "./route.ts";
import { settings } from "./settings.ts";

export const chats = signal<Chat[]>([]);
/** True once the chats have been read from the database. */
export const isLoaded = signal(false);

export const currentChat = computed(() => {
  const at = route.value;
  return at.kind === "chat" ? chats.value.find((chat) => chat.id === at.id) : undefined;
});

const others = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("wf-chats");

export async function loadChats(): Promise<void> {
  try {
    const stored = await store.loadAll();
    // Chats that began while the database was being read are newer in memory.
    const begun = chats.peek();
    const known = new Set(begun.map((chat) => chat.id));
    chats.value = [...stored.filter((chat) => !known.has(chat.id)), ...begun];
  } catch {
    notify("This browser does not allow storage: chats are lost when the tab is closed.");
  }
  isLoaded.value = true;
  others?.addEventListener("message", (event) => void reload(String(event.data)));
}

async function reload(id: string): Promise<void> {
  const chat = await store.load(id);
  const rest = chats.value.filter((other) => other.id !== id);
  chats.value = chat ? [...rest, chat] : rest;
}

export function chatOf(id: string): Chat | undefined {
  return chats.peek().find((chat) => chat.id === id);
}

/** System prompt of the chat that begins with the next message; null for that of the settings. */
export const draftSystem = signal<string | null>(null);

/** Returns the system prompt of the chat `id`, or of the one that begins next. */
export function systemOf(id: string | null): string {
  const chat = id === null ? undefined : chats.value.find((chat) => chat.id === id);
  return chat ? chat.system : (draftSystem.value ?? settings.value.system);
}

export function changeSystem(id: string | null, system: string): void {
  if (id === null) draftSystem.value = system;
  else changeChat(id, (chat) => ({ ...chat, system }));
}

export function startChat(): Chat {
  const chat = newChat(newId(), Date.now(), systemOf(null));
  draftSystem.value = null;
  chats.value = [...chats.value, chat];
  go({ kind: "chat", id: chat.id });
  return chat;
}

/** Changes a chat and saves it. */
export function changeChat(id: string, change: (chat: Chat) => Chat): void {
  const before = chatOf(id);
  if (!before) return;
  const after = change(before);
  chats.value = chats.value.map((chat) => (chat.id === id ? after : chat));
  saveChat(after);
}

export function saveChat(chat: Chat): void {
  store
    .save(chat)
    .then(() => others?.postMessage(chat.id))
    .catch(() => notify("This chat could not be saved: the browser storage is full or disabled."));
}

export function deleteChat(id: string): void {
  chats.value = chats.value.filter((chat) => chat.id !== id);
  const at = route.peek();
  if (at.kind === "chat" && at.id === id) go({ kind: "chat", id: null });
  store
    .remove(id)
    .then(() => others?.postMessage(id))
    .catch(() => notify("This chat could not be deleted: the browser storage is disabled."));
}

/** Adds imported chats. A chat whose id exists already gets a new id. */
export function importChats(imported: Chat[]): void {
  const known = new Set(chats.peek().map((chat) => chat.id));
  const fresh = imported.map((chat) => (known.has(chat.id) ? { ...chat, id: newId() } : chat));
  chats.value = [...chats.value, ...fresh];
  fresh.forEach(saveChat);
}

/** Returns a random id. `randomUUID` is available only with HTTPS. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
