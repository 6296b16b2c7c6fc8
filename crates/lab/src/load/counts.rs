//! Counts of the server, read from `/metrics`, and of the client.

use std::collections::BTreeMap;

use serde::Serialize;
use wf_api::http::Client;

use super::response::Response;

/// Counters and gauges of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ServerCounts {
    pub(crate) finished: BTreeMap<String, u64>,
    pub(crate) prompt_tokens: u64,
    pub(crate) generation_tokens: u64,
    pub(crate) cached_tokens: u64,
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
            let value = value as u64;
            match name {
                "wf:request_success_total" => {
                    let reason = label(labels, "finished_reason").unwrap_or_default();
                    *counts.finished.entry(reason.to_owned()).or_default() += value;
                }
                "wf:prompt_tokens_total" => counts.prompt_tokens = value,
                "wf:generation_tokens_total" => counts.generation_tokens = value,
                "wf:prefix_cache_hits_total" => counts.cached_tokens = value,
                "wf:num_preemptions_total" => counts.preemptions = value,
                "wf:num_requests_running" => {
                    is_ours = true;
                    counts.running = value;
                }
                "wf:num_requests_waiting" => counts.waiting = value,
                "wf:kv_pages_in_use" => counts.pages_in_use = value,
                _ => {}
            }
        }
        is_ours.then_some(counts)
    }

    /// Returns `true` if no request is running or waiting and no page is in use.
    pub(crate) fn is_idle(&self) -> bool {
        (self.running, self.waiting, self.pages_in_use) == (0, 0, 0)
    }

    /// Returns the increase of the counters since `before`, and the gauges.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let finished = self.finished.iter().map(|(reason, count)| {
            let earlier = before.finished.get(reason).copied().unwrap_or(0);
            (reason.clone(), count.saturating_sub(earlier))
        });
        Self {
            finished: finished.filter(|(_, count)| *count > 0).collect(),
            prompt_tokens: self.prompt_tokens.saturating_sub(before.prompt_tokens),
            generation_tokens: self.generation_tokens.saturating_sub(before.generation_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(before.cached_tokens),
            preemptions: self.preemptions.saturating_sub(before.preemptions),
            ..self.clone()
        }
    }
}

/// Returns the value of a label in `name="value",…}`.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let rest = labels.split_once(&format!("{name}=\""))?.1;
    Some(rest.split_once('"')?.0)
}

/// Counts over the complete responses a client received.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ClientCounts {
    pub(crate) finished: BTreeMap<String, u64>,
    pub(crate) prompt_tokens: u64,
    pub(crate) generation_tokens: u64,
    pub(crate) cached_tokens: u64,
}

impl ClientCounts {
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
    pub(crate) fn mismatches(&self, server: &ServerCounts, incomplete: u64) -> Vec<String> {
        let mut rows = vec![
            ("prompt tokens".to_owned(), self.prompt_tokens, server.prompt_tokens, u64::MAX),
            (
                "completion tokens".to_owned(),
                self.generation_tokens,
                server.generation_tokens,
                u64::MAX,
            ),
            ("cached tokens".to_owned(), self.cached_tokens, server.cached_tokens, u64::MAX),
        ];
        let reasons = self.finished.keys().chain(server.finished.keys());
        for reason in reasons.collect::<std::collections::BTreeSet<_>>() {
            let of = |counts: &BTreeMap<String, u64>| counts.get(reason).copied().unwrap_or(0);
            let what = format!("responses with finish reason {reason}");
            rows.push((what, of(&self.finished), of(&server.finished), incomplete));
        }
        let beyond =
            |ours: u64, slack: u64| if incomplete == 0 { ours } else { ours.saturating_add(slack) };
        rows.into_iter()
            .filter(|&(_, ours, theirs, slack)| !(ours..=beyond(ours, slack)).contains(&theirs))
            .map(|(what, ours, theirs, _)| format!("{what}: client {ours}, server {theirs}"))
            .collect()
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
        assert_eq!((counts.prompt_tokens, counts.generation_tokens), (120, 45));
        assert_eq!((counts.finished["stop"], counts.finished["length"]), (3, 4));
        assert_eq!(counts.cached_tokens, 64);
        assert!(!counts.is_idle());
        assert_eq!(ServerCounts::parse("other_metric 1\n"), None);
        let later = ServerCounts { prompt_tokens: 130, ..counts.clone() };
        let since = later.since(&counts);
        assert_eq!(
            (since.prompt_tokens, since.generation_tokens, since.finished.len()),
            (10, 0, 0)
        );
    }

    #[test]
    fn counts_must_be_equal_unless_a_client_disconnected() {
        let finished = BTreeMap::from([("stop".to_owned(), 3)]);
        let ours = ClientCounts {
            finished: finished.clone(),
            prompt_tokens: 9,
            ..ClientCounts::default()
        };
        let server = ServerCounts { finished, prompt_tokens: 9, ..ServerCounts::default() };
        assert_eq!(ours.mismatches(&server, 0), Vec::<String>::new());
        let more = ServerCounts { prompt_tokens: 10, ..server.clone() };
        let message = "prompt tokens: client 9, server 10";
        assert_eq!(ours.mismatches(&more, 0), [message]);
        assert_eq!(ours.mismatches(&more, 1), Vec::<String>::new());
        let fewer = ServerCounts { prompt_tokens: 8, ..server.clone() };
        assert_eq!(ours.mismatches(&fewer, 1).len(), 1);
        let aborted = |count| {
            let mut server = server.clone();
            server.finished.insert("abort".to_owned(), count);
            ours.mismatches(&server, 2).len()
        };
        assert_eq!((aborted(2), aborted(3)), (0, 1));
    }
}
