//! `wf load`: many clients at once, each reply held against the one it would be alone.
//!
//! The path: `mix` says what is asked, `plan` when and with what trouble, `drive` sends it, `ask` and
//! `reply` put a reply together, `compare` and `counts` hold it against the truth, `report` tells.

pub(crate) mod args;
pub(crate) mod ask;
pub(crate) mod compare;
pub(crate) mod counts;
pub(crate) mod drive;
pub(crate) mod mix;
mod plan;
mod plot;
pub(crate) mod prefix;
mod reply;
mod report;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tokio::sync::Barrier;
use wf_client::http::{Client, Timeouts};
use wf_client::wire::{ModelCard, ModelList};

use args::{LoadArgs, ServerArgs};
use ask::{Ask, Heard};
use counts::{OurCounts, ServerCounts};
use drive::{Drive, Ended, HealthProbe, Outcome};
use plan::Job;
use report::{Check, FirstDifference, Quantiles, Report, ServerSide};

use crate::report as print;
use crate::report::UsageError;

/// A server has to be at rest this soon after its last reply.
const REST: Duration = Duration::from_secs(5);

/// Failures that are told in full.
const TOLD_FAILURES: usize = 5;

/// Parts that tokens a second are told for.
const TIMELINE_PARTS: usize = 60;

pub(crate) fn load(args: &LoadArgs) -> Result<()> {
    if args.trouble.share() > 1.0 {
        return Err(UsageError::new("the shares of trouble add up to more than 1").into());
    }
    runtime()?.block_on(async {
        let client = args.server.client()?;
        match args.prefix {
            Some(tokens) => measure_prefix(&client, tokens, args.json).await,
            None => run(args, &client).await,
        }
    })
}

/// One thread is enough to ask: it is the server that computes.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

impl ServerArgs {
    pub(crate) fn client(&self) -> Result<Client> {
        let client = Client::new(&self.url)?;
        let answer = self.patience();
        let client = client.with_timeouts(Timeouts { answer, ..Timeouts::default() });
        match &self.api_key {
            Some(key) => Ok(client.with_api_key(key)?),
            None => Ok(client),
        }
    }

    /// The longest a request may take.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }
}

/// The model that a server serves.
pub(crate) async fn served_model(client: &Client) -> Result<ModelCard> {
    let list: ModelList = client.get_json("/v1/models").await?;
    list.data.into_iter().next().context("the server has no model")
}

async fn measure_prefix(client: &Client, tokens: usize, json: bool) -> Result<()> {
    let found = prefix::measure(client, tokens).await?;
    if json {
        print::json(&found)?;
    } else {
        let faster = found.first_ms / found.second_ms;
        print::table(&[
            (
                "prefix",
                format!("{tokens} tokens in common, {} of them cached", found.cached_tokens),
            ),
            ("first token", format!("{:.1} ms with an empty cache", found.first_ms)),
            ("", format!("{:.1} ms after the prefix: {faster:.1} times sooner", found.second_ms)),
        ])?;
    }
    match found.difference {
        None => Ok(()),
        Some(difference) => bail!("the replies differ: {difference:?}"),
    }
}

