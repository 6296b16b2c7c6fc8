/** Parses the metrics of `/metrics` and the samples of `/history` that the charts need. */
import { bucketsOf, byLabel, quantile } from "./histogram.ts";

/** Sums each metric over its labels. Histogram buckets are skipped. */
export function parseMetrics(text: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split("\n")) {
    const sample = /^([a-zA-Z_:][\w:]*)(?:\{.*\})? (\S+)/.exec(line);
    if (!sample) continue;
    const [, name = "", number = ""] = sample;
    const value = Number(number);
    if (name.endsWith("_bucket") || !Number.isFinite(value)) continue;
    values.set(name, (values.get(name) ?? 0) + value);
  }
  return values;
}

/** State of the server at one moment. */
export interface Sample {
  /** In milliseconds. */
  time: number;
  running: number;
  waiting: number;
  pagesInUse: number;
  pagesCached: number;
  /** Since the previous sample. */
  replyTokensPerSecond: number;
  promptTokensPerSecond: number;
  /** Memory of the server's process; 0 if unknown. */
  residentBytes: number;
  /** Since the server started; samples of the past have none. */
  totals?: Totals;
}

/** Percentiles of a latency, in seconds; absent before the first value. */
export type Percentiles = Record<"p50" | "p90" | "p99", number> | undefined;

export interface Totals {
  replyTokens: number;
  promptTokens: number;
  cacheQueries: number;
  cacheHits: number;
  preemptions: number;
  requests: number;
  firstToken: Percentiles;
  betweenTokens: Percentiles;
  /** Number of error responses by status. */
  refusals: [status: string, count: number][];
}

export function sampleOf(text: string, time: number, previous: Sample | undefined): Sample {
  const values = parseMetrics(text);
  const of = (name: string) => values.get(`wf:${name}`) ?? 0;
  const totals: Totals = {
    replyTokens: of("generation_tokens_total"),
    promptTokens: of("prompt_tokens_total"),
    cacheQueries: of("prefix_cache_queries_total"),
    cacheHits: of("prefix_cache_hits_total"),
    preemptions: of("num_preemptions_total"),
    requests: of("request_success_total"),
    firstToken: percentilesOf(text, "wf:time_to_first_token_seconds"),
    betweenTokens: percentilesOf(text, "wf:inter_token_latency_seconds"),
    refusals: refusalsOf(text),
  };
  const seconds = previous ? (time - previous.time) / 1000 : 0;
  return {
    time,
    running: of("num_requests_running"),
    waiting: of("num_requests_waiting"),
    pagesInUse: of("kv_pages_in_use"),
    pagesCached: of("kv_pages_kept"),
    replyTokensPerSecond: rate(totals.replyTokens, previous?.totals?.replyTokens, seconds),
    promptTokensPerSecond: rate(totals.promptTokens, previous?.totals?.promptTokens, seconds),
    residentBytes: previous?.residentBytes ?? 0,
    totals,
  };
}

/** Returns the growth per second. A restarted server counts from zero. */
const rate = (now: number, then: number | undefined, seconds: number): number =>
  seconds > 0 && then !== undefined && now >= then ? (now - then) / seconds : 0;

function percentilesOf(text: string, name: string): Percentiles {
  const buckets = bucketsOf(text, name);
  const [p50, p90, p99] = [0.5, 0.9, 0.99].map((share) => quantile(buckets, share));
  return p50 === undefined || p90 === undefined || p99 === undefined
    ? undefined
    : { p50, p90, p99 };
}

function refusalsOf(text: string): [string, number][] {
  const all = [...byLabel(text, "wf:http_requests_total", "status")];
  return all.filter(([status]) => status >= "400").sort();
}

/** One element of `GET /history`. */
export interface PastSample {
  time_ms: number;
  running: number;
  waiting: number;
  kv_pages_in_use: number;
  kv_pages_kept: number;
  prompt_tokens_total: number;
  generation_tokens_total: number;
  resident_bytes: number | null;
}

/** Converts samples of the past. The clocks may differ, so the newest one is taken to be of now. */
export function pastSamples(past: PastSample[], now: number): Sample[] {
  const newest = past.at(-1)?.time_ms ?? 0;
  return past.map((sample, at) => {
    const before = past[at - 1];
    const seconds = before ? (sample.time_ms - before.time_ms) / 1000 : 0;
    const growth = (name: "generation_tokens_total" | "prompt_tokens_total") =>
      rate(sample[name], before?.[name], seconds);
    return {
      time: now - (newest - sample.time_ms),
      running: sample.running,
      waiting: sample.waiting,
      pagesInUse: sample.kv_pages_in_use,
      pagesCached: sample.kv_pages_kept,
      replyTokensPerSecond: growth("generation_tokens_total"),
      promptTokensPerSecond: growth("prompt_tokens_total"),
      residentBytes: sample.resident_bytes ?? 0,
    };
  });
}
