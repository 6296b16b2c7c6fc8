import assert from "node:assert/strict";
import { test } from "node:test";
import { parseMetrics, sampleOf } from "../src/api/metrics.ts";

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
  assert.deepEqual([first.running, first.pagesInUse, first.totals.requests], [2, 10, 3]);
  const later = sampleOf(TEXT.replace("_total 120", "_total 180"), 3000, first);
  assert.equal(later.replyTokensPerSecond, 30);
  const restarted = sampleOf(TEXT.replace("_total 120", "_total 5"), 4000, later);
  assert.equal(restarted.replyTokensPerSecond, 0, "after a restart");
});
