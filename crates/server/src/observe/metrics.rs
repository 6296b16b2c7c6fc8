//! Prometheus metrics, under the names and in the buckets of vLLM, so that its dashboards work.

use std::sync::Mutex;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use wf_engine::{EngineHandle, StatsSnapshot, Timings};

const FIRST_TOKEN_SECONDS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const TOKEN_SECONDS: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const REQUEST_SECONDS: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const TOKENS: [f64; 16] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FinishLabels {
    finished_reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    handler: String,
    status: u16,
}

/// All metrics.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    finished: Family<FinishLabels, Counter>,
    responses: Family<ResponseLabels, Counter>,
    panics: Counter,
    first_token: Histogram,
    between_tokens: Histogram,
    end_to_end: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    inference: Histogram,
    prompt_len: Histogram,
    completion_len: Histogram,
    choices: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            prompt_tokens: Counter::default(),
            generation_tokens: Counter::default(),
            finished: Family::default(),
            responses: Family::default(),
            panics: Counter::default(),
            first_token: Histogram::new(FIRST_TOKEN_SECONDS),
            between_tokens: Histogram::new(TOKEN_SECONDS),
            end_to_end: Histogram::new(REQUEST_SECONDS),
            queue: Histogram::new(REQUEST_SECONDS),
            prefill: Histogram::new(REQUEST_SECONDS),
            decode: Histogram::new(REQUEST_SECONDS),
            inference: Histogram::new(REQUEST_SECONDS),
            prompt_len: Histogram::new(TOKENS),
            completion_len: Histogram::new(TOKENS),
            choices: Histogram::new([1.0, 2.0, 5.0, 10.0, 20.0]),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry();
        let r = &mut *registry;
        r.register("wf:prompt_tokens", "Prompt tokens of requests", self.prompt_tokens.clone());
        let help = "Generated tokens";
        r.register("wf:generation_tokens", help, self.generation_tokens.clone());
        r.register("wf:request_success", "Completions by finish reason", self.finished.clone());
        r.register("wf:http_requests", "HTTP requests by route and status", self.responses.clone());
        r.register("wf:panics", "Requests that ended in a panic", self.panics.clone());
        for (name, help, histogram) in [
            (
                "time_to_first_token_seconds",
                "Time from arrival to the first token",
                &self.first_token,
            ),
            ("inter_token_latency_seconds", "Time between two tokens", &self.between_tokens),
            (
                "e2e_request_latency_seconds",
                "Time from arrival to the last token",
                &self.end_to_end,
            ),
            ("request_queue_time_seconds", "Time in the queue", &self.queue),
            (
                "request_prefill_time_seconds",
                "Time from the start to the first token",
                &self.prefill,
            ),
            ("request_decode_time_seconds", "Time from the first token to the last", &self.decode),
            (
                "request_inference_time_seconds",
                "Time from the start to the last token",
                &self.inference,
            ),
            ("request_prompt_tokens", "Prompt tokens of a request", &self.prompt_len),
            ("request_generation_tokens", "Generated tokens of a completion", &self.completion_len),
            ("request_params_n", "Completions requested per prompt", &self.choices),
        ] {
            r.register(format!("wf:{name}"), help, histogram.clone());
        }
    }

    fn registry(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds the engine's counters.
    pub(crate) fn watch(&self, engine: EngineHandle) {
        self.registry().register_collector(Box::new(EngineCounts(engine)));
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry());
        text
    }

    pub(crate) fn count_response(&self, handler: &str, status: u16) {
        let responses = ResponseLabels { handler: handler.to_owned(), status };
        self.responses.get_or_create(&responses).inc();
    }

    pub(crate) fn count_panic(&self) {
        self.panics.inc();
    }

    /// Counts a prompt with `choices` completions.
    pub(crate) fn count_prompt(&self, tokens: usize, choices: usize) {
        self.prompt_tokens.inc_by(tokens as u64);
        self.prompt_len.observe(tokens as f64);
        self.choices.observe(choices as f64);
    }

    /// Counts a generated token.
    pub(crate) fn count_token(&self, since_arrival: Duration, since_last: Option<Duration>) {
        self.generation_tokens.inc();
        match since_last {
            None => self.first_token.observe(since_arrival.as_secs_f64()),
            Some(time) => self.between_tokens.observe(time.as_secs_f64()),
        }
    }

    /// Counts a completion that ended.
    pub(crate) fn count_end(&self, finished_reason: &'static str, timings: Option<&Timings>) {
        self.finished.get_or_create(&FinishLabels { finished_reason }).inc();
        let Some(t) = timings else { return };
        let prefill = t.prompt.saturating_sub(t.queued);
        for (histogram, time) in [
            (&self.end_to_end, t.prompt + t.decode),
            (&self.queue, t.queued),
            (&self.prefill, prefill),
            (&self.decode, t.decode),
            (&self.inference, prefill + t.decode),
        ] {
            histogram.observe(time.as_secs_f64());
        }
        self.completion_len.observe(t.completion_tokens as f64);
    }
}

/// The engine's counters, read at each scrape.
#[derive(Debug)]
struct EngineCounts(EngineHandle);

impl Collector for EngineCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = self.0.stats();
        for (name, help, value) in gauges(&stats) {
            let gauge = ConstGauge::new(value);
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(&format!("wf:{name}"), help, None, kind)?)?;
        }
        for (name, help, value) in counters(&stats) {
            let counter = ConstCounter::new(value);
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(
                &format!("wf:{name}"),
                help,
                None,
                kind,
            )?)?;
        }
        Ok(())
    }
}

fn gauges(s: &StatsSnapshot) -> [(&'static str, &'static str, f64); 7] {
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    [
        ("num_requests_running", "Sequences being computed", s.running as f64),
        ("num_requests_waiting", "Sequences in the queue", s.waiting as f64),
        (
            "kv_cache_usage_perc",
            "Share of the KV cache pages in use",
            share(s.pages_in_use as u64, s.pages as u64),
        ),
        ("kv_pages_in_use", "KV cache pages in use", s.pages_in_use as f64),
        (
            "kv_pages_kept",
            "KV cache pages kept for prompts with the same prefix",
            s.cached_pages as f64,
        ),
        (
            "closed_gates_ratio",
            "Share of gates that were not positive, in layers with sparse steps",
            share(s.closed_gates, s.neurons),
        ),
        (
            "zero_codes_ratio",
            "Share of activations that were zero, in layers with sparse steps",
            share(s.zero_codes, s.neurons),
        ),
    ]
}

fn counters(s: &StatsSnapshot) -> [(&'static str, &'static str, u64); 9] {
    [
        ("num_preemptions", "Sequences preempted to free pages", s.preemptions),
        ("prefix_cache_queries", "Prompt tokens looked up in the prefix cache", s.prompt_tokens),
        ("prefix_cache_hits", "Prompt tokens found in the prefix cache", s.cached_tokens),
        ("engine_steps", "Forward passes", s.steps),
        ("generation_passes", "Forward passes that decoded, once per sequence", s.decode_passes),
        ("spec_decode_num_draft_tokens", "Draft tokens verified", s.drafted_tokens),
        ("spec_decode_num_accepted_tokens", "Draft tokens accepted", s.accepted_tokens),
        ("cancelled_requests", "Sequences whose client disconnected", s.cancelled),
        ("failed_steps", "Forward passes that panicked", s.failed_steps),
    ]
}
