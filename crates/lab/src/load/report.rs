//! The results of a load test, as JSON and as a table.

use serde::Serialize;

use super::compare::Difference;
use super::counts::{Counts, ServerCounts};
use crate::stats::quantile;

/// The results of a load test.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub(super) url: String,
    pub(super) model: String,
    pub(super) requests: usize,
    pub(super) concurrency: Option<usize>,
    pub(super) rate: Option<f64>,
    pub(super) held: Option<usize>,
    /// Seconds from the first request to the last response, without those sent alone.
    pub(super) seconds: f64,
    pub(super) ok: usize,
    pub(super) failed: usize,
    /// Number of times a request was rejected with 429 and retried.
    pub(super) refused_429: usize,
    pub(super) hung_up: usize,
    pub(super) closed_while_slow: usize,
    /// Shortest and longest time until such a connection was closed, in seconds.
    pub(super) closed_after_s: Option<(f64, f64)>,
    /// Messages of the first failures.
    pub(super) failures: Vec<String>,
    /// Tokens of the complete responses under load.
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) reply_tokens: u64,
    pub(super) tok_s: f64,
    pub(super) requests_s: f64,
    pub(super) first_token_ms: Quantiles,
    pub(super) between_tokens_ms: Quantiles,
    pub(super) whole_ms: Quantiles,
    pub(super) health_ms: Quantiles,
    pub(super) check: Option<Check>,
    /// `None` if the server has no metrics, or is shared with other clients.
    pub(super) server: Option<ServerSide>,
    /// Streamed tokens per second in each of the equally long parts of the run.
    pub(super) streamed_tok_s: Vec<f64>,
    /// Sorted times to the first token, in milliseconds.
    #[serde(skip)]
    pub(super) first_token_times: Vec<f64>,
    /// Sorted times between tokens, in milliseconds.
    #[serde(skip)]
    pub(super) between_tokens_times: Vec<f64>,
}

/// Responses compared with those of the same requests sent alone.
#[derive(Debug, Default, Serialize)]
pub(super) struct Check {
    pub(super) prompts: usize,
    pub(super) alone_seconds: f64,
    pub(super) equal: usize,
    /// Incomplete responses that are equal as far as they were received.
    pub(super) equal_beginnings: usize,
    pub(super) different: usize,
    pub(super) first_difference: Option<FirstDifference>,
}

#[derive(Debug, Serialize)]
pub(super) struct FirstDifference {
    pub(super) request: usize,
    pub(super) streamed: bool,
    #[serde(rename = "ask")]
    pub(super) spec: String,
    #[serde(flatten)]
    pub(super) difference: Difference,
}

/// The server's counts compared with the client's.
#[derive(Debug, Serialize)]
pub(super) struct ServerSide {
    pub(super) counted: ServerCounts,
    pub(super) seen: Counts,
    /// Number of requests whose response was not received in full.
    pub(super) unfinished: u64,
    /// Milliseconds from the last response until the server was idle; `None` if it took too long.
    pub(super) quiet_ms: Option<f64>,
    pub(super) disagreements: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Quantiles {
    pub(super) count: usize,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Quantiles {
    pub(super) fn of(values: &mut [f64]) -> Self {
        values.sort_by(f64::total_cmp);
        let Some(&max) = values.last() else { return Self::default() };
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| quantile(values, share));
        Self { count: values.len(), p50, p90, p99, max }
    }

    pub(super) fn text(&self) -> String {
        let Self { p50, p90, p99, max, .. } = self;
        match self.count {
            0 => "nothing was measured".to_owned(),
            _ => format!("p50 {p50:.1} ms   p90 {p90:.1} ms   p99 {p99:.1} ms   max {max:.1} ms"),
        }
    }
}

impl Report {
    /// Returns `true` if the server's counts were compared.
    pub fn has_server_counts(&self) -> bool {
        self.server.is_some()
    }

    /// Returns everything that makes the test fail.
    pub fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.failed > 0 {
            errors.push(format!("{} failed", count(self.failed, "request")));
        }
        if let Some(different) = self.check.as_ref().map(|c| c.different).filter(|n| *n > 0) {
            let responses = count(different, "response");
            errors.push(format!("{responses} differed from those of the same requests alone"));
        }
        if let Some(server) = &self.server {
            if !server.disagreements.is_empty() {
                errors.push("the server's counts do not match the client's".to_owned());
            }
            if server.quiet_ms.is_none() {
                errors.push("the server did not become idle".to_owned());
            }
        }
        errors
    }

