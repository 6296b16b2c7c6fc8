/** Requests in flight: sends them, retries, shows the response as it streams and saves it. */
import { type Signal, signal } from "@preact/signals";
import { streamChat } from "../api/chat.ts";
import { ApiError } from "../api/client.ts";
import type { ChatRequest } from "../api/wire.ts";
import type { Round } from "../history/calls.ts";
import type { TextFile } from "../history/files.ts";
import { type Message, type Thinking, add, change, path } from "../history/tree.ts";
import { type Block, EMPTY_BLOCK } from "./block.ts";
import { runCalls } from "./calls.ts";
import { changeChat, chatOf, newId, startChat } from "./chats.ts";
import { check, report, whenReady } from "./connection.ts";
import { props } from "./models.ts";
import { usesDiffusion, modeOf } from "./decoding.ts";
import { branchPoint } from "./dialogs.ts";
import { announcement } from "./notice.ts";
import { requestOf } from "./request.ts";
import { settings } from "./settings.ts";
import { type Phase, ResponseState, sightOf } from "./response.ts";

/** A response being generated. */
export interface Run {
  chat: string;
  message: string;
  text: Signal<string>;
  thinking: Signal<Thinking | undefined>;
  /** Block being filled after the text. */
  block: Signal<Block>;
  phase: Signal<Phase>;
  /** Tool calls so far. */
  rounds: Signal<Round[]>;
  /** The response after the tool calls. */
  response: ResponseState;
  stop: AbortController;
}

export const runs = signal<Run[]>([]);

export const runOf = (chat: string): Run | undefined => runs.value.find((run) => run.chat === chat);

/**
 * Sends a message in the given chat or in a new one. It follows the message `after`, or the last one that is shown;
 * what followed `after` before stays as another version.
 */
export function send(
  chatId: string | null,
  text: string,
  { files = [], after = null }: { files?: TextFile[]; after?: string | null } = {},
): void {
  const chat = (chatId && chatOf(chatId)) || startChat();
  const above = after ?? path(chat).at(-1)?.id ?? null;
  const question = message("user", above, text, files);
  changeChat(chat.id, (chat) => add(chat, question));
  void generate(chat.id, question.id);
}

/** Generates the response again. The previous one stays as another version. */
export function regenerate(chatId: string, answer: Message): void {
  if (answer.parent) void generate(chatId, answer.parent);
}

/** Sends an edited message. The original stays as another version. */
export function editAndSend(chatId: string, original: Message, text: string): void {
  const question = message("user", original.parent, text, original.files);
  changeChat(chatId, (chat) => add(chat, question));
  void generate(chatId, question.id);
}

export function stop(chatId: string): void {
  runs
    .peek()
    .find((run) => run.chat === chatId)
    ?.stop.abort();
}

function message(
  role: Message["role"],
  parent: string | null,
  content: string,
  files: TextFile[] = [],
): Message {
  const message = { id: newId(), parent, role, content, created: Date.now() };
  return files.length ? { ...message, files } : message;
}

/** Tool calls of one response; a small model may not find an end by itself. */
const MAX_ROUNDS = 10;

const SAVE_INTERVAL_MS = 2000;
const HEALTH_INTERVAL_MS = 1000;

async function generate(chatId: string, question: string): Promise<void> {
  if (runs.peek().some((run) => run.chat === chatId)) return;
  branchPoint.value = null;
  const answer = message("assistant", question, "");
  const isInBlocks = isDiffusionNext();
  const sight = sightOf(props.peek());
  changeChat(chatId, (chat) => add(chat, answer));
  const run: Run = {
    chat: chatId,
    message: answer.id,
    text: signal(""),
    thinking: signal(undefined),
    block: signal(EMPTY_BLOCK),
    phase: signal<Phase>({ kind: "sent" }),
    rounds: signal<Round[]>([]),
    response: new ResponseState(sight, isInBlocks),
    stop: new AbortController(),
  };
  runs.value = [...runs.peek(), run];
  announcement.value = `Generating the response${isInBlocks ? " block by block" : ""}`;
  // Saves regularly, so that closing the tab loses little.
  const saving = setInterval(() => {
    changeChat(chatId, (chat) => change(chat, answer.id, textOf(run)));
  }, SAVE_INTERVAL_MS);
  // Updates the length of the queue, which is shown while the request waits.
  const polling = setInterval(() => {
    if (run.phase.peek().kind === "sent") void check();
  }, HEALTH_INTERVAL_MS);
  let end: Partial<Message>;
  try {
    for (;;) {
      const rounds = run.rounds.peek();
      await streamWithRetries(run, requestOf(chatId, question, rounds));
      const { text: content, calls } = run.response;
      if (!calls.length) break;
      if (rounds.length === MAX_ROUNDS)
        throw new Error(`more than ${MAX_ROUNDS} rounds of tool calls`);
      run.rounds.value = [...rounds, { content, calls }];
      run.response = new ResponseState(sight, isInBlocks);
      show(run);
      await runCalls(run.rounds, run.stop.signal);
    }
    end = { ending: run.response.ending };
    announcement.value = `Response: ${run.response.text}`;
  } catch (error) {
    end = endOf(error, run.stop.signal);
    announcement.value = end.problem ?? "The response was stopped";
  }
  clearInterval(saving);
  clearInterval(polling);
  runs.value = runs.peek().filter((other) => other !== run);
  const stats = run.response.stats();
  changeChat(chatId, (chat) => ({
    ...change(chat, answer.id, { ...end, ...textOf(run), ...(stats && { stats }) }),
    updated: Date.now(),
  }));
}

