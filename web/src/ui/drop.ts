/** Accepts files that are dropped anywhere on the page. */
import { signal } from "@preact/signals";

/** True while files are dragged over the page. */
export const isDragging = signal(false);

/** Calls `onFiles` with dropped files until the returned function is called. */
export function acceptDrops(onFiles: (files: FileList) => void): () => void {
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  const events: [string, (event: DragEvent) => void][] = [
    [
      "dragover",
      (event) => {
        // Without this, the browser would open the file in place of the page.
        event.preventDefault();
        isDragging.value = true;
      },
    ],
    [
      "dragleave",
      (event) => {
        if (!event.relatedTarget) isDragging.value = false;
      },
    ],
    [
      "drop",
      (event) => {
        event.preventDefault();
        isDragging.value = false;
        if (event.dataTransfer) onFiles(event.dataTransfer.files);
      },
    ],
  ];
  const listeners = events.map(([name, act]) => {
    const listener = (event: Event) => hasFiles(event as DragEvent) && act(event as DragEvent);
    document.addEventListener(name, listener);
    return () => document.removeEventListener(name, listener);
  });
  return () => listeners.forEach((remove) => remove());
}
