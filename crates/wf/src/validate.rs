//! `wf validate`: what an operator wants to know of a running server before others use it.
//!
//! Each check says in one line what was seen. None needs anything but the server's address.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::Args as ClapArgs;
use serde::Serialize;
use tokio::task::JoinSet;
use wf_client::http::Client;
use wf_client::wire::{CompletionRequest, ModelCard, Prompt, Sampling};

use crate::bench::random::Random;
use crate::load::args::ServerArgs;
use crate::load::ask::{Ask, Input};
use crate::load::counts::ServerCounts;
use crate::load::{self, compare, drive, mix, prefix};
use crate::report;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Checks that the server is ready, that a prompt that begins like an earlier one is not computed
again, that a prompt beyond the context is refused with figures and the longest one is not, that
requests at once all succeed with the replies they get alone, and that a request whose client hangs
up gives its memory back. Takes seconds with a small model. Exit code 1 if any check fails.

Examples:
  wf validate                               the server on this machine
  wf validate --url http://127.0.0.1:8080 --json"
)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Requests at once
    #[arg(long, env = "WF_CONCURRENCY", value_name = "N", default_value = "16",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: u16,

    /// Print one JSON object: url, model, checks
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

/// Tokens of the common beginning, where the context has room for it.
const PREFIX_TOKENS: usize = 1500;

/// Tokens of a prompt that may have to be computed again though the cache has them: the rest of a
/// page, and the last token, whose scores are wanted.
const NOT_CACHED: usize = 64;

/// Tokens of each of the replies at once.
const REPLY_TOKENS: u32 = 24;

/// A cancelled request's memory has to be free this soon.
const FREE_WITHIN: Duration = Duration::from_millis(1000);

/// What was found so far.
#[derive(Serialize)]
struct Validation<'a> {
    url: &'a str,
    model: &'a str,
    checks: Vec<Check>,
    /// Whether each check is printed as it is made.
    #[serde(skip)]
    tells: bool,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    passed: bool,
    /// What was seen.
    seen: String,
}

impl Validation<'_> {
    fn add(&mut self, name: &'static str, seen: Result<String>) -> Result<()> {
        let passed = seen.is_ok();
        let seen = seen.unwrap_or_else(|error| report::explain(&error));
        if self.tells {
            let verdict = if passed { "ok    " } else { "FAILED" };
            report::stream(&format!("{verdict}  {name:13}  {seen}\n"))?;
        }
        self.checks.push(Check { name, passed, seen });
        Ok(())
    }
}

pub(crate) fn validate(args: &ValidateArgs) -> Result<()> {
    load::runtime()?.block_on(validate_server(args))
}

async fn validate_server(args: &ValidateArgs) -> Result<()> {
    let client = args.server.client()?;
    let card = load::served_model(&client).await?;
    let (url, model) = (&args.server.url, &card.id);
    let mut found = Validation { url, model, checks: Vec::new(), tells: !args.json };
    if found.tells {
        report::stream(&format!("{url}, model {model}\n"))?;
    }
    found.add("ready", ready(&client, &card).await)?;
    found.add("prefix cache", prefix_caching(&client, &card).await)?;
    found.add("context limit", context_limit(&client, &card).await)?;
    found.add("at once", at_once(&client, &card, args.concurrency).await)?;
    found.add("cancelling", cancelling(&client, &card).await)?;
    if args.json {
        report::json(&found)?;
    }
    let failed = found.checks.iter().filter(|check| !check.passed).count();
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {} checks failed", found.checks.len()),
    }
}

async fn ready(client: &Client, model: &ModelCard) -> Result<String> {
    let start = Instant::now();
    let health: serde_json::Value = client.get_json("/health").await?;
    let status = health["status"].as_str().unwrap_or("nothing");
    let ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(format!("/health says {status} in {ms:.1} ms; a context of {}", model.max_model_len))
}

/// A second prompt with the same beginning is read sooner, and answered the same.
async fn prefix_caching(client: &Client, model: &ModelCard) -> Result<String> {
    let tokens = PREFIX_TOKENS.min(model.max_model_len / 4 * 3);
    let found = prefix::measure(client, tokens).await?;
    let seen = format!(
        "{} of {tokens} tokens in common came from the cache, the first token after {:.1} ms and not {:.1}",
        found.cached_tokens, found.second_ms, found.first_ms
    );
    if let Some(difference) = found.difference {
        bail!("the reply differs with a warm cache: {difference:?}");
    }
    if (found.cached_tokens as usize) < tokens.saturating_sub(NOT_CACHED) {
        bail!("too few: {seen}");
    }
    if found.second_ms >= found.first_ms {
        bail!("no sooner: {seen}");
    }
    Ok(seen)
}

