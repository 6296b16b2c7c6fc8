//! Prometheus metrics, under the names and in the buckets of vLLM, so that its dashboards work.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use wf_engine::{StatsSnapshot, Timings};

use crate::models::{self, ModelStats};

const FIRST_TOKEN_SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const TOKEN_SECONDS: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const REQUEST_SECONDS: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const TOKENS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FinishLabels {
    finished_reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    handler: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyResponseLabels {
    key: String,
    status: u16,
}

/// Name, help text and buckets of each histogram, in the order of [`Observed`].
const HISTOGRAMS: [(&str, &str, &[f64]); 10] = [
    ("time_to_first_token_seconds", "Time from arrival to the first token", FIRST_TOKEN_SECONDS),
    ("inter_token_latency_seconds", "Time between two tokens", TOKEN_SECONDS),
    ("e2e_request_latency_seconds", "Time from arrival to the last token", REQUEST_SECONDS),
    ("request_queue_time_seconds", "Time in the queue", REQUEST_SECONDS),
    ("request_prefill_time_seconds", "Time from the start to the first token", REQUEST_SECONDS),
    ("request_decode_time_seconds", "Time from the first token to the last", REQUEST_SECONDS),
    ("request_inference_time_seconds", "Time from the start to the last token", REQUEST_SECONDS),
    ("request_prompt_tokens", "Prompt tokens of a request", TOKENS),
    ("request_generation_tokens", "Generated tokens of a completion", TOKENS),
    ("request_params_n", "Completions requested per prompt", &[1.0, 2.0, 5.0, 10.0, 20.0]),
];

/// Quantity that a histogram observes.
#[derive(Clone, Copy)]
enum Observed {
    FirstToken,
    BetweenTokens,
    EndToEnd,
    Queue,
    Prefill,
    Decode,
    Inference,
    PromptLen,
    CompletionLen,
    Choices,
}

/// All metrics.
pub(crate) struct Metrics {
    /// First part of all names.
    prefix: String,
    registry: Mutex<Registry>,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    finished: Family<FinishLabels, Counter>,
    responses: Family<ResponseLabels, Counter>,
    panics: Counter,
    key_responses: Family<KeyResponseLabels, Counter>,
    key_prompt_tokens: Family<KeyLabels, Counter>,
    key_generation_tokens: Family<KeyLabels, Counter>,
    model_prompt_tokens: Family<ModelLabels, Counter>,
    model_generation_tokens: Family<ModelLabels, Counter>,
    histograms: [Histogram; HISTOGRAMS.len()],
}

impl Metrics {
    /// Creates metrics whose names begin with `prefix` and a colon.
    pub(crate) fn new(prefix: &str) -> Self {
        let mut registry = Registry::default();
        let r = &mut Names { prefix, registry: &mut registry };
        Self {
            prefix: prefix.to_owned(),
            prompt_tokens: add(r, "prompt_tokens", "Prompt tokens of requests", Counter::default),
            generation_tokens: add(r, "generation_tokens", "Generated tokens", Counter::default),
            finished: add(r, "request_success", "Completions by finish reason", Family::default),
            responses: add(
                r,
                "http_requests",
                "HTTP requests by route and status",
                Family::default,
            ),
            panics: add(r, "panics", "Requests that ended in a panic", Counter::default),
            key_responses: add(
                r,
                "key_requests",
                "HTTP requests by name of the API key and status",
                Family::default,
            ),
            key_prompt_tokens: add(
                r,
                "key_prompt_tokens",
                "Prompt tokens by name of the API key",
                Family::default,
            ),
            key_generation_tokens: add(
                r,
                "key_generation_tokens",
                "Generated tokens by name of the API key",
                Family::default,
            ),
            model_prompt_tokens: add(
                r,
                "model_prompt_tokens",
                "Prompt tokens by model, if there are several",
                Family::default,
            ),
            model_generation_tokens: add(
                r,
                "model_generation_tokens",
                "Generated tokens by model, if there are several",
                Family::default,
            ),
            histograms: HISTOGRAMS.map(|(name, help, buckets)| {
                add(r, name, help, || Histogram::new(buckets.iter().copied()))
            }),
            registry: Mutex::new(registry),
        }
    }

    fn registry(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds the counters of the engines, and those of models if there are several.
    pub(crate) fn watch(&self, models: &Arc<models::Registry>) {
        let counts = EngineCounts { models: Arc::clone(models), prefix: self.prefix.clone() };
        self.registry().register_collector(Box::new(counts));
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry());
        text
    }

    /// Returns the prompt tokens and the generated tokens of all requests.
    pub(crate) fn tokens(&self) -> (u64, u64) {
        (self.prompt_tokens.get(), self.generation_tokens.get())
    }

    pub(crate) fn count_response(&self, handler: &str, status: u16) {
        let responses = ResponseLabels { handler: handler.to_owned(), status };
        self.responses.get_or_create(&responses).inc();
    }

    pub(crate) fn count_key_response(&self, key: &str, status: u16) {
        let labels = KeyResponseLabels { key: key.to_owned(), status };
        self.key_responses.get_or_create(&labels).inc();
    }

    pub(crate) fn count_key_tokens(&self, key: &str, prompt: usize, completion: usize) {
        let labels = KeyLabels { key: key.to_owned() };
        self.key_prompt_tokens.get_or_create(&labels).inc_by(prompt as u64);
        self.key_generation_tokens.get_or_create(&labels).inc_by(completion as u64);
    }

    pub(crate) fn count_model_tokens(&self, model: &str, prompt: usize, completion: usize) {
        let labels = ModelLabels { model: model.to_owned() };
        self.model_prompt_tokens.get_or_create(&labels).inc_by(prompt as u64);
        self.model_generation_tokens.get_or_create(&labels).inc_by(completion as u64);
    }

    pub(crate) fn count_panic(&self) {
        self.panics.inc();
    }

    /// Counts a prompt with `choices` completions.
    pub(crate) fn count_prompt(&self, tokens: usize, choices: usize) {
        self.prompt_tokens.inc_by(tokens as u64);
        self.observe(Observed::PromptLen, tokens as f64);
        self.observe(Observed::Choices, choices as f64);
    }

    pub(crate) fn count_token(&self, since_arrival: Duration, since_last: Option<Duration>) {
        self.generation_tokens.inc();
        match since_last {
            None => self.observe(Observed::FirstToken, since_arrival.as_secs_f64()),
            Some(time) => self.observe(Observed::BetweenTokens, time.as_secs_f64()),
        }
    }

    pub(crate) fn count_end(&self, finished_reason: &'static str, timings: Option<&Timings>) {
        self.finished.get_or_create(&FinishLabels { finished_reason }).inc();
        let Some(t) = timings else { return };
        let prefill = t.prompt.saturating_sub(t.queued);
        for (observed, time) in [
            (Observed::EndToEnd, t.prompt + t.decode),
            (Observed::Queue, t.queued),
            (Observed::Prefill, prefill),
            (Observed::Decode, t.decode),
            (Observed::Inference, prefill + t.decode),
        ] {
            self.observe(observed, time.as_secs_f64());
        }
        self.observe(Observed::CompletionLen, t.completion_tokens as f64);
    }

    fn observe(&self, observed: Observed, value: f64) {
        self.histograms[observed as usize].observe(value);
    }
}

/// A registry, and the first part of all names in it.
struct Names<'a> {
    prefix: &'a str,
    registry: &'a mut Registry,
}

