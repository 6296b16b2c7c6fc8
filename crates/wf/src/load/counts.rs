//! What the server counted, read from its `/metrics`, and what was seen here.

use std::collections::BTreeMap;

use serde::Serialize;
use wf_client::http::Client;

use super::reply::Reply;

/// What a server has done since it started, and is doing.
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
    /// What `server` says now; nothing if it does not count, or not under these names.
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

    /// Whether nothing runs or waits, and no page is held.
    pub(crate) fn is_quiet(&self) -> bool {
        (self.running, self.waiting, self.pages_in_use) == (0, 0, 0)
    }

    /// What was done since `before`.
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

/// The value of a label in `name="value",…}`.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let rest = labels.split_once(&format!("{name}=\""))?.1;
    Some(rest.split_once('"')?.0)
}

/// What was seen here: replies that came whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct OurCounts {
    pub(crate) finished: BTreeMap<String, u64>,
    pub(crate) prompt_tokens: u64,
    pub(crate) generation_tokens: u64,
    pub(crate) cached_tokens: u64,
}

impl OurCounts {
    pub(crate) fn add(&mut self, reply: &Reply) {
        let reason = reply.finish_reason.clone().unwrap_or_default();
        *self.finished.entry(reason).or_default() += 1;
        let usage = reply.usage.unwrap_or_default();
        self.prompt_tokens += u64::from(usage.prompt_tokens);
        self.generation_tokens += u64::from(usage.completion_tokens);
        self.cached_tokens += u64::from(reply.cached_tokens());
    }

    /// Where the server's counts are not these. Of the `unfinished` requests of which not
    /// everything was seen, the server may have counted anything from nothing to all.
    pub(crate) fn disagreements(&self, server: &ServerCounts, unfinished: u64) -> Vec<String> {
        let mut rows = vec![
            ("prompt tokens".to_owned(), self.prompt_tokens, server.prompt_tokens, u64::MAX),
            ("reply tokens".to_owned(), self.generation_tokens, server.generation_tokens, u64::MAX),
            ("cached tokens".to_owned(), self.cached_tokens, server.cached_tokens, u64::MAX),
        ];
        let reasons = self.finished.keys().chain(server.finished.keys());
        for reason in reasons.collect::<std::collections::BTreeSet<_>>() {
            let of = |counts: &BTreeMap<String, u64>| counts.get(reason).copied().unwrap_or(0);
            let what = format!("replies that ended with {reason}");
            rows.push((what, of(&self.finished), of(&server.finished), unfinished));
        }
        let beyond =
            |ours: u64, slack: u64| if unfinished == 0 { ours } else { ours.saturating_add(slack) };
        rows.into_iter()
            .filter(|&(_, ours, theirs, slack)| !(ours..=beyond(ours, slack)).contains(&theirs))
            .map(|(what, ours, theirs, _)| {
                format!("{what}: {ours} seen here, {theirs} counted there")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP wf:num_requests_running Replies being computed.
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
    fn metrics_are_read() {
        let counts = ServerCounts::parse(TEXT).unwrap();
        assert_eq!((counts.running, counts.waiting, counts.pages_in_use), (2, 0, 7));
        assert_eq!((counts.prompt_tokens, counts.generation_tokens), (120, 45));
        assert_eq!((counts.finished["stop"], counts.finished["length"]), (3, 4));
        assert_eq!(counts.cached_tokens, 64);
        assert!(!counts.is_quiet());
        assert_eq!(ServerCounts::parse("other_metric 1\n"), None);
        let later = ServerCounts { prompt_tokens: 130, ..counts.clone() };
        let since = later.since(&counts);
        assert_eq!(
            (since.prompt_tokens, since.generation_tokens, since.finished.len()),
            (10, 0, 0)
        );
    }

    #[test]
    fn counts_have_to_be_equal_unless_somebody_hung_up() {
        let finished = BTreeMap::from([("stop".to_owned(), 3)]);
        let ours =
            OurCounts { finished: finished.clone(), prompt_tokens: 9, ..OurCounts::default() };
        let server = ServerCounts { finished, prompt_tokens: 9, ..ServerCounts::default() };
        assert_eq!(ours.disagreements(&server, 0), Vec::<String>::new());
        let more = ServerCounts { prompt_tokens: 10, ..server.clone() };
        let message = "prompt tokens: 9 seen here, 10 counted there";
        assert_eq!(ours.disagreements(&more, 0), [message]);
        assert_eq!(ours.disagreements(&more, 1), Vec::<String>::new());
        let fewer = ServerCounts { prompt_tokens: 8, ..server.clone() };
        assert_eq!(ours.disagreements(&fewer, 1).len(), 1);
        let aborted = |count| {
            let mut server = server.clone();
            server.finished.insert("abort".to_owned(), count);
            ours.disagreements(&server, 2).len()
        };
        assert_eq!((aborted(2), aborted(3)), (0, 1));
    }
}