/// The longest prompt that fits is answered; one token more is refused, and the message has both
/// figures.
async fn context_limit(client: &Client, model: &ModelCard) -> Result<String> {
    let limit = model.max_model_len;
    let mut ids = prefix::story_ids(client, limit + 1).await?;
    let request = |ids: &[u32]| CompletionRequest {
        prompt: Some(Prompt::Ids(ids.to_vec())),
        sampling: Sampling { max_tokens: Some(1), temperature: Some(0.0), ..Sampling::default() },
        ..CompletionRequest::default()
    };
    let refused = match client.complete(&request(&ids)).await {
        Ok(_) => bail!("a prompt of {} tokens was taken, {limit} are allowed", ids.len()),
        Err(error) => error,
    };
    let message = refused.to_string();
    if refused.status() != Some(400) {
        bail!("a prompt of {} tokens was not refused with 400: {message}", ids.len());
    }
    for figure in [ids.len(), limit] {
        if !message.contains(&figure.to_string()) {
            bail!("the refusal does not say {figure}: {message}");
        }
    }
    ids.truncate(limit - 1);
    client.complete(&request(&ids)).await?;
    Ok(format!("{} tokens are answered; of {} it says: {message}", limit - 1, limit + 1))
}

/// Requests at once all succeed, and each gets the reply it gets alone.
async fn at_once(client: &Client, model: &ModelCard, count: u16) -> Result<String> {
    let words = (model.max_model_len / 8).clamp(4, 48);
    let asks: Vec<Ask> = (0..count)
        .map(|number| {
            let mut random = Random::new(7, u64::from(number));
            let text = mix::story(&mut random, words);
            let seed = (number % 2 == 1).then_some(i64::from(number));
            let max_tokens = REPLY_TOKENS;
            Ask { input: Input::Text(text), max_tokens, seed, logprobs: true, cache_salt: None }
        })
        .collect();
    let start = Instant::now();
    let mut alone = Vec::new();
    for ask in &asks {
        let heard = drive::reply_to(client, ask).await;
        alone.push(heard.map_err(|failure| anyhow!("sent alone: {failure}"))?);
    }
    let alone_time = start.elapsed();
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (number, ask) in asks.into_iter().enumerate() {
        let client = client.clone();
        tasks.spawn(async move { (number, drive::reply_to(&client, &ask).await) });
    }
    let replies = tasks.join_all().await;
    let together_time = start.elapsed();
    for (number, heard) in replies {
        let heard = heard.map_err(|failure| anyhow!("request {number} of {count}: {failure}"))?;
        if let Some(difference) = compare::difference(&alone[number].reply, &heard.reply) {
            bail!("request {number} of {count} differs from the same alone: {difference:?}");
        }
    }
    let times = alone_time.as_secs_f64() / together_time.as_secs_f64();
    Ok(format!("{count} of {count} equal the same alone, bit for bit, {times:.1} times as fast"))
}

/// A request whose client hangs up gives its pages back.
async fn cancelling(client: &Client, model: &ModelCard) -> Result<String> {
    let no_metrics = || anyhow!("/metrics is needed to see it");
    // The last replies may hold their pages for one step more; what stays held is others'.
    let (before, _) = load::rest(client).await?;
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
    let hung_up = Instant::now();
    if during.pages_in_use <= before.pages_in_use {
        bail!("no more pages in use while a request ran: {} before", before.pages_in_use);
    }
    loop {
        let now = ServerCounts::of(client).await.ok_or_else(no_metrics)?;
        if now.pages_in_use <= before.pages_in_use && now.running <= before.running {
            let ms = hung_up.elapsed().as_secs_f64() * 1e3;
            let held = during.pages_in_use - before.pages_in_use;
            return Ok(format!("{held} pages were free again {ms:.0} ms after hanging up"));
        }
        if hung_up.elapsed() > FREE_WITHIN {
            let (pages, ms) = (now.pages_in_use, FREE_WITHIN.as_millis());
            bail!("{pages} pages still in use {ms} ms after hanging up");
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
