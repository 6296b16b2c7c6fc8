/** Which part of the page is shown; the address tells, so going back works. */
import { effect, signal } from "@preact/signals";

export type Place = { kind: "chat"; id: string | null } | { kind: "server" };

function read(): Place {
  const hash = location.hash;
  if (hash === "#server") return { kind: "server" };
  const id = /^#chat\/([\w-]+)$/.exec(hash)?.[1];
  return { kind: "chat", id: id ?? null };
}

export const place = signal<Place>(read());

window.addEventListener("hashchange", () => (place.value = read()));

export function go(next: Place): void {
  const hash = next.kind === "server" ? "#server" : next.id ? `#chat/${next.id}` : "#";
  const { value: from } = place;
  // An empty chat is nowhere to come back to.
  const isEmpty = from.kind === "chat" && from.id === null;
  if (location.hash !== hash) history[isEmpty ? "replaceState" : "pushState"](null, "", hash);
  place.value = next;
}

window.addEventListener("popstate", () => (place.value = read()));

let lastChat: string | null = null;
effect(() => {
  if (place.value.kind === "chat") lastChat = place.value.id;
});

/** To the chat that was open last. */
export function goToChat(): void {
  if (place.peek().kind !== "chat") go({ kind: "chat", id: lastChat });
}

export function goToServer(): void {
  go({ kind: "server" });
}
