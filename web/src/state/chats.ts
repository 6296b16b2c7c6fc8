/** All conversations: in memory to show, in the database to keep. Other tabs are told of changes. */
import { computed, signal } from "@preact/signals";
import * as store from "../history/store.ts";
import { type Chat, newChat } from "../history/tree.ts";
import { notify } from "./notice.ts";
import { go, place } from "./place.ts";
import { settings } from "./settings.ts";

export const chats = signal<Chat[]>([]);
/** Whether the database has been read. */
export const isLoaded = signal(false);

export const currentChat = computed(() => {
  const at = place.value;
  return at.kind === "chat" ? chats.value.find((chat) => chat.id === at.id) : undefined;
});

const others = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("wf-chats");

export async function loadChats(): Promise<void> {
  try {
    chats.value = await store.loadAll();
  } catch {
    notify("This browser keeps no history here: conversations end with the tab.");
  }
  isLoaded.value = true;
  others?.addEventListener("message", (event) => void readAgain(String(event.data)));
}

async function readAgain(id: string): Promise<void> {
  const chat = await store.load(id);
  const rest = chats.value.filter((other) => other.id !== id);
  chats.value = chat ? [...rest, chat] : rest;
}

export function chatOf(id: string): Chat | undefined {
  return chats.peek().find((chat) => chat.id === id);
}

export function startChat(): Chat {
  const chat = newChat(newId(), Date.now(), settings.peek().system);
  chats.value = [...chats.value, chat];
  go({ kind: "chat", id: chat.id });
  return chat;
}

/** Changes a conversation, and keeps it. */
export function changeChat(id: string, change: (chat: Chat) => Chat): void {
  const before = chatOf(id);
  if (!before) return;
  const after = change(before);
  chats.value = chats.value.map((chat) => (chat.id === id ? after : chat));
  keepChat(after);
}

export function keepChat(chat: Chat): void {
  store
    .save(chat)
    .then(() => others?.postMessage(chat.id))
    .catch(() => notify("This conversation could not be kept: the browser's storage refused."));
}

export function dropChat(id: string): void {
  chats.value = chats.value.filter((chat) => chat.id !== id);
  const at = place.peek();
  if (at.kind === "chat" && at.id === id) go({ kind: "chat", id: null });
  void store.drop(id).then(() => others?.postMessage(id));
}

/** Adds what a file had. A conversation that is here already comes in under a new name. */
export function takeChats(imported: Chat[]): void {
  const known = new Set(chats.peek().map((chat) => chat.id));
  const fresh = imported.map((chat) => (known.has(chat.id) ? { ...chat, id: newId() } : chat));
  chats.value = [...chats.value, ...fresh];
  fresh.forEach(keepChat);
}

/** A name that no other has. `randomUUID` is for encrypted pages alone. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
