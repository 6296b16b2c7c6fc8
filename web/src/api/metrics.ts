/** Parses the metrics of `/metrics` that the charts need. */

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
  /** Since the server started. */
  totals: Totals;
}

export interface Totals {
  replyTokens: number;
  promptTokens: number;
  cacheQueries: number;
  cacheHits: number;
  preemptions: number;
  requests: number;
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
  };
  const seconds = previous ? (time - previous.time) / 1000 : 0;
  // A restarted server counts from zero.
  const rate = (now: number, then: number) =>
    seconds > 0 && now >= then ? (now - then) / seconds : 0;
  return {
    time,
    running: of("num_requests_running"),
    waiting: of("num_requests_waiting"),
    pagesInUse: of("kv_pages_in_use"),
    pagesCached: of("kv_pages_kept"),
    replyTokensPerSecond: rate(totals.replyTokens, previous?.totals.replyTokens ?? 0),
    promptTokensPerSecond: rate(totals.promptTokens, previous?.totals.promptTokens ?? 0),
    totals,
  };
}
