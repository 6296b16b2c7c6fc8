//! The wait of short requests beside callers that ask for as much as they can.
//!
//! Each kind of abuser keeps its requests open while short requests are sent one after the other. The times
//! to their first tokens are compared with those on an empty server.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use wf_api::http::Client;
use wf_api::wire::TokenId;

use super::counts::ServerCounts;
use super::prefix::story_ids;
use super::report::Quantiles;
use super::request::{self, RequestSpec};
use super::{served_model, wait_until_idle};

/// Number of short requests beside each kind of abuser.
const PROBES: usize = 20;
/// Tokens of a short request, and of its response.
const PROBE_TOKENS: usize = 3;
/// Time that abusers have to begin.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);

/// Times to the first token of short requests.
#[derive(Clone, Debug, Serialize)]
pub struct FairnessReport {
    /// On an empty server, in milliseconds.
    alone_ms: Quantiles,
    /// Beside each kind of abuser.
    beside: Vec<Beside>,
}

/// Times to the first token beside one kind of abuser.
#[derive(Clone, Debug, Serialize)]
struct Beside {
    abuser: &'static str,
    /// In milliseconds; absent if the model does not support what the abuser asks for.
    first_token_ms: Option<Quantiles>,
    /// Times as long as on an empty server, in the median.
    slowdown: Option<f64>,
}

impl FairnessReport {
    /// Returns the report as rows of a table.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![("empty server", self.alone_ms.text())];
        for Beside { abuser, first_token_ms, slowdown } in &self.beside {
            let text = match (first_token_ms, slowdown) {
                (Some(times), Some(slowdown)) => format!("{}   {slowdown:.1} x", times.text()),
                _ => "not supported by this model".to_owned(),
            };
            rows.push((*abuser, text));
        }
        rows
    }
}

/// A kind of abuser: its requests are all sent at once.
struct Abuser {
    name: &'static str,
    requests: Vec<Value>,
}

/// Measures short requests of `client` beside abusers, which send their requests as `abuser`.
pub(crate) async fn measure(client: &Client, abuser: &Client) -> Result<FairnessReport> {
    let context_len = served_model(client).await?.max_model_len;
    let prompt_len = 2000.min(context_len * 3 / 4);
    let story = story_ids(client, prompt_len).await?;
    probe(client).await?;
    let alone_ms = Quantiles::of(&mut probes(client).await?);
    let mut beside = Vec::new();
    for kind in abusers(&story, context_len) {
        let times = beside_one(client, abuser, &kind).await?;
        let first_token_ms = times.map(|mut times| Quantiles::of(&mut times));
        let slowdown = first_token_ms.map(|times| times.p50 / alone_ms.p50);
        beside.push(Beside { abuser: kind.name, first_token_ms, slowdown });
    }
    Ok(FairnessReport { alone_ms, beside })
}

fn abusers(story: &[TokenId], context_len: usize) -> Vec<Abuser> {
    let max_tokens = context_len / 2;
    let endless = |more: Value| {
        let mut request = json!({
            "prompt": &story[..PROBE_TOKENS], "max_tokens": max_tokens, "ignore_eos": true, "stream": true,
        });
        if let (Some(request), Value::Object(more)) = (request.as_object_mut(), more) {
            request.extend(more);
        }
        request
    };
    let block = json!({"block_size": 256, "rule": "threshold", "threshold": 1});
    let drafts = json!({"tokens": 64, "adapt": false});
    let mut prompts = vec![story.to_vec(); 256];
    // Prompts that differ from the first token share no prefix.
    prompts.iter_mut().zip(story.iter().cycle()).enumerate().for_each(|(at, (prompt, token))| {
        prompt.rotate_left(at % story.len());
        prompt[0] = *token;
    });
    let prompts = json!({"prompt": prompts, "max_tokens": 16, "stream": true});
    let repeated = |count: usize, request: Value| vec![request; count];
    vec![
        Abuser { name: "64 long replies", requests: repeated(64, endless(json!({}))) },
        Abuser {
            name: "8 blocks of 256",
            requests: repeated(8, endless(json!({"decode": "diffusion", "diffusion": block}))),
        },
        Abuser {
            name: "8 with 64 drafts",
            requests: repeated(8, endless(json!({"decode": "drafted", "draft": drafts}))),
        },
        Abuser {
            name: "8 with 64 looked up",
            requests: repeated(8, endless(json!({"decode": "lookup", "draft": drafts}))),
        },
        Abuser { name: "256 long prompts", requests: vec![prompts] },
    ]
}

/// Returns the times beside one kind of abuser, or `None` if the server rejects what it asks for.
async fn beside_one(client: &Client, abuser: &Client, kind: &Abuser) -> Result<Option<Vec<f64>>> {
    let mut open = JoinSet::new();
    for request in &kind.requests {
        let (abuser, request) = (abuser.clone(), request.clone());
        open.spawn(async move {
            let mut events = abuser.stream::<Value>("/v1/completions", &request).await?;
            while events.next().await?.is_some() {}
            Ok::<_, wf_api::http::Error>(())
        });
    }
    let began = tokio::time::Instant::now();
    let is_running = async || ServerCounts::of(client).await.is_some_and(|now| now.running > 0);
    while !is_running().await {
        if let Some(Ok(Err(error))) = open.try_join_next()
            && error.status() == Some(400)
        {
            open.shutdown().await;
            return Ok(None);
        }
        ensure!(began.elapsed() < BEGIN_WITHIN, "{}: nothing runs", kind.name);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let times = probes(client).await;
    open.shutdown().await;
    wait_until_idle(client).await?;
    times.map(Some)
}

async fn probes(client: &Client) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        times.push(probe(client).await?);
    }
    Ok(times)
}

/// Returns the time to the first token of a short request, in milliseconds.
async fn probe(client: &Client) -> Result<f64> {
    let spec = RequestSpec::ids((1..=PROBE_TOKENS as TokenId).collect(), PROBE_TOKENS as u32);
    let timed = request::respond(client, &spec, true).await;
    let timed = timed.map_err(|failure| anyhow!("a short request failed: {failure}"))?;
    timed.first_token_ms().ok_or_else(|| anyhow!("a response has no tokens"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abusers_ask_for_what_fits_the_context() {
        let story: Vec<TokenId> = (0..300).collect();
        let abusers = abusers(&story, 400);
        assert_eq!(abusers.len(), 5);
        let prompts = abusers[4].requests[0]["prompt"].as_array().unwrap();
        assert_eq!((prompts.len(), prompts[0].as_array().unwrap().len()), (256, 300));
        let distinct: std::collections::HashSet<String> =
            prompts.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), 256);
        assert!(abusers[..4].iter().all(|kind| kind.requests[0]["max_tokens"] == 200));
    }
}
