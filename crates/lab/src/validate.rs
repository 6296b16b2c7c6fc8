//! Checks of a running server: what an operator verifies before others use it.
//!
//! Each check reports what it found in one line. None needs anything but the server's address.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use wf_api::http::Client;
use wf_api::wire::{CompletionRequest, ModelCard, Prompt, Sampling};
use wf_core::SamplingOverrides;

use crate::load::counts::ServerCounts;
use crate::load::request::{self, Input, RequestSpec};
use crate::load::{self, ServerArgs, compare, prefix, workload};
use crate::random::Random;

/// Options of the checks.
#[derive(Args)]
#[command(
    args_override_self = true,
    after_help = "\
Checks that the server is ready, that a shared prompt prefix is not computed again, that a prompt
longer than the context is rejected with a precise message and the longest one is not, that
concurrent requests succeed with the responses they get alone, and that a request whose client
disconnects frees its memory. Takes seconds with a small model. The exit code is 1 if a check fails.

Examples:
  wf validate                               the server on this machine
  wf validate --url http://127.0.0.1:8080 --json"
)]
pub struct ValidateArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// Number of concurrent requests
    #[arg(long, value_name = "N", default_value = "16",
          value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,

    /// Print a JSON object: url, model, checks
    #[arg(long)]
    pub json: bool,
}

/// Tokens of the shared prefix, if the context is large enough.
const PREFIX_TOKENS: usize = 1500;

/// Tokens of a cached prompt that may have to be computed again: the rest of a page, and the last
/// token, whose logits are needed.
const NOT_CACHED: usize = 64;

/// Maximum number of tokens of each concurrent request.
const MAX_TOKENS: u32 = 24;

/// Memory of a cancelled request must be free this soon.
const FREE_WITHIN: Duration = Duration::from_millis(1000);

/// The results of all checks.
#[derive(Serialize)]
pub struct Validation {
    url: String,
    model: String,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    passed: bool,
    /// One line about what was found.
    seen: String,
}

impl Validation {
    /// Returns the number of failed checks, and of all.
    pub fn failed(&self) -> (usize, usize) {
        (self.checks.iter().filter(|check| !check.passed).count(), self.checks.len())
    }
}

