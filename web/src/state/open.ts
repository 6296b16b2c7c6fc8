/** Which window is open over the page, and whether the list of chats is. */
import { signal } from "@preact/signals";

export type Window = "settings" | "help" | "key" | null;

export const openWindow = signal<Window>(null);
/** The message being edited. */
export const editedMessage = signal<string | null>(null);
/** On small screens alone; on others the list is always there. */
export const isListOpen = signal(false);
