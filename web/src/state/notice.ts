/** One line that says what happened, for a while. */
import { signal } from "@preact/signals";

export const notice = signal("");
/** For screen readers alone. */
export const spoken = signal("");

let timer: ReturnType<typeof setTimeout> | undefined;

export function notify(text: string): void {
  notice.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => (notice.value = ""), 6000);
}