/// Checks a server. Calls `on_line` with a line of text at the start and after each check.
pub fn validate(
    args: &ValidateArgs,
    on_line: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<Validation> {
    load::runtime()?.block_on(validate_server(args, on_line))
}

async fn validate_server(
    args: &ValidateArgs,
    on_line: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<Validation> {
    let client = &args.server.client()?;
    let card = &load::served_model(client).await?;
    let (url, model) = (args.server.url.clone(), card.id.clone());
    on_line(&format!("{url}, model {model}\n"))?;
    let mut checks = Vec::new();
    let mut add = |name, result: Result<String>| -> Result<()> {
        let passed = result.is_ok();
        let seen = result.unwrap_or_else(|error| error.to_string());
        let verdict = if passed { "ok    " } else { "FAILED" };
        on_line(&format!("{verdict}  {name:13}  {seen}\n"))?;
        checks.push(Check { name, passed, seen });
        Ok(())
    };
    add("ready", check_ready(client, card).await)?;
    add("prefix cache", check_prefix_cache(client, card).await)?;
    add("context limit", check_context_limit(client, card).await)?;
    add("concurrency", check_concurrency(client, card, args.concurrency).await)?;
    add("cancellation", check_cancellation(client, card).await)?;
    Ok(Validation { url, model, checks })
}

async fn check_ready(client: &Client, model: &ModelCard) -> Result<String> {
    let start = Instant::now();
    let health: serde_json::Value = client.get_json("/health").await?;
    let status = health["status"].as_str().unwrap_or("no status");
    let ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(format!("/health returned {status} in {ms:.1} ms; context of {}", model.max_model_len))
}

/// A second prompt with the same prefix must be faster, and get the same response.
async fn check_prefix_cache(client: &Client, model: &ModelCard) -> Result<String> {
    let tokens = PREFIX_TOKENS.min(model.max_model_len / 4 * 3);
    let found = prefix::measure(client, tokens).await?;
    let seen = format!(
        "{} of {tokens} shared tokens cached, first token after {:.1} ms instead of {:.1} ms",
        found.cached_tokens, found.second_ms, found.first_ms
    );
    if let Some(difference) = found.difference {
        bail!("response differs with a warm cache: {difference:?}");
    }
    let cached = found.cached_tokens as usize;
    ensure!(cached >= tokens.saturating_sub(NOT_CACHED), "too few tokens cached: {seen}");
    ensure!(found.second_ms < found.first_ms, "not faster: {seen}");
    Ok(seen)
}

/// The longest prompt that fits must be answered; a longer one must be rejected with a message that
/// has its length and the limit.
async fn check_context_limit(client: &Client, model: &ModelCard) -> Result<String> {
    let limit = model.max_model_len;
    let mut ids = prefix::story_ids(client, limit + 1).await?;
    let greedy = SamplingOverrides { temperature: Some(0.0), ..SamplingOverrides::default() };
    let request = |ids: &[u32]| CompletionRequest {
        prompt: Some(Prompt::Ids(ids.to_vec())),
        params: greedy.clone(),
        sampling: Sampling { max_tokens: Some(1), ..Sampling::default() },
        ..CompletionRequest::default()
    };
    let tokens = ids.len();
    let Err(rejection) = client.complete(&request(&ids)).await else {
        bail!("a prompt of {tokens} tokens was accepted: the limit is {limit}");
    };
    let message = rejection.to_string();
    ensure!(
        rejection.status() == Some(400),
        "a prompt of {tokens} tokens was not rejected with 400: {message}"
    );
    for number in [tokens, limit] {
        let is_named = message.contains(&number.to_string());
        ensure!(is_named, "the error message does not contain {number}: {message}");
    }
    ids.truncate(limit - 1);
    client.complete(&request(&ids)).await?;
    Ok(format!("{} tokens accepted; {} tokens rejected: {message}", limit - 1, limit + 1))
}

/// Concurrent requests must all succeed, each with the response it gets alone.
async fn check_concurrency(client: &Client, model: &ModelCard, count: u16) -> Result<String> {
    let words = (model.max_model_len / 8).clamp(4, 48);
    let specs: Vec<RequestSpec> = (0..count)
        .map(|number| {
            let mut random = Random::new(7, u64::from(number));
            let input = Input::Completion(Prompt::Text(workload::story(&mut random, words)));
            let seed = (number % 2 == 1).then_some(i64::from(number));
            RequestSpec { input, max_tokens: MAX_TOKENS, seed, logprobs: true, cache_salt: None }
        })
        .collect();
    let start = Instant::now();
    let mut alone = Vec::new();
    for spec in &specs {
        let timed = request::respond(client, spec, false).await;
        alone.push(timed.map_err(|failure| anyhow!("sent alone: {failure}"))?);
    }
    let alone_time = start.elapsed();
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (number, spec) in specs.into_iter().enumerate() {
        let client = client.clone();
        tasks.spawn(async move { (number, request::respond(&client, &spec, false).await) });
    }
    let responses = tasks.join_all().await;
    let together_time = start.elapsed();
    for (number, timed) in responses {
        let timed = timed.map_err(|failure| anyhow!("request {number} of {count}: {failure}"))?;
        if let Some(difference) = compare::difference(&alone[number].response, &timed.response) {
            bail!("request {number} of {count} differs from the same alone: {difference:?}");
        }
    }
    let speedup = alone_time.as_secs_f64() / together_time.as_secs_f64();
    Ok(format!(
        "{count} of {count} responses equal those sent alone, bit for bit, {speedup:.1} times as fast"
    ))
}

/// A request whose client disconnects must free its pages.
async fn check_cancellation(client: &Client, model: &ModelCard) -> Result<String> {
    let no_metrics = || anyhow!("requires /metrics, which the server does not have");
    // The last responses may hold their pages for another step; the rest belongs to other clients.
    let (before, _) = load::wait_until_idle(client).await?;
    let ids = prefix::story_ids(client, model.max_model_len / 4).await?;
    let request = CompletionRequest {
        prompt: Some(Prompt::Ids(ids)),
        sampling: Sampling {
            max_tokens: Some(model.max_model_len as u32 / 2),
            ignore_eos: Some(true),
            ..Sampling::default()
        },
        ..CompletionRequest::default()
    };
    let mut events = client.complete_stream(&request).await?;
    events.next().await?;
    let during = ServerCounts::of(client).await.ok_or_else(no_metrics)?;
    drop(events);
    let disconnected = Instant::now();
    if during.pages_in_use <= before.pages_in_use {
        bail!("no more pages in use while a request ran than the {} before", before.pages_in_use);
    }
    loop {
        let now = ServerCounts::of(client).await.ok_or_else(no_metrics)?;
        if now.pages_in_use <= before.pages_in_use && now.running <= before.running {
            let ms = disconnected.elapsed().as_secs_f64() * 1e3;
            let held = during.pages_in_use - before.pages_in_use;
            return Ok(format!("{held} pages freed {ms:.0} ms after the client disconnected"));
        }
        if disconnected.elapsed() > FREE_WITHIN {
            let (pages, ms) = (now.pages_in_use, FREE_WITHIN.as_millis());
            bail!("{pages} pages still in use {ms} ms after the client disconnected");
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
