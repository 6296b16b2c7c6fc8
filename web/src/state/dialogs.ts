/** Open dialog, edited message and sidebar state. */
import { signal } from "@preact/signals";

export type DialogName = "settings" | "help" | "key" | null;

export const openDialog = signal<DialogName>(null);
/** Id of the message being edited. */
export const editedMessage = signal<string | null>(null);
/** Id of the response after which the next message begins a branch. */
export const branchPoint = signal<string | null>(null);
/** Used on small screens; on others the sidebar is always visible. */
export const isSidebarOpen = signal(false);
