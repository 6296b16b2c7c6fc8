/** What has come of a reply, out of its events. */
import type { ChatChunk, Progress, Timings, Usage } from "../api/wire.ts";
import type { Ending, Stats } from "../history/tree.ts";

export type Phase =
  | { kind: "asking" }
  | { kind: "queued"; seconds: number }
  | { kind: "away" }
  | { kind: "reading"; progress: Progress }
  | { kind: "writing"; perSecond: number };

/** What has come of a reply. */
export class Written {
  text = "";
  ending: Ending = "stop";
  private pieces = 0;
  private firstAt = 0;
  private progress: Progress | undefined;
  private usage: Usage | undefined;
  private timings: Timings | undefined;
  private seed: number | undefined;
  private model: string | undefined;

  /** In a context of so many tokens. */
  constructor(private readonly context: number) {}

  take(chunk: ChatChunk): void {
    const choice = chunk.choices?.[0];
    if (choice?.delta?.content) {
      this.text += choice.delta.content;
      this.pieces += 1;
      this.firstAt ||= performance.now();
    }
    const reason = choice?.finish_reason;
    if (reason === "length" || reason === "deadline") this.ending = reason;
    this.progress = chunk.prompt_progress ?? this.progress;
    this.usage = chunk.usage ?? this.usage;
    this.timings = chunk.timings ?? this.timings;
    this.seed = chunk.seed ?? this.seed;
    this.model = chunk.model ?? this.model;
  }

  phase(): Phase {
    if (this.pieces) return { kind: "writing", perSecond: this.rate() };
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
      replyPerSecond: timings?.predicted_per_second ?? this.rate(),
      promptPerSecond: timings?.prompt_per_second ?? 0,
      queueMs: timings?.queue_ms ?? 0,
      context: this.context,
      ...(this.seed !== undefined && { seed: this.seed }),
      ...(this.model !== undefined && { model: this.model }),
    };
  }

  private rate(): number {
    const seconds = (performance.now() - this.firstAt) / 1000;
    return this.pieces > 1 && seconds > 0 ? (this.pieces - 1) / seconds : 0;
  }
}
