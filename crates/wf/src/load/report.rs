//! What a load run found, in the words its JSON uses, and as a table.

use serde::Serialize;

use super::compare::Difference;
use super::counts::{OurCounts, ServerCounts};
use crate::bench::stats::quantile;
use crate::report::count;

/// Everything a run found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) url: String,
    pub(super) model: String,
    pub(super) requests: usize,
    pub(super) concurrency: Option<usize>,
    pub(super) rate: Option<f64>,
    pub(super) held: Option<usize>,
    /// From the first request to the last reply, without those sent alone.
    pub(super) seconds: f64,
    pub(super) ok: usize,
    pub(super) failed: usize,
    /// Times a request was refused with 429 and sent again later.
    pub(super) refused_429: usize,
    pub(super) hung_up: usize,
    pub(super) closed_while_slow: usize,
    /// The first and the last of those closings, in seconds after they were sent.
    pub(super) closed_after_s: Option<(f64, f64)>,
    /// The first few.
    pub(super) failures: Vec<String>,
    /// Of the replies under load that came whole.
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
    pub(super) server: Option<ServerSide>,
    /// Tokens that came in each part of the run, which are equally long. Streamed ones alone.
    pub(super) streamed_tok_s: Vec<f64>,
}

/// Replies beside those that the same requests got alone.
#[derive(Debug, Default, Serialize)]
pub(super) struct Check {
    pub(super) prompts: usize,
    pub(super) alone_seconds: f64,
    pub(super) equal: usize,
    /// Replies that were cut off and equal as far as they came.
    pub(super) equal_beginnings: usize,
    pub(super) different: usize,
    pub(super) first_difference: Option<FirstDifference>,
}

#[derive(Debug, Serialize)]
pub(super) struct FirstDifference {
    pub(super) request: usize,
    pub(super) streamed: bool,
    pub(super) ask: String,
    #[serde(flatten)]
    pub(super) difference: Difference,
}

/// What the server counted meanwhile.
#[derive(Debug, Serialize)]
pub(super) struct ServerSide {
    pub(super) counted: ServerCounts,
    pub(super) seen: OurCounts,
    /// Requests of which not everything was seen.
    pub(super) unfinished: u64,
    /// Milliseconds from the last reply until nothing ran and no page was held; none if not in time.
    pub(super) quiet_ms: Option<f64>,
    pub(super) disagreements: Vec<String>,
}

/// Some values in order.
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

    fn words(&self) -> String {
        let Self { p50, p90, p99, max, .. } = self;
        match self.count {
            0 => "nothing was streamed".to_owned(),
            _ => format!("p50 {p50:.1} ms   p90 {p90:.1} ms   p99 {p99:.1} ms   most {max:.1} ms"),
        }
    }
}

impl Report {
    /// What is wrong, if anything is.
    pub(super) fn verdict(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.failed > 0 {
            wrong.push(format!("{} failed", count(self.failed, "request")));
        }
        if let Some(different) = self.check.as_ref().map(|c| c.different).filter(|n| *n > 0) {
            let replies = if different == 1 { "reply" } else { "replies" };
            wrong.push(format!("{different} {replies} differed from the ones alone"));
        }
        if let Some(server) = &self.server {
            if !server.disagreements.is_empty() {
                wrong.push("the server counted something else than was seen here".to_owned());
            }
            if server.quiet_ms.is_none() {
                wrong.push("the server did not come to rest".to_owned());
            }
        }
        wrong
    }

