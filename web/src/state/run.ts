/** Requests in flight: sends them, retries, shows the response as it streams and saves it. */
import { type Signal, signal } from "@preact/signals";
import { streamChat } from "../api/chat.ts";
import { ApiError } from "../api/client.ts";
import type { ChatRequest } from "../api/wire.ts";
import { type Message, add, change, path, pathTo } from "../history/tree.ts";
import { type Block, EMPTY_BLOCK } from "./block.ts";
import { changeChat, chatOf, newId, startChat } from "./chats.ts";
import { check, props, report, whenReady } from "./connection.ts";
import { usesDiffusion, modeOf } from "./decoding.ts";
import { announcement } from "./notice.ts";
import { requestFields, settings } from "./settings.ts";
import { type Phase, ResponseState } from "./response.ts";

/** A response being generated. */
export interface Run {
  chat: string;
  message: string;
  text: Signal<string>;
  /** Block being filled after the text. */
  block: Signal<Block>;
  phase: Signal<Phase>;
  stop: AbortController;
}

export const runs = signal<Run[]>([]);

export const runOf = (chat: string): Run | undefined => runs.value.find((run) => run.chat === chat);

/** Sends a message in the given chat or in a new one. */
export function send(chatId: string | null, text: string): void {
  const chat = (chatId && chatOf(chatId)) || startChat();
  const above = path(chat).at(-1)?.id ?? null;
  const question = message("user", above, text);
  changeChat(chat.id, (chat) => add(chat, question));
  void generate(chat.id, question.id);
}

/** Generates the response again. The previous one stays as another version. */
export function regenerate(chatId: string, answer: Message): void {
  if (answer.parent) void generate(chatId, answer.parent);
}

/** Sends an edited message. The original stays as another version. */
export function editAndSend(chatId: string, original: Message, text: string): void {
  const question = message("user", original.parent, text);
  changeChat(chatId, (chat) => add(chat, question));
  void generate(chatId, question.id);
}

export function stop(chatId: string): void {
  runs
    .peek()
    .find((run) => run.chat === chatId)
    ?.stop.abort();
}

function message(role: Message["role"], parent: string | null, content: string): Message {
  return { id: newId(), parent, role, content, created: Date.now() };
}

const SAVE_INTERVAL_MS = 2000;
const HEALTH_INTERVAL_MS = 1000;

async function generate(chatId: string, question: string): Promise<void> {
  if (runs.peek().some((run) => run.chat === chatId)) return;
  const answer = message("assistant", question, "");
  changeChat(chatId, (chat) => add(chat, answer));
  const run: Run = {
    chat: chatId,
    message: answer.id,
    text: signal(""),
    block: signal(EMPTY_BLOCK),
    phase: signal<Phase>({ kind: "sent" }),
    stop: new AbortController(),
  };
  runs.value = [...runs.peek(), run];
  const isInBlocks = isDiffusionNext();
  announcement.value = `Generating the response${isInBlocks ? " block by block" : ""}`;
  const response = new ResponseState(
    props.peek()?.default_generation_settings.n_ctx ?? 0,
    isInBlocks,
  );
  // Saves regularly, so that closing the tab loses little.
  const saving = setInterval(() => {
    changeChat(chatId, (chat) => change(chat, answer.id, { content: response.text }));
  }, SAVE_INTERVAL_MS);
  // Updates the length of the queue, which is shown while the request waits.
  const polling = setInterval(() => {
    if (run.phase.peek().kind === "sent") void check();
  }, HEALTH_INTERVAL_MS);
  let end: Partial<Message>;
  try {
    await streamWithRetries(run, response, requestOf(chatId, question));
    end = { ending: response.ending };
    announcement.value = `Response: ${response.text}`;
  } catch (error) {
    end = endOf(error, run.stop.signal);
    announcement.value = end.problem ?? "The response was stopped";
  }
  clearInterval(saving);
  clearInterval(polling);
  runs.value = runs.peek().filter((other) => other !== run);
  const stats = response.stats();
  changeChat(chatId, (chat) => ({
    ...change(chat, answer.id, { ...end, content: response.text, ...(stats && { stats }) }),
    updated: Date.now(),
  }));
}

function isDiffusionNext(): boolean {
  const server = props.peek()?.decode;
  return server !== undefined && usesDiffusion(modeOf(settings.peek().decoding, server));
}

function requestOf(chatId: string, question: string): ChatRequest {
  const chat = chatOf(chatId);
  // Empty responses are left out.
  const messages = chat ? pathTo(chat, question).filter(({ content }) => content) : [];
  const system = chat?.system.trim() ? [{ role: "system" as const, content: chat.system }] : [];
  return {
    messages: [...system, ...messages.map(({ role, content }) => ({ role, content }))],
    ...requestFields(settings.peek(), props.peek()),
  };
}

function endOf(error: unknown, signal: AbortSignal): Partial<Message> {
  if (signal.aborted) return { ending: "stopped" };
  report(error);
  const problem = error instanceof Error ? error.message : String(error);
  return { ending: "interrupted", problem };
}

const RETRY_SECONDS = 2;

/** Retries until the server responds, while its queue is full or it is unavailable. */
async function streamWithRetries(
  run: Run,
  response: ResponseState,
  request: ChatRequest,
): Promise<void> {
  const { signal } = run.stop;
  for (;;) {
    try {
      for await (const chunk of streamChat(request, signal)) {
        response.take(chunk);
        showSoon(run, response);
      }
      return;
    } catch (error) {
      const hasBegun = response.text !== "";
      if (signal.aborted || hasBegun || !(error instanceof ApiError) || !error.isTransient)
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
function showSoon(run: Run, response: ResponseState): void {
  if (drawing.has(run)) return;
  drawing.add(run);
  requestAnimationFrame((start) => {
    run.text.value = response.text;
    run.block.value = response.block;
    run.phase.value = response.phase();
    // Runs after the frame was painted.
    setTimeout(() => {
      const cost = performance.now() - start;
      setTimeout(() => drawAgain(run, response), cost > FRAME_MS ? SLOWDOWN * cost : 0);
    });
  });
}

function drawAgain(run: Run, response: ResponseState): void {
  drawing.delete(run);
  const isShown = run.text.peek() === response.text && run.block.peek() === response.block;
  if (!isShown) showSoon(run, response);
}
