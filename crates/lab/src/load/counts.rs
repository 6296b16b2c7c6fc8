//! Counts of the server, read from `/metrics`, and of the client.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wf_api::http::Client;

use super::response::Response;

/// Counts over complete responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Counts {
    pub(crate) finished: BTreeMap<String, u64>,
    pub(crate) prompt_tokens: u64,
    pub(crate) generation_tokens: u64,
    pub(crate) cached_tokens: u64,
}

/// Counters and gauges of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ServerCounts {
    #[serde(flatten)]
    pub(crate) done: Counts,
    pub(crate) preemptions: u64,
    pub(crate) running: u64,
    pub(crate) waiting: u64,
    pub(crate) pages_in_use: u64,
}

impl ServerCounts {
    /// Reads the metrics of `server`; `None` if it has none, or none with these names.
    pub(crate) async fn of(server: &Client) -> Option<Self> {
        Self::parse(&server.get_text("/metrics").await.ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut counts = Self::default();
        let mut is_ours = false;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let done = &mut counts.done;
            let count = match name {
                "wf:request_success_total" => {
                    let reason = label(labels, "finished_reason").unwrap_or_default();
                    done.finished.entry(reason.to_owned()).or_default()
                }
                "wf:prompt_tokens_total" => &mut done.prompt_tokens,
                "wf:generation_tokens_total" => &mut done.generation_tokens,
                "wf:prefix_cache_hits_total" => &mut done.cached_tokens,
                "wf:num_preemptions_total" => &mut counts.preemptions,
                "wf:num_requests_running" => &mut counts.running,
                "wf:num_requests_waiting" => &mut counts.waiting,
                "wf:kv_pages_in_use" => &mut counts.pages_in_use,
                _ => continue,
            };
            *count += value as u64;
            is_ours |= name == "wf:num_requests_running";
        }
        is_ours.then_some(counts)
    }

    /// Returns `true` if no request is running or waiting and no page is in use.
    pub(crate) fn is_idle(&self) -> bool {
        (self.running, self.waiting, self.pages_in_use) == (0, 0, 0)
    }

    /// Returns the increase of the counters since `before`, and the gauges.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        let (now, before_done) = (&mut self.done, &before.done);
        for (reason, count) in &mut now.finished {
            *count = count.saturating_sub(before_done.finished.get(reason).copied().unwrap_or(0));
        }
        now.finished.retain(|_, count| *count > 0);
        for (count, before) in [
            (&mut now.prompt_tokens, before_done.prompt_tokens),
            (&mut now.generation_tokens, before_done.generation_tokens),
            (&mut now.cached_tokens, before_done.cached_tokens),
            (&mut self.preemptions, before.preemptions),
        ] {
            *count = count.saturating_sub(before);
        }
        self
    }
}

/// Returns the value of a label in `name="value",…}`.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let rest = labels.split_once(&format!("{name}=\""))?.1;
    Some(rest.split_once('"')?.0)
}

impl Counts {
    pub(crate) fn add(&mut self, response: &Response) {
        let reason = response.finish_reason.clone().unwrap_or_default();
        *self.finished.entry(reason).or_default() += 1;
        let usage = response.usage.unwrap_or_default();
        self.prompt_tokens += u64::from(usage.prompt_tokens);
        self.generation_tokens += u64::from(usage.completion_tokens);
        self.cached_tokens += u64::from(response.cached_tokens());
    }

    /// Returns the counts that the server has differently. The `incomplete` requests, whose responses
    /// were not received in full, may be counted by the server or not.
    pub(crate) fn mismatches(&self, server: &Self, incomplete: u64) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, ours: u64, theirs: u64, slack: u64| {
            let max = if incomplete == 0 { ours } else { ours.saturating_add(slack) };
            if !(ours..=max).contains(&theirs) {
                found.push(format!("{what}: client {ours}, server {theirs}"));
            }
        };
        compare("prompt tokens", self.prompt_tokens, server.prompt_tokens, u64::MAX);
        compare("completion tokens", self.generation_tokens, server.generation_tokens, u64::MAX);
        compare("cached tokens", self.cached_tokens, server.cached_tokens, u64::MAX);
        let reasons = self.finished.keys().chain(server.finished.keys());
        for reason in reasons.collect::<BTreeSet<_>>() {
            let of = |counts: &Self| counts.finished.get(reason).copied().unwrap_or(0);
            let what = format!("responses with finish reason {reason}");
            compare(&what, of(self), of(server), incomplete);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP wf:num_requests_running Running requests.
# TYPE wf:num_requests_running gauge
wf:num_requests_running 2.0
wf:num_requests_waiting 0
wf:kv_pages_in_use 7
wf:prompt_tokens_total 120
wf:generation_tokens_total 45
wf:request_success_total{finished_reason=\"stop\"} 3
wf:request_success_total{model=\"x\",finished_reason=\"length\"} 4
wf:prefix_cache_hits_total 64
wf:time_to_first_token_seconds_bucket{le=\"0.1\"} 5
# EOF
";

    #[test]
    fn parses_metrics() {
        let counts = ServerCounts::parse(TEXT).unwrap();
        assert_eq!((counts.running, counts.waiting, counts.pages_in_use), (2, 0, 7));
        let done = &counts.done;
        assert_eq!((done.prompt_tokens, done.generation_tokens), (120, 45));
        assert_eq!((done.finished["stop"], done.finished["length"]), (3, 4));
        assert_eq!(done.cached_tokens, 64);
        assert!(!counts.is_idle());
        assert_eq!(ServerCounts::parse("other_metric 1\n"), None);
        let mut later = counts.clone();
        later.done.prompt_tokens = 130;
        let since = later.since(&counts).done;
        assert_eq!(
            (since.prompt_tokens, since.generation_tokens, since.finished.len()),
            (10, 0, 0)
        );
    }

    #[test]
    fn counts_must_be_equal_unless_a_client_disconnected() {
        let finished = BTreeMap::from([("stop".to_owned(), 3)]);
        let ours = Counts { finished, prompt_tokens: 9, ..Counts::default() };
        let server = ours.clone();
        assert_eq!(ours.mismatches(&server, 0), Vec::<String>::new());
        let more = Counts { prompt_tokens: 10, ..server.clone() };
        let message = "prompt tokens: client 9, server 10";
        assert_eq!(ours.mismatches(&more, 0), [message]);
        assert_eq!(ours.mismatches(&more, 1), Vec::<String>::new());
        let fewer = Counts { prompt_tokens: 8, ..server.clone() };
        assert_eq!(ours.mismatches(&fewer, 1).len(), 1);
        let aborted = |count| {
            let mut server = server.clone();
            server.finished.insert("abort".to_owned(), count);
            ours.mismatches(&server, 2).len()
        };
        assert_eq!((aborted(2), aborted(3)), (0, 1));
    }
}
