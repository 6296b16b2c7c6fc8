/** Accumulates the events of one response. */
import type { ChatChunk, Progress, Props, Timings, ToolCallDelta, Usage } from "../api/wire.ts";
import type { ToolCall } from "../history/calls.ts";
import type { Ending, Stats, Thinking } from "../history/tree.ts";
import { type Block, EMPTY_BLOCK, withoutStart } from "./block.ts";

export type Phase =
  | { kind: "sent" }
  | { kind: "queued"; seconds: number }
  | { kind: "unavailable" }
  | { kind: "prefill"; progress: Progress }
  | { kind: "streaming"; perSecond: number };

/** What a model sees of a chat. */
export interface Sight {
  /** Number of tokens that it sees at once; 0 if unknown. */
  tokens: number;
  /** True if a window slides over longer chats. */
  slides: boolean;
}

/** Returns what the model of a server sees. */
export function sightOf(props: Props | null | undefined): Sight {
  const { window, sinks } = props?.attention ?? {};
  if (window) return { tokens: window + (sinks ?? 0), slides: true };
  return { tokens: props?.default_generation_settings.n_ctx ?? 0, slides: false };
}

export class ResponseState {
  text = "";
  /** Block being filled after the text. */
  block: Block = EMPTY_BLOCK;
  ending: Ending = "stop";
  /** Tool calls after the text. */
  readonly calls: ToolCall[] = [];
  private thought = "";
  private thinkingMs = 0;
  private readonly startedAt = performance.now();
  private chunks = 0;
  private firstAt = 0;
  private progress: Progress | undefined;
  private usage: Usage | undefined;
  private timings: Timings | undefined;
  private seed: number | undefined;
  private model: string | undefined;

  constructor(
    private readonly sight: Sight,
    /** True if the response is decoded by block diffusion. */
    private readonly isInBlocks: boolean,
  ) {}

  take(chunk: ChatChunk): void {
    const choice = chunk.choices?.[0];
    const content = choice?.delta?.content;
    const thought = choice?.delta?.reasoning_content ?? choice?.delta?.reasoning;
    if (chunk.block_preview) this.block = chunk.block_preview;
    if (content) {
      this.text += content;
      this.chunks += 1;
      if (this.block.length) this.block = withoutStart(this.block, content.length);
    }
    if (thought) {
      this.thought += thought;
      this.chunks += 1;
    }
    for (const part of choice?.delta?.tool_calls ?? []) this.takeCall(part);
    if (content || thought || chunk.block_preview) this.firstAt ||= performance.now();
    // Thinking ends with the first text of the answer.
    if (this.thought && !this.text) this.thinkingMs = performance.now() - this.firstAt;
    const reason = choice?.finish_reason;
    if (reason) this.block = EMPTY_BLOCK;
    if (reason === "length" || reason === "deadline") this.ending = reason;
    this.progress = chunk.prompt_progress ?? this.progress;
    this.usage = chunk.usage ?? this.usage;
    this.timings = chunk.timings ?? this.timings;
    this.seed = chunk.seed ?? this.seed;
    this.model = chunk.model ?? this.model;
  }

  private takeCall({ index, id, function: part }: ToolCallDelta): void {
    const call = (this.calls[index] ??= { id: "", name: "", arguments: "", state: "asking" });
    call.id ||= id ?? "";
    call.name += part?.name ?? "";
    call.arguments += part?.arguments ?? "";
    this.chunks += 1;
    this.firstAt ||= performance.now();
  }

  /** True once anything of the response has arrived. */
  get hasBegun(): boolean {
    return this.text !== "" || this.thought !== "" || this.calls.length > 0;
  }

  /** Time from the request to the first text, in milliseconds; 0 before it. */
  get firstTokenMs(): number {
    return this.firstAt && this.firstAt - this.startedAt;
  }

  /** What the model has thought so far. */
  thinking(): Thinking | undefined {
    return this.thought ? { text: this.thought, ms: this.thinkingMs } : undefined;
  }

  /** Prepares for another attempt at the same request. */
  restart(): void {
    this.block = EMPTY_BLOCK;
    this.firstAt = 0;
    this.progress = undefined;
  }

  phase(): Phase {
    if (this.firstAt) return { kind: "streaming", perSecond: this.rate() };
    if (this.progress) return { kind: "prefill", progress: this.progress };
    return { kind: "sent" };
  }

  stats(): Stats | undefined {
    const { usage, timings, progress } = this;
    if (!this.chunks && !usage) return undefined;
    return {
      promptTokens: usage?.prompt_tokens ?? progress?.total ?? 0,
      cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? progress?.cache ?? 0,
      // A stopped response has no usage; each of its chunks is about one token.
      replyTokens: usage?.completion_tokens ?? this.chunks,
      replyPerSecond: (timings && this.rateOf(timings)) ?? this.rate(),
      promptPerSecond: this.isInBlocks ? 0 : (timings?.prompt_per_second ?? 0),
      queueMs: timings?.queue_ms ?? 0,
      context: this.sight.tokens,
      ...(this.sight.slides && { slides: true }),
      ...(timings?.out_of_sight_n && { outOfSight: timings.out_of_sight_n }),
      ...(timings?.passes_n && { passes: timings.passes_n }),
      ...(timings?.draft_n && {
        drafted: timings.draft_n,
        accepted: timings.draft_n_accepted ?? 0,
      }),
      ...(this.seed !== undefined && { seed: this.seed }),
      ...(this.model !== undefined && { model: this.model }),
    };
  }

  private rateOf({ predicted_n, predicted_ms, prompt_ms, ...rates }: Timings): number {
    // All tokens of a block arrive together, so the prompt time includes the first block. The total time
    // is used instead, and the prompt has no speed of its own.
    if (!this.isInBlocks) return rates.predicted_per_second;
    return (predicted_n * 1000) / Math.max(prompt_ms + predicted_ms, 1);
  }

  private rate(): number {
    const seconds = (performance.now() - this.firstAt) / 1000;
    return this.chunks > 1 && seconds > 0 ? (this.chunks - 1) / seconds : 0;
  }
}
