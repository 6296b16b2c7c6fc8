/** View that is shown. It is part of the address, so that the back button works. */
import { effect, signal } from "@preact/signals";

export type Route = { kind: "chat"; id: string | null } | { kind: "server" } | { kind: "compare" };

function read(): Route {
  const hash = location.hash;
  if (hash === "#server") return { kind: "server" };
  if (hash === "#compare") return { kind: "compare" };
  const id = /^#chat\/([\w-]+)$/.exec(hash)?.[1];
  return { kind: "chat", id: id ?? null };
}

export const route = signal<Route>(read());

window.addEventListener("hashchange", () => (route.value = read()));

export function go(next: Route): void {
  const hash = hashOf(next);
  const { value: from } = route;
  // An empty chat gets no entry in the browser history.
  const isEmpty = from.kind === "chat" && from.id === null;
  if (location.hash !== hash) history[isEmpty ? "replaceState" : "pushState"](null, "", hash);
  route.value = next;
}

function hashOf(route: Route): string {
  if (route.kind !== "chat") return `#${route.kind}`;
  return route.id ? `#chat/${route.id}` : "#";
}

window.addEventListener("popstate", () => (route.value = read()));

let lastChat: string | null = null;
effect(() => {
  if (route.value.kind === "chat") lastChat = route.value.id;
});

/** Opens the chat that was open last. */
export function openChat(): void {
  if (route.peek().kind !== "chat") go({ kind: "chat", id: lastChat });
}

export function openServer(): void {
  go({ kind: "server" });
}

export function openCompare(): void {
  go({ kind: "compare" });
}
