/** What keys do, wherever the focus is. */
import { currentChat } from "./chats.ts";
import { isListOpen, openWindow } from "./open.ts";
import { go, goToChat, goToServer, place } from "./place.ts";
import { runs, stop } from "./run.ts";

/** For the list that people can open. */
export const SHORTCUTS: [keys: string, what: string][] = [
  ["Enter", "send"],
  ["Shift + Enter", "a new line"],
  ["Escape", "stop the reply; close what is open"],
  ["↑ in an empty message", "edit the last one"],
  ["Ctrl + Shift + O", "new chat"],
  ["Ctrl + K", "search the history"],
  ["Ctrl + ,", "settings"],
  ["Alt + 1, Alt + 2", "chat, server"],
  ["/", "write a message"],
  ["?", "this list"],
];

export function listenForShortcuts(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const action = actionOf(event);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function actionOf(event: KeyboardEvent): (() => void) | undefined {
  const isCommand = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  // A dialog has its own Escape, and keeps the other keys from the page behind it.
  if (document.querySelector("dialog[open]")) return undefined;
  if (isCommand && event.shiftKey && key === "o") return newChat;
  if (isCommand && key === "k") return () => focus("search", true);
  if (isCommand && key === ",") return () => (openWindow.value = "settings");
  if (event.altKey && key === "1") return goToChat;
  if (event.altKey && key === "2") return goToServer;
  if (key === "escape") return escape;
  if (isCommand || event.altKey || isTyping(event.target)) return undefined;
  if (key === "/") return () => focus("composer", false);
  if (key === "?") return () => (openWindow.value = "help");
  return undefined;
}

export function newChat(): void {
  isListOpen.value = false;
  go({ kind: "chat", id: null });
  requestAnimationFrame(() => focus("composer", false));
}

function escape(): void {
  if (isListOpen.value) isListOpen.value = false;
  else if (place.value.kind === "chat" && currentChat.value) stop(currentChat.value.id);
  else runs.value.forEach((run) => stop(run.chat));
}

function focus(id: string, openList: boolean): void {
  if (openList) isListOpen.value = true;
  document.getElementById(id)?.focus();
  // What is only being shown can be reached a moment later.
  requestAnimationFrame(() => document.getElementById(id)?.focus());
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select");
}
