/** Replies being written: asks, waits where it must, shows what comes, and keeps it. */
import { type Signal, signal } from "@preact/signals";
import { streamChat } from "../api/chat.ts";
import { Refused } from "../api/client.ts";
import type { ChatRequest } from "../api/wire.ts";
import { type Message, add, change, path, pathTo } from "../history/tree.ts";
import { type Block, NO_BLOCK } from "./block.ts";
import { changeChat, chatOf, newId, startChat } from "./chats.ts";
import { check, props, report, whenReady } from "./connection.ts";
import { fillsBlocks, modeOf } from "./decoding.ts";
import { spoken } from "./notice.ts";
import { requestFields, settings } from "./settings.ts";
import { type Phase, Written } from "./written.ts";

/** A reply being written. */
export interface Run {
  chat: string;
  message: string;
  text: Signal<string>;
  /** What is being filled behind the text. */
  block: Signal<Block>;
  phase: Signal<Phase>;
  stop: AbortController;
}

export const runs = signal<Run[]>([]);

export const runOf = (chat: string): Run | undefined => runs.value.find((run) => run.chat === chat);

/** Asks what was typed, in this conversation or in a new one. */
export function send(chatId: string | null, text: string): void {
  const chat = (chatId && chatOf(chatId)) || startChat();
  const above = path(chat).at(-1)?.id ?? null;
  const question = message("user", above, text);
  changeChat(chat.id, (chat) => add(chat, question));
  void reply(chat.id, question.id);
}

/** Asks again. The answer that was there stays as another version. */
export function regenerate(chatId: string, answer: Message): void {
  if (answer.parent) void reply(chatId, answer.parent);
}

/** Asks otherwise. What was asked before stays as another version. */
export function editAndSend(chatId: string, before: Message, text: string): void {
  const question = message("user", before.parent, text);
  changeChat(chatId, (chat) => add(chat, question));
  void reply(chatId, question.id);
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

const KEEP_MS = 2000;
const ASK_MS = 1000;

async function reply(chatId: string, question: string): Promise<void> {
  if (runs.peek().some((run) => run.chat === chatId)) return;
  const answer = message("assistant", question, "");
  changeChat(chatId, (chat) => add(chat, answer));
  const run: Run = {
    chat: chatId,
    message: answer.id,
    text: signal(""),
    block: signal(NO_BLOCK),
    phase: signal<Phase>({ kind: "asking" }),
    stop: new AbortController(),
  };
  runs.value = [...runs.peek(), run];
  const isInBlocks = willFillBlocks();
  spoken.value = `The reply is being written${isInBlocks ? " block by block" : ""}`;
  const written = new Written(props.peek()?.default_generation_settings.n_ctx ?? 0, isInBlocks);
  // A tab that is closed in the middle loses little.
  const keeping = setInterval(() => {
    changeChat(chatId, (chat) => change(chat, answer.id, { content: written.text }));
  }, KEEP_MS);
  // Who waits for long is told what for.
  const asking = setInterval(() => {
    if (run.phase.peek().kind === "asking") void check();
  }, ASK_MS);
  let end: Partial<Message>;
  try {
    await write(run, written, requestOf(chatId, question));
    end = { ending: written.ending };
    spoken.value = `Reply: ${written.text}`;
  } catch (error) {
    end = endOf(error, run.stop.signal);
    spoken.value = end.problem ?? "The reply was stopped";
  }
  clearInterval(keeping);
  clearInterval(asking);
  runs.value = runs.peek().filter((other) => other !== run);
  const stats = written.stats();
  changeChat(chatId, (chat) => ({
    ...change(chat, answer.id, { ...end, content: written.text, ...(stats && { stats }) }),
    updated: Date.now(),
  }));
}

function willFillBlocks(): boolean {
  const server = props.peek()?.decode;
  return server !== undefined && fillsBlocks(modeOf(settings.peek().decoding, server));
}

function requestOf(chatId: string, question: string): ChatRequest {
  const chat = chatOf(chatId);
  // A reply that never began says nothing.
  const said = chat ? pathTo(chat, question).filter(({ content }) => content) : [];
  const system = chat?.system.trim() ? [{ role: "system" as const, content: chat.system }] : [];
  return {
    messages: [...system, ...said.map(({ role, content }) => ({ role, content }))],
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

/** Asks until there is an answer: a full queue and an absent server are waited for. */
async function write(run: Run, written: Written, request: ChatRequest): Promise<void> {
  const { signal } = run.stop;
  for (;;) {
    try {
      for await (const chunk of streamChat(request, signal)) {
        written.take(chunk);
        showSoon(run, written);
      }
      return;
    } catch (error) {
      const isTooLate = written.text !== "";
      if (signal.aborted || isTooLate || !(error instanceof Refused) || !error.isPassing)
        throw error;
      written.restart();
      run.block.value = NO_BLOCK;
      await wait(run, error);
      if (signal.aborted) throw error;
      run.phase.value = { kind: "asking" };
    }
  }
}

async function wait(run: Run, error: Refused): Promise<void> {
  const { signal } = run.stop;
  if (error.status !== 429) {
    report(error);
    run.phase.value = { kind: "away" };
    // One moment at least, so that a server which refuses at once is not asked without pause.
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
/** What takes longer than one picture of the screen is drawn less often. */
const SLOW_MS = 16;
const SLOWER = 4;

/** Shows what has come, at most once for each picture of the screen. */
function showSoon(run: Run, written: Written): void {
  if (drawing.has(run)) return;
  drawing.add(run);
  requestAnimationFrame((start) => {
    run.text.value = written.text;
    run.block.value = written.block;
    run.phase.value = written.phase();
    // By then it has been drawn.
    setTimeout(() => {
      const cost = performance.now() - start;
      setTimeout(() => drawAgain(run, written), cost > SLOW_MS ? SLOWER * cost : 0);
    });
  });
}

function drawAgain(run: Run, written: Written): void {
  drawing.delete(run);
  const isShown = run.text.peek() === written.text && run.block.peek() === written.block;
  if (!isShown) showSoon(run, written);
}
