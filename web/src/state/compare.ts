/** One prompt with two settings: both responses and their speeds. */
import { signal } from "@preact/signals";
import { streamChat } from "../api/chat.ts";
import type { ChatRequest } from "../api/wire.ts";
import { load, save } from "../browser/storage.ts";
import type { Stats, Thinking } from "../history/tree.ts";
import { type Block, EMPTY_BLOCK } from "./block.ts";
import { newId } from "./chats.ts";
import { report } from "./connection.ts";
import { modelFields, props } from "./models.ts";
import { type Decoding, DEFAULT_DECODING, modeOf, usesDiffusion } from "./decoding.ts";
import { announcement } from "./notice.ts";
import { ResponseState, sightOf } from "./response.ts";
import { requestFields, settings } from "./settings.ts";

export interface Side {
  /** Name of the model, where the server has several; the chosen one if absent. */
  model?: string;
  /** Sampling parameters by name; absent ones are those of the server. */
  numbers: Record<string, number>;
  decoding: Decoding;
}

export interface Result {
  state: "waiting" | "running" | "done" | "stopped" | "failed";
  text: string;
  block: Block;
  thinking?: Thinking;
  /** Time to the first token. */
  firstTokenMs: number;
  stats?: Stats;
  problem?: string;
}

const NAME = "wf-compare";
const NEW_SIDE: Side = { numbers: {}, decoding: DEFAULT_DECODING };
const WAITING: Result = { state: "waiting", text: "", block: EMPTY_BLOCK, firstTokenMs: 0 };

export const sides = signal<[Side, Side]>(load<[Side, Side]>(NAME, [NEW_SIDE, NEW_SIDE]));
export const results = signal<Result[]>([]);
export const isComparing = signal(false);

let stopping = new AbortController();

export function changeSide(at: number, changes: Partial<Side>): void {
  const changed = sides
    .peek()
    .map((side, index) => (index === at ? { ...side, ...changes } : side));
  sides.value = changed as [Side, Side];
  save(NAME, sides.value);
}

export function stopComparison(): void {
  stopping.abort();
}

/** Runs the prompt with both settings, one after the other, so that each has the machine to itself. */
export async function compare(prompt: string): Promise<void> {
  if (isComparing.peek() || !prompt.trim()) return;
  isComparing.value = true;
  stopping = new AbortController();
  results.value = [WAITING, WAITING];
  announcement.value = "Comparing";
  for (const [at, side] of sides.peek().entries()) {
    if (!stopping.signal.aborted) await run(at, side, prompt, stopping.signal);
  }
  isComparing.value = false;
  announcement.value = stopping.signal.aborted
    ? "The comparison was stopped"
    : "Both responses are complete";
}

async function run(at: number, side: Side, prompt: string, signal: AbortSignal): Promise<void> {
  const server = props.peek()?.decode;
  const isInBlocks = server !== undefined && usesDiffusion(modeOf(side.decoding, server));
  const sight = sightOf(props.peek());
  const response = new ResponseState(sight, isInBlocks);
  show(at, response, { state: "running" });
  try {
    for await (const chunk of streamChat(requestOf(side, prompt), signal)) {
      response.take(chunk);
      showSoon(at, response);
    }
    show(at, response, { state: "done" });
  } catch (error) {
    if (signal.aborted) return show(at, response, { state: "stopped" });
    report(error);
    show(at, response, { state: "failed", problem: (error as Error).message });
  }
}

function requestOf(side: Side, prompt: string): ChatRequest {
  const shared = settings.peek();
  const system = shared.system.trim() ? [{ role: "system" as const, content: shared.system }] : [];
  return {
    ...modelFields(side.model),
    messages: [...system, { role: "user", content: prompt }],
    ...requestFields({ ...shared, ...side }, props.peek()),
    // Without the prefix cache, the second response does not profit from the first.
    cache_salt: newId(),
  };
}

const drawing = new Set<number>();

/** Shows the text so far, at most once per frame. */
function showSoon(at: number, response: ResponseState): void {
  if (drawing.has(at)) return;
  drawing.add(at);
  requestAnimationFrame(() => {
    drawing.delete(at);
    // The response may have ended since.
    if (results.peek()[at]?.state === "running") show(at, response, { state: "running" });
  });
}

function show(at: number, response: ResponseState, end: Pick<Result, "state" | "problem">): void {
  const stats = response.stats();
  const thinking = response.thinking();
  const result: Result = {
    ...end,
    text: response.text,
    block: response.block,
    firstTokenMs: response.firstTokenMs,
    ...(stats && { stats }),
    ...(thinking && { thinking }),
  };
  results.value = results.peek().map((other, index) => (index === at ? result : other));
}
