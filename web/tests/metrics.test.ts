import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketsOf, byLabel, quantile } from "../src/api/histogram.ts";
import { parseMetrics, pastSamples, sampleOf } from "../src/api/metrics.ts";

const TEXT = `# HELP wf:generation_tokens Tokens written.
# TYPE wf:generation_tokens counter
wf:generation_tokens_total 120
wf:prompt_tokens_total 40
wf:http_requests_total{handler="/props",status="200"} 1
wf:http_requests_total{handler="/a b } 7",status="404"} 2
wf:request_success_total{finished_reason="stop"} 3
wf:latency_seconds_bucket{le="+Inf"} 9
wf:latency_seconds_sum 0.5
wf:num_requests_running 2.0
wf:kv_pages_in_use 1e1
wf:odd NaN
not a sample
# EOF`;

test("metrics are summed over their labels", () => {
  const values = parseMetrics(TEXT);
  assert.equal(values.get("wf:http_requests_total"), 3);
  assert.equal(values.get("wf:latency_seconds_sum"), 0.5);
  assert.equal(values.get("wf:kv_pages_in_use"), 10);
  assert.ok(!values.has("wf:latency_seconds_bucket") && !values.has("wf:odd"));
  assert.equal(parseMetrics("").size, 0);
});

test("rates are computed since the previous sample", () => {
  const first = sampleOf(TEXT, 1000, undefined);
  assert.equal(first.replyTokensPerSecond, 0);
  assert.deepEqual([first.running, first.pagesInUse, first.totals?.requests], [2, 10, 3]);
  const later = sampleOf(TEXT.replace("_total 120", "_total 180"), 3000, first);
  assert.equal(later.replyTokensPerSecond, 30);
  const restarted = sampleOf(TEXT.replace("_total 120", "_total 5"), 4000, later);
  assert.equal(restarted.replyTokensPerSecond, 0, "after a restart");
});

const HISTOGRAM = `wf:t_bucket{le="0.25"} 10
wf:t_bucket{le="0.75"} 30
wf:t_bucket{le="+Inf"} 40
wf:t_bucket_other{le="1"} 9`;

test("quantiles are interpolated in their bucket", () => {
  const buckets = bucketsOf(HISTOGRAM, "wf:t");
  assert.equal(buckets.length, 3);
  assert.equal(quantile(buckets, 0.125), 0.125);
  assert.equal(quantile(buckets, 0.5), 0.5);
  assert.equal(quantile(buckets, 0.99), 0.75, "not above the last finite bound");
  assert.equal(quantile([], 0.5), undefined);
  assert.equal(
    quantile(
      [
        [1, 0],
        [Infinity, 0],
      ],
      0.5,
    ),
    undefined,
  );
});

test("responses are counted by status, whatever their routes are called", () => {
  assert.deepEqual(
    [...byLabel(TEXT, "wf:http_requests_total", "status")],
    [
      ["200", 1],
      ["404", 2],
    ],
  );
  assert.deepEqual(sampleOf(TEXT, 0, undefined).totals?.refusals, [["404", 2]]);
});

test("samples of the past end now and have rates", () => {
  const past = (time_ms: number, tokens: number) => ({
    time_ms,
    running: 1,
    waiting: 0,
    kv_pages_in_use: 2,
    kv_pages_kept: 3,
    prompt_tokens_total: 0,
    generation_tokens_total: tokens,
    resident_bytes: null,
  });
  const samples = pastSamples([past(1_000_000, 50), past(1_010_000, 150), past(1_020_000, 0)], 500);
  assert.deepEqual(
    samples.map(({ time }) => time),
    [-19_500, -9_500, 500],
  );
  assert.deepEqual(
    samples.map((sample) => sample.replyTokensPerSecond),
    [0, 10, 0],
  );
  assert.deepEqual(pastSamples([], 0), []);
});