    /// The rows of the table.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![("server", format!("{}, model {}", self.url, self.model))];
        rows.push(("load", self.load_words()));
        let mut requests =
            format!("{} ok, {} failed, {} times 429", self.ok, self.failed, self.refused_429);
        if self.hung_up > 0 {
            requests += &format!(", {} hung up on purpose", self.hung_up);
        }
        if let Some((first, last)) = self.closed_after_s {
            let closed = self.closed_while_slow;
            requests += &format!(", {closed} closed while slow after {first:.1} to {last:.1} s");
        }
        rows.push(("requests", requests));
        rows.push((
            "tokens",
            format!(
                "{} read ({} of them cached), {} written: {:.1} written a second",
                self.prompt_tokens, self.cached_tokens, self.reply_tokens, self.tok_s
            ),
        ));
        rows.push(("first token", self.first_token_ms.words()));
        rows.push(("between", self.between_tokens_ms.words()));
        rows.push(("/health", self.health_ms.words()));
        rows.extend(self.check.iter().flat_map(Check::rows));
        rows.extend(self.server.iter().flat_map(ServerSide::rows));
        rows.extend(self.failures.iter().map(|failure| ("failed", failure.clone())));
        rows
    }

    fn load_words(&self) -> String {
        let what = match (self.held, self.rate, self.concurrency) {
            (Some(_), ..) => "all open before any was read".to_owned(),
            (_, Some(rate), _) => format!("{rate} new ones a second"),
            (_, _, concurrency) => format!("{} at once", concurrency.unwrap_or(1)),
        };
        let requests = count(self.requests, "request");
        format!("{requests}, {what}, in {:.1} s: {:.1} a second", self.seconds, self.requests_s)
    }
}

impl Check {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let total = self.equal + self.equal_beginnings + self.different;
        let mut words = format!(
            "{} of {total} replies are the ones alone: ids, logprob bits, text, finish reason, usage",
            self.equal
        );
        if self.equal_beginnings > 0 {
            words += &format!("; {} as far as they came", self.equal_beginnings);
        }
        let alone = format!("{} in {:.1} s", count(self.prompts, "request"), self.alone_seconds);
        let mut rows = vec![("alone", alone), ("equal", words)];
        if let Some(first) = &self.first_difference {
            let Difference { what, at, alone, under_load } = &first.difference;
            let at = at.map_or(String::new(), |at| format!(" from token {at} on"));
            let kind = if first.streamed { "streamed" } else { "not streamed" };
            rows.push(("different", format!("request {} ({kind}): {what}{at}", first.request)));
            rows.push(("  asked", first.ask.clone()));
            rows.push(("  alone", alone.clone()));
            rows.push(("  load", under_load.clone()));
        }
        rows
    }
}

impl ServerSide {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let quiet = match self.quiet_ms {
            Some(ms) => format!("at rest, no page held, {ms:.0} ms after the last reply"),
            None => {
                let now = &self.counted;
                format!(
                    "not at rest: {} run, {} wait, {} pages held",
                    now.running, now.waiting, now.pages_in_use
                )
            }
        };
        let mut rows = vec![("rest", format!("{quiet}; {} preemptions", self.counted.preemptions))];
        if self.disagreements.is_empty() {
            let ended: u64 = self.counted.finished.values().sum();
            let reasons: Vec<String> =
                self.counted.finished.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
            let verdict = match self.unfinished {
                0 => "as seen here".to_owned(),
                n => {
                    format!("no less than seen here, no more than with the {n} not seen to the end")
                }
            };
            let words = format!(
                "{ended} replies ({}), {} tokens read and {} written: {verdict}",
                reasons.join(", "),
                self.counted.prompt_tokens,
                self.counted.generation_tokens
            );
            rows.push(("its counts", words));
        }
        rows.extend(self.disagreements.iter().map(|words| ("its counts", words.clone())));
        rows
    }
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
    fn the_verdict_names_everything_that_is_wrong() {
        assert_eq!(Report::default().verdict(), Vec::<String>::new());
        let server = ServerSide {
            counted: ServerCounts::default(),
            seen: OurCounts::default(),
            unfinished: 0,
            quiet_ms: None,
            disagreements: vec!["prompt tokens: 1 seen here, 2 counted there".to_owned()],
        };
        let check = Check { different: 1, ..Check::default() };
        let report =
            Report { failed: 2, check: Some(check), server: Some(server), ..Report::default() };
        let words = report.verdict().join("; ");
        for word in ["2 requests failed", "1 reply differed", "counted", "come to rest"] {
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
