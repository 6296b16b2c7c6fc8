/** What has come of a reply, out of its events. */
import type { ChatChunk, Progress, Timings, Usage } from "../api/wire.ts";
import type { Ending, Stats } from "../history/tree.ts";
import { type Block, NO_BLOCK, withoutStart } from "./block.ts";

export type Phase =
  | { kind: "asking" }
  | { kind: "queued"; seconds: number }
  | { kind: "away" }
  | { kind: "reading"; progress: Progress }
  | { kind: "writing"; perSecond: number };

/** What has come of a reply. */
export class Written {
  text = "";
  /** What is being filled behind the text. */
  block: Block = NO_BLOCK;
  ending: Ending = "stop";
  private pieces = 0;
  private firstAt = 0;
  private progress: Progress | undefined;
  private usage: Usage | undefined;
  private timings: Timings | undefined;
  private seed: number | undefined;
  private model: string | undefined;

  /** In a context of so many tokens; by blocks, or token by token. */
  constructor(
    private readonly context: number,
    private readonly isInBlocks: boolean,
  ) {}

  take(chunk: ChatChunk): void {
    const choice = chunk.choices?.[0];
    const content = choice?.delta?.content;
    if (chunk.block_preview) this.block = chunk.block_preview;
    if (content) {
      this.text += content;
      this.pieces += 1;
      if (this.block.length) this.block = withoutStart(this.block, content.length);
    }
    if (content || chunk.block_preview) this.firstAt ||= performance.now();
    const reason = choice?.finish_reason;
    if (reason) this.block = NO_BLOCK;
    if (reason === "length" || reason === "deadline") this.ending = reason;
    this.progress = chunk.prompt_progress ?? this.progress;
    this.usage = chunk.usage ?? this.usage;
    this.timings = chunk.timings ?? this.timings;
    this.seed = chunk.seed ?? this.seed;
    this.model = chunk.model ?? this.model;
  }

  /** The reply is asked for once more. */
  restart(): void {
    this.block = NO_BLOCK;
    this.firstAt = 0;
    this.progress = undefined;
  }

  phase(): Phase {
    if (this.firstAt) return { kind: "writing", perSecond: this.rate() };
    if (this.progress) return { kind: "reading", progress: this.progress };
    return { kind: "asking" };
  }

  stats(): Stats | undefined {
    const { usage, timings, progress } = this;
    if (!this.pieces && !usage) return undefined;
    return {
      promptTokens: usage?.prompt_tokens ?? progress?.total ?? 0,
      cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? progress?.cache ?? 0,
      // A reply that was stopped is not told about at the end; its pieces are tokens, nearly.
      replyTokens: usage?.completion_tokens ?? this.pieces,
      replyPerSecond: (timings && this.rateOf(timings)) ?? this.rate(),
      promptPerSecond: this.isInBlocks ? 0 : (timings?.prompt_per_second ?? 0),
      queueMs: timings?.queue_ms ?? 0,
      context: this.context,
      ...(timings?.passes_n && { passes: timings.passes_n }),
      ...(timings?.draft_n && {
        drafted: timings.draft_n,
        accepted: timings.draft_n_accepted ?? 0,
      }),
      ...(this.seed !== undefined && { seed: this.seed }),
      ...(this.model !== undefined && { model: this.model }),
    };
  }

  private rateOf({ predicted_n, predicted_ms, prompt_ms, ...told }: Timings): number {
    // The first token of a block comes with its last: the time told for the prompt has a whole block in it.
    // So all of the time counts, and the prompt has no speed of its own.
    if (!this.isInBlocks) return told.predicted_per_second;
    return (predicted_n * 1000) / Math.max(prompt_ms + predicted_ms, 1);
  }

  private rate(): number {
    const seconds = (performance.now() - this.firstAt) / 1000;
    return this.pieces > 1 && seconds > 0 ? (this.pieces - 1) / seconds : 0;
  }
}
