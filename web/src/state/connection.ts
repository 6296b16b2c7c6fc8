/** Whether the server can be used, and what it is: asked at the start and again and again. */
import { signal } from "@preact/signals";
import { Refused, ask } from "../api/client.ts";
import type { Props } from "../api/wire.ts";
import { openWindow } from "./open.ts";

export type Connection = "connecting" | "ready" | "loading" | "draining" | "offline" | "locked";

interface Load {
  running: number;
  waiting: number;
}

export const connection = signal<Connection>("connecting");
/** How many replies are computed, and how many wait. */
export const load = signal<Load>({ running: 0, waiting: 0 });
export const props = signal<Props | null>(null);

const WELL_MS = 5000;
const UNWELL_MS = 1000;

let timer: ReturnType<typeof setTimeout> | undefined;
let waiters: (() => void)[] = [];

/** Keeps `connection` true from now on. */
export function watchServer(): void {
  void check();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) void check();
  });
}

/** Asks now. */
export async function check(): Promise<void> {
  clearTimeout(timer);
  try {
    load.value = (await (await ask("/health")).json()) as Load;
    // A server that came back may be another one.
    if (connection.peek() !== "ready") {
      props.value = (await (await ask("/props")).json()) as Props;
    }
    become("ready");
  } catch (error) {
    report(error);
  }
  if (!document.hidden) schedule();
}

/** Takes note of what a request of any kind met. */
export function report(error: unknown): void {
  if (!(error instanceof Refused)) return;
  if (error.status === 401) become("locked");
  else if (error.code === "loading") become("loading");
  else if (error.code === "shutting_down") become("draining");
  else if (error.status === 0 || error.status >= 502) become("offline");
  schedule();
}

/** Resolves when requests are answered again, or when the signal says to give up. */
export function whenReady(signal: AbortSignal): Promise<void> {
  if (connection.peek() === "ready") return Promise.resolve();
  return new Promise((resolve) => {
    waiters.push(resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function become(next: Connection): void {
  // Asked once: who closes the window is not asked again by every request that fails.
  if (next === "locked" && connection.peek() !== "locked") openWindow.value = "key";
  connection.value = next;
  if (next !== "ready") return;
  const all = waiters;
  waiters = [];
  for (const resolve of all) resolve();
}

function schedule(): void {
  clearTimeout(timer);
  // Who has no key is asked for one; until then there is nothing to ask.
  if (connection.peek() === "locked") return;
  timer = setTimeout(() => void check(), connection.peek() === "ready" ? WELL_MS : UNWELL_MS);
}