function textOf({ response, rounds: { value: rounds } }: Run): Partial<Message> {
  const thinking = response.thinking();
  return {
    content: response.text,
    ...(thinking && { thinking }),
    ...(rounds.length && { rounds }),
  };
}

function isDiffusionNext(): boolean {
  const server = props.peek()?.decode;
  return server !== undefined && usesDiffusion(modeOf(settings.peek().decoding, server));
}

function endOf(error: unknown, signal: AbortSignal): Partial<Message> {
  if (signal.aborted) return { ending: "stopped" };
  report(error);
  const problem = error instanceof Error ? error.message : String(error);
  return { ending: "interrupted", problem };
}

const RETRY_SECONDS = 2;

/** Retries until the server responds, while its queue is full or it is unavailable. */
async function streamWithRetries(run: Run, request: ChatRequest): Promise<void> {
  const { response } = run;
  const { signal } = run.stop;
  for (;;) {
    try {
      for await (const chunk of streamChat(request, signal)) {
        response.take(chunk);
        showSoon(run);
      }
      return;
    } catch (error) {
      if (signal.aborted || response.hasBegun || !(error instanceof ApiError) || !error.isTransient)
        throw error;
      response.restart();
      run.block.value = EMPTY_BLOCK;
      await wait(run, error);
      if (signal.aborted) throw error;
      run.phase.value = { kind: "sent" };
    }
  }
}

async function wait(run: Run, error: ApiError): Promise<void> {
  const { signal } = run.stop;
  if (error.status !== 429) {
    report(error);
    run.phase.value = { kind: "unavailable" };
    // Limits the rate of retries to a server that rejects requests at once.
    await pause(500, signal);
    await whenReady(signal);
    return;
  }
  const seconds = Math.max(1, Math.ceil(error.retryAfterSeconds ?? RETRY_SECONDS));
  for (let left = seconds; left > 0 && !signal.aborted; left -= 1) {
    run.phase.value = { kind: "queued", seconds: left };
    await pause(1000, signal);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

const drawing = new WeakSet<Run>();
/** If rendering takes longer than a frame, the next one waits for a multiple of that time. */
const FRAME_MS = 16;
const SLOWDOWN = 4;

/** Shows the current text, at most once per frame. */
function showSoon(run: Run): void {
  if (drawing.has(run)) return;
  drawing.add(run);
  requestAnimationFrame((start) => {
    show(run);
    // Runs after the frame was painted.
    setTimeout(() => {
      const cost = performance.now() - start;
      setTimeout(() => drawAgain(run), cost > FRAME_MS ? SLOWDOWN * cost : 0);
    });
  });
}

function show(run: Run): void {
  const { response } = run;
  run.text.value = response.text;
  run.block.value = response.block;
  showThinking(run, response);
  run.phase.value = response.phase();
}

function showThinking(run: Run, response: ResponseState): void {
  const thinking = response.thinking();
  const before = run.thinking.peek();
  if (thinking?.ms === before?.ms) return;
  if (!before) announcement.value = "The model is thinking";
  run.thinking.value = thinking;
}

function drawAgain(run: Run): void {
  const { response } = run;
  drawing.delete(run);
  const isShown =
    run.text.peek() === response.text &&
    run.block.peek() === response.block &&
    run.thinking.peek()?.text === response.thinking()?.text;
  if (!isShown) showSoon(run);
}