fn add<M: Metric + Clone>(
    Names { prefix, registry }: &mut Names<'_>,
    name: &str,
    help: &str,
    new: impl FnOnce() -> M,
) -> M {
    let metric = new();
    registry.register(format!("{prefix}:{name}"), help, metric.clone());
    metric
}

/// The counters of the engines, read at each scrape.
struct EngineCounts {
    models: Arc<models::Registry>,
    prefix: String,
}

impl std::fmt::Debug for EngineCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EngineCounts")
    }
}

impl Collector for EngineCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = self.models.total_stats();
        let mut add = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            let name = format!("{}:{name}", self.prefix);
            metric.encode(encoder.encode_descriptor(&name, help, None, metric.metric_type())?)
        };
        for (name, help, value) in gauges(&stats) {
            add(name, help, &ConstGauge::new(value))?;
        }
        for (name, help, value) in counters(&stats) {
            add(name, help, &ConstCounter::new(value))?;
        }
        // With one model, these would repeat what is above.
        match self.models.len() {
            0 | 1 => Ok(()),
            _ => encode_models(&mut encoder, &self.prefix, &self.models.stats()),
        }
    }
}

/// Encodes the gauges and counters that differ between models, with the name of each as a label.
fn encode_models(
    encoder: &mut DescriptorEncoder<'_>,
    prefix: &str,
    models: &[ModelStats],
) -> Result<(), std::fmt::Error> {
    for (name, help, value) in MODEL_GAUGES {
        let name = format!("{prefix}:{name}");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        for model in models {
            let labels = [("model", model.name.as_str())];
            ConstGauge::new(value(model)).encode(family.encode_family(&labels)?)?;
        }
    }
    for (name, help, value) in MODEL_COUNTERS {
        let name = format!("{prefix}:{name}");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for model in models {
            let labels = [("model", model.name.as_str())];
            ConstCounter::new(value(model)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Name, help text and value of a metric of each model.
type ModelMetric<T> = (&'static str, &'static str, fn(&ModelStats) -> T);

const MODEL_GAUGES: [ModelMetric<f64>; 3] = [
    ("model_loaded", "1 for models in memory", |model| f64::from(u8::from(model.is_loaded))),
    ("model_requests_running", "Sequences being computed, by model", |model| {
        model.engine.running as f64
    }),
    ("model_requests_waiting", "Sequences in the queue, by model", |model| {
        model.engine.waiting as f64
    }),
];

const MODEL_COUNTERS: [ModelMetric<u64>; 2] = [
    ("model_loads", "Times that a model was loaded", |model| model.loads),
    ("model_evictions", "Times that a model left memory for another", |model| model.evictions),
];

fn gauges(s: &StatsSnapshot) -> [(&'static str, &'static str, f64); 8] {
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
        ("disk_cache_bytes", "Size of the prefix cache on disk", s.disk.bytes as f64),
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

fn counters(s: &StatsSnapshot) -> [(&'static str, &'static str, u64); 13] {
    [
        ("num_preemptions", "Sequences preempted to free pages", s.preemptions),
        ("prefix_cache_queries", "Prompt tokens looked up in the prefix cache", s.prompt_tokens),
        ("prefix_cache_hits", "Prompt tokens found in the prefix cache", s.cached_tokens),
        ("disk_cache_hits", "K/V pages read from the prefix cache on disk", s.disk.hits),
        (
            "disk_cache_misses",
            "Prompts with a full page that is neither in memory nor on disk",
            s.disk.misses,
        ),
        ("disk_cache_writes", "K/V pages written to the prefix cache on disk", s.disk.written),
        (
            "disk_cache_drops",
            "K/V pages not written, because the disk is slow or full",
            s.disk.dropped,
        ),
        ("engine_steps", "Forward passes", s.steps),
        ("generation_passes", "Forward passes that decoded, once per sequence", s.decode_passes),
        ("spec_decode_num_draft_tokens", "Draft tokens verified", s.drafted_tokens),
        ("spec_decode_num_accepted_tokens", "Draft tokens accepted", s.accepted_tokens),
        ("cancelled_requests", "Sequences whose client disconnected", s.cancelled),
        ("failed_steps", "Forward passes that panicked", s.failed_steps),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_show_what_the_engine_holds() {
        let mut stats = StatsSnapshot {
            running: 2,
            waiting: 3,
            pages: 8,
            pages_in_use: 6,
            cached_pages: 1,
            neurons: 100,
            closed_gates: 40,
            zero_codes: 60,
            ..StatsSnapshot::default()
        };
        stats.disk.bytes = 700;
        let values = |stats| gauges(stats).map(|(name, _, value)| (name, value));
        let expected = [
            ("num_requests_running", 2.0),
            ("num_requests_waiting", 3.0),
            ("kv_cache_usage_perc", 0.75),
            ("kv_pages_in_use", 6.0),
            ("kv_pages_kept", 1.0),
            ("disk_cache_bytes", 700.0),
            ("closed_gates_ratio", 0.4),
            ("zero_codes_ratio", 0.6),
        ];
        assert_eq!(values(&stats), expected);
        let idle = values(&StatsSnapshot::default());
        assert_eq!(idle, expected.map(|(name, _)| (name, 0.0)), "no share is a division by zero");
    }
}