async fn run(args: &LoadArgs, client: &Client) -> Result<()> {
    let model = served_model(client).await?;
    let asks = mix::asks(&args.mix, model.max_model_len)?;
    let before = if args.shared { None } else { ServerCounts::of(client).await };
    if !args.shared && before.is_none() {
        print::note("the server has no /metrics to compare with");
    }
    let mut seen = OurCounts::default();
    let start = Instant::now();
    let alone = match args.check {
        true => ask_alone(client, &asks).await?,
        false => Vec::new(),
    };
    let alone_seconds = start.elapsed().as_secs_f64();
    alone.iter().for_each(|heard| seen.add(&heard.reply));

    let jobs = plan::jobs(args, &asks);
    let health = HealthProbe::start(client.clone());
    let start = Instant::now();
    let drive = Drive {
        client: client.clone(),
        asks: asks.clone(),
        jobs: jobs.clone(),
        gate: args.hold.map(Barrier::new),
        patience: args.server.patience(),
        progress: drive::progress(jobs.len(), "load"),
    };
    let concurrency = args.rate.is_none().then(|| args.hold.unwrap_or(args.concurrency));
    let outcomes = drive.run(concurrency).await;
    let whole = outcomes.iter().filter(|outcome| outcome.ended == Ended::Whole);
    whole.for_each(|outcome| seen.add(&outcome.heard.reply));

    let mut report = Report {
        url: args.server.url.clone(),
        model: model.id,
        requests: jobs.len(),
        concurrency,
        rate: args.rate,
        held: args.hold,
        seconds: start.elapsed().as_secs_f64(),
        health_ms: Quantiles::of(&mut health.stop()),
        ..Report::default()
    };
    if let Some(before) = before {
        let unfinished = outcomes.iter().filter(|outcome| outcome.ended != Ended::Whole).count();
        report.server = Some(ask_server(client, &before, seen, unfinished as u64).await?);
    }
    tell_outcomes(&mut report, &outcomes);
    if args.check {
        let mut check = compare_all(&asks, &jobs, &alone, &outcomes);
        check.alone_seconds = alone_seconds;
        report.check = Some(check);
    }
    let (first_token_ms, between_ms) = tell_times(&mut report, &outcomes, start);
    if let Some(path) = &args.plot {
        std::fs::write(path, plot::svg(&report, &first_token_ms, &between_ms))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    if args.json {
        print::json(&report)?
    } else {
        print::table(&report.rows())?
    }
    match report.verdict() {
        wrong if wrong.is_empty() => Ok(()),
        wrong => bail!("{}", wrong.join("; ")),
    }
}

/// Each request by itself.
async fn ask_alone(client: &Client, asks: &[Ask]) -> Result<Vec<Heard>> {
    let progress = drive::progress(asks.len(), "alone");
    let mut alone = Vec::with_capacity(asks.len());
    for (number, ask) in asks.iter().enumerate() {
        let heard = drive::reply_to(client, ask).await;
        let heard = heard.map_err(|failure| anyhow!("request {number}, sent alone: {failure}"))?;
        alone.push(heard);
        progress.inc(1);
    }
    Ok(alone)
}

/// Waits until the server is at rest, and asks what it counted.
async fn ask_server(
    client: &Client,
    before: &ServerCounts,
    seen: OurCounts,
    unfinished: u64,
) -> Result<ServerSide> {
    let (now, quiet) = rest(client).await?;
    let counted = now.since(before);
    let disagreements = seen.disagreements(&counted, unfinished);
    let quiet_ms = quiet.map(|time| time.as_secs_f64() * 1e3);
    Ok(ServerSide { counted, seen, unfinished, quiet_ms, disagreements })
}

/// What the server counts once nothing runs and no page is held, and how long that took; without a
/// time if it took too long.
pub(crate) async fn rest(client: &Client) -> Result<(ServerCounts, Option<Duration>)> {
    let start = Instant::now();
    loop {
        let now = ServerCounts::of(client).await.context("the server's /metrics are gone")?;
        if now.is_quiet() {
            return Ok((now, Some(start.elapsed())));
        }
        if start.elapsed() > REST {
            return Ok((now, None));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn tell_outcomes(report: &mut Report, outcomes: &[Outcome]) {
    for outcome in outcomes {
        report.refused_429 += outcome.refusals;
        match &outcome.ended {
            Ended::Whole => report.ok += 1,
            Ended::HungUp => report.hung_up += 1,
            Ended::ClosedWhileSlow(after) => {
                report.closed_while_slow += 1;
                let after = after.as_secs_f64();
                let (first, last) = report.closed_after_s.unwrap_or((after, after));
                report.closed_after_s = Some((first.min(after), last.max(after)));
            }
            Ended::Failed(message) => {
                report.failed += 1;
                if report.failures.len() < TOLD_FAILURES {
                    report.failures.push(format!("request {}: {message}", outcome.job));
                }
            }
        }
    }
}

/// Each reply beside the one that the same request got alone.
fn compare_all(asks: &[Ask], jobs: &[Job], alone: &[Heard], outcomes: &[Outcome]) -> Check {
    let mut check = Check { prompts: asks.len(), ..Check::default() };
    for outcome in outcomes {
        let job = &jobs[outcome.job];
        let (alone, found) = (&alone[job.ask].reply, &outcome.heard.reply);
        let is_whole = outcome.ended == Ended::Whole;
        let difference = if is_whole {
            compare::difference(alone, found)
        } else {
            compare::difference_of_beginning(alone, found)
        };
        match difference {
            None if is_whole => check.equal += 1,
            None => check.equal_beginnings += 1,
            Some(difference) => {
                check.different += 1;
                let ask = format!("{:?}", asks[job.ask]);
                let (request, streamed) = (outcome.job, job.streamed);
                let first = FirstDifference { request, streamed, ask, difference };
                check.first_difference.get_or_insert(first);
            }
        }
    }
    check
}

/// Fills in how long things took. Returns the times to first tokens and between tokens, sorted.
fn tell_times(report: &mut Report, outcomes: &[Outcome], start: Instant) -> (Vec<f64>, Vec<f64>) {
    let whole: Vec<&Heard> = outcomes
        .iter()
        .filter(|outcome| outcome.ended == Ended::Whole)
        .map(|outcome| &outcome.heard)
        .collect();
    let mut counted = OurCounts::default();
    whole.iter().for_each(|heard| counted.add(&heard.reply));
    report.prompt_tokens = counted.prompt_tokens;
    report.cached_tokens = counted.cached_tokens;
    report.reply_tokens = counted.generation_tokens;
    report.tok_s = counted.generation_tokens as f64 / report.seconds;
    report.requests_s = whole.len() as f64 / report.seconds;

    let mut first: Vec<f64> = whole.iter().filter_map(|heard| heard.first_token_ms()).collect();
    let mut between: Vec<f64> = whole.iter().flat_map(|heard| heard.between_tokens_ms()).collect();
    let mut total: Vec<f64> =
        whole.iter().map(|heard| (heard.ended - heard.sent).as_secs_f64() * 1e3).collect();
    report.first_token_ms = Quantiles::of(&mut first);
    report.between_tokens_ms = Quantiles::of(&mut between);
    report.whole_ms = Quantiles::of(&mut total);

    let part = report.seconds / TIMELINE_PARTS as f64;
    report.streamed_tok_s = vec![0.0; TIMELINE_PARTS];
    for &(at, tokens) in whole.iter().flat_map(|heard| &heard.arrivals) {
        let place = (at - start).as_secs_f64() / part;
        report.streamed_tok_s[(place as usize).min(TIMELINE_PARTS - 1)] += tokens as f64 / part;
    }
    (first, between)
}
