/** The text of `/metrics`, as far as plots need it. */

/** The sum over all labels of each metric, histograms' buckets left out. */
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

/** What the server was doing at one moment. */
export interface Sample {
  /** Milliseconds. */
  time: number;
  running: number;
  waiting: number;
  pagesInUse: number;
  pagesKept: number;
  /** Since the sample before. */
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

export function sampleOf(text: string, time: number, before: Sample | undefined): Sample {
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
  const seconds = before ? (time - before.time) / 1000 : 0;
  // A server that was started anew counts from zero.
  const rate = (now: number, then: number) =>
    seconds > 0 && now >= then ? (now - then) / seconds : 0;
  return {
    time,
    running: of("num_requests_running"),
    waiting: of("num_requests_waiting"),
    pagesInUse: of("kv_pages_in_use"),
    pagesKept: of("kv_pages_kept"),
    replyTokensPerSecond: rate(totals.replyTokens, before?.totals.replyTokens ?? 0),
    promptTokensPerSecond: rate(totals.promptTokens, before?.totals.promptTokens ?? 0),
    totals,
  };
}
