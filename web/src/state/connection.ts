/** Polls the state of the server and reads its properties. */
import { signal } from "@preact/signals";
import { ApiError, send } from "../api/client.ts";
import type { Props } from "../api/wire.ts";
import { openDialog } from "./dialogs.ts";
import { chooseModel, chosenModel, props } from "./models.ts";
import { notify } from "./notice.ts";

export type Connection = "connecting" | "ready" | "loading" | "draining" | "offline" | "locked";

interface Load {
  running: number;
  waiting: number;
}

export const connection = signal<Connection>("connecting");
/** Number of running and waiting requests. */
export const load = signal<Load>({ running: 0, waiting: 0 });

const READY_POLL_MS = 5000;
const RETRY_MS = 1000;

let timer: ReturnType<typeof setTimeout> | undefined;
let waiters: (() => void)[] = [];

/** Starts to keep `connection` up to date. */
export function watchServer(): void {
  void check();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) void check();
  });
}

/** Polls the server now. */
export async function check(): Promise<void> {
  clearTimeout(timer);
  try {
    load.value = (await (await send("/health")).json()) as Load;
    // The server may have been restarted with another model.
    if (connection.peek() !== "ready") {
      await readProps();
    }
    become("ready");
  } catch (error) {
    report(error);
  }
  if (!document.hidden) schedule();
}

/** Reads the properties of the chosen model, which the server loads if needed. */
async function readProps(): Promise<void> {
  const query = chosenModel.peek() && `?model=${encodeURIComponent(chosenModel.peek())}`;
  try {
    props.value = (await (await send(`/props${query}`)).json()) as Props;
  } catch (error) {
    if (!(query && error instanceof ApiError && error.status === 404)) throw error;
    // The server has been restarted with other models.
    chooseModel("");
    await readProps();
  }
}

/** True while another model is being loaded. */
export const isSwitching = signal(false);

/** Makes another model that of requests. If it cannot be loaded, the old one stays. */
export async function switchModel(name: string): Promise<void> {
  const before = chosenModel.peek();
  chooseModel(name);
  isSwitching.value = true;
  try {
    await readProps();
  } catch (error) {
    chooseModel(before);
    notify(`${(error as Error).message}.`);
  }
  isSwitching.value = false;
}

/** Updates `connection` from the error of any request. */
export function report(error: unknown): void {
  if (!(error instanceof ApiError)) return;
  if (error.status === 401) become("locked");
  else if (error.code === "loading") become("loading");
  else if (error.code === "shutting_down") become("draining");
  else if (error.status === 0 || error.status >= 502) become("offline");
  schedule();
}

/** Resolves when the server is ready or the signal is aborted. */
export function whenReady(signal: AbortSignal): Promise<void> {
  if (connection.peek() === "ready") return Promise.resolve();
  return new Promise((resolve) => {
    waiters.push(resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function become(next: Connection): void {
  // Opens the dialog once, not again for each failed request after the user has closed it.
  if (next === "locked" && connection.peek() !== "locked") openDialog.value = "key";
  connection.value = next;
  if (next !== "ready") return;
  const all = waiters;
  waiters = [];
  for (const resolve of all) resolve();
}

function schedule(): void {
  clearTimeout(timer);
  // Without a key, every request would fail.
  if (connection.peek() === "locked") return;
  timer = setTimeout(() => void check(), connection.peek() === "ready" ? READY_POLL_MS : RETRY_MS);
}
