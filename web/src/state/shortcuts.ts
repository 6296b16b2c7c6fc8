/** Keyboard shortcuts of the page. */
import { currentChat, draftSystem } from "./chats.ts";
import { stopComparison } from "./compare.ts";
import { branchPoint, isSidebarOpen, openDialog } from "./dialogs.ts";
import { go, openChat, openCompare, openServer, route } from "./route.ts";
import { runs, stop } from "./run.ts";

/** Shown in the help dialog. */
export const SHORTCUTS: [keys: string, action: string][] = [
  ["Enter", "send the message"],
  ["Shift + Enter", "insert a new line"],
  ["Escape", "stop the response; close a dialog; cancel a branch"],
  ["↑ in an empty message", "edit your last message"],
  ["Ctrl + Shift + O", "start a new chat"],
  ["Ctrl + K", "search chats"],
  ["Ctrl + ,", "open settings"],
  ["Alt + 1, 2, 3", "show the chat, the server, the comparison"],
  ["/", "focus the message input"],
  ["?", "show this list"],
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
  // An open dialog handles its own keys.
  if (document.querySelector("dialog[open]")) return undefined;
  if (isCommand && event.shiftKey && key === "o") return newChat;
  if (isCommand && key === "k") return () => focus("search", true);
  if (isCommand && key === ",") return () => (openDialog.value = "settings");
  if (event.altKey && key === "1") return openChat;
  if (event.altKey && key === "2") return openServer;
  if (event.altKey && key === "3") return openCompare;
  if (key === "escape") return escape;
  if (isCommand || event.altKey || isTyping(event.target)) return undefined;
  if (key === "/") return () => focus("composer", false);
  if (key === "?") return () => (openDialog.value = "help");
  return undefined;
}

export function newChat(): void {
  isSidebarOpen.value = false;
  draftSystem.value = null;
  go({ kind: "chat", id: null });
  requestAnimationFrame(() => focus("composer", false));
}

function escape(): void {
  if (isSidebarOpen.value) isSidebarOpen.value = false;
  else if (route.value.kind === "compare") stopComparison();
  else if (branchPoint.value) branchPoint.value = null;
  else if (route.value.kind === "chat" && currentChat.value) stop(currentChat.value.id);
  else runs.value.forEach((run) => stop(run.chat));
}

function focus(id: string, openList: boolean): void {
  if (openList) isSidebarOpen.value = true;
  document.getElementById(id)?.focus();
  // The element may become focusable only after the next render.
  requestAnimationFrame(() => document.getElementById(id)?.focus());
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select");
}