    /// Returns the labels and texts of a table.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut requests = format!(
            "{} ok, {} failed, {} retries after 429",
            self.ok, self.failed, self.refused_429
        );
        if self.hung_up > 0 {
            requests += &format!(", {} disconnected on purpose", self.hung_up);
        }
        if let Some((first, last)) = self.closed_after_s {
            let closed = self.closed_while_slow;
            requests += &format!(", {closed} slow ones closed after {first:.1} to {last:.1} s");
        }
        let tokens = format!(
            "{} prompt ({} cached), {} completion: {:.1} completion tok/s",
            self.prompt_tokens, self.cached_tokens, self.reply_tokens, self.tok_s
        );
        let mut rows = vec![
            ("server", format!("{}, model {}", self.url, self.model)),
            ("load", self.load_text()),
            ("requests", requests),
            ("tokens", tokens),
            ("first token", self.first_token_ms.text()),
            ("between", self.between_tokens_ms.text()),
            ("/health", self.health_ms.text()),
        ];
        rows.extend(self.check.iter().flat_map(Check::rows));
        rows.extend(self.server.iter().flat_map(ServerSide::rows));
        rows.extend(self.failures.iter().map(|failure| ("failed", failure.clone())));
        rows
    }

    fn load_text(&self) -> String {
        let what = match (self.held, self.rate, self.concurrency) {
            (Some(_), ..) => "all streams open before any was read".to_owned(),
            (_, Some(rate), _) => format!("{rate} per second"),
            (_, _, concurrency) => format!("{} at a time", concurrency.unwrap_or(1)),
        };
        let requests = count(self.requests, "request");
        format!("{requests}, {what}, in {:.1} s: {:.1} per second", self.seconds, self.requests_s)
    }
}

impl Check {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let total = self.equal + self.equal_beginnings + self.different;
        let mut text = format!(
            "{} of {total} responses equal those sent alone: ids, logprob bits, text, finish reason, usage",
            self.equal
        );
        if self.equal_beginnings > 0 {
            text += &format!("; {} incomplete ones as far as received", self.equal_beginnings);
        }
        let alone = format!("{} in {:.1} s", count(self.prompts, "request"), self.alone_seconds);
        let mut rows = vec![("alone", alone), ("equal", text)];
        if let Some(first) = &self.first_difference {
            let Difference { what, at, alone, under_load } = &first.difference;
            let at = at.map_or(String::new(), |at| format!(" from token {at}"));
            let kind = if first.streamed { "streamed" } else { "not streamed" };
            rows.push(("different", format!("request {} ({kind}): {what}{at}", first.request)));
            rows.push(("  request", first.spec.clone()));
            rows.push(("  alone", alone.clone()));
            rows.push(("  load", under_load.clone()));
        }
        rows
    }
}

impl ServerSide {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let idle = match self.quiet_ms {
            Some(ms) => format!("idle, no page in use, {ms:.0} ms after the last response"),
            None => {
                let now = &self.counted;
                format!(
                    "not idle: {} running, {} waiting, {} pages in use",
                    now.running, now.waiting, now.pages_in_use
                )
            }
        };
        let mut rows = vec![("idle", format!("{idle}; {} preemptions", self.counted.preemptions))];
        if self.disagreements.is_empty() {
            let done = &self.counted.done;
            let ended: u64 = done.finished.values().sum();
            let reasons: Vec<String> =
                done.finished.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
            let verdict = match self.unfinished {
                0 => "as received".to_owned(),
                n => format!("at least as received, at most with {n} incomplete responses"),
            };
            let text = format!(
                "{ended} responses ({}), {} prompt and {} completion tokens: {verdict}",
                reasons.join(", "),
                done.prompt_tokens,
                done.generation_tokens
            );
            rows.push(("metrics", text));
        }
        rows.extend(self.disagreements.iter().map(|text| ("metrics", text.clone())));
        rows
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_some_values() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let found = Quantiles::of(&mut values);
        assert_eq!((found.count, found.p50, found.p90), (101, 50.0, 90.0));
        assert_eq!((found.p99, found.max), (99.0, 100.0));
        assert_eq!(Quantiles::of(&mut []), Quantiles::default());
    }

    #[test]
    fn errors_name_everything_that_is_wrong() {
        assert_eq!(Report::default().errors(), Vec::<String>::new());
        let server = ServerSide {
            counted: ServerCounts::default(),
            seen: Counts::default(),
            unfinished: 0,
            quiet_ms: None,
            disagreements: vec!["prompt tokens: client 1, server 2".to_owned()],
        };
        let check = Check { different: 1, ..Check::default() };
        let report =
            Report { failed: 2, check: Some(check), server: Some(server), ..Report::default() };
        let words = report.errors().join("; ");
        for word in ["2 requests failed", "1 response differed", "do not match", "become idle"] {
            assert!(words.contains(word), "{words}");
        }
    }

    #[test]
    fn json_has_the_keys_that_scripts_read() {
        let json = serde_json::to_value(Report::default()).unwrap();
        for key in ["ok", "failed", "refused_429", "tok_s", "check", "server", "seconds"] {
            assert!(json.get(key).is_some(), "{key}");
        }
        for key in ["p50", "p90", "p99", "max", "count"] {
            assert!(json["first_token_ms"].get(key).is_some(), "{key}");
        }
    }
}
