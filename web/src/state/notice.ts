/** Notices that disappear after a few seconds, and announcements for screen readers. */
import { signal } from "@preact/signals";

export const notice = signal("");
/** Text for screen readers only. */
export const announcement = signal("");

let timer: ReturnType<typeof setTimeout> | undefined;

export function notify(text: string): void {
  notice.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => (notice.value = ""), 6000);
}
