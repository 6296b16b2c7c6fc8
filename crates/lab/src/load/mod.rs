//! Load tests of a running server: many clients at once, each response compared with that of the
//! same request sent alone.
//!
//! `workload` makes the requests, `plan` schedules them and their faults, `drive` sends them,
//! `request` and `response` assemble responses, `compare` and `counts` check them, `report` has the
//! results.

mod args;
pub(crate) mod compare;
pub(crate) mod counts;
mod drive;
pub(crate) mod fairness;
mod plan;
mod plot;
pub(crate) mod prefix;
mod report;
pub(crate) mod request;
mod response;
pub(crate) mod workload;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::sync::Barrier;
use wf_api::http::{Client, Timeouts};
use wf_api::wire::{ModelCard, ModelList};

pub use self::args::{LoadArgs, ServerArgs};
pub use self::compare::Difference;
use self::counts::{Counts, ServerCounts};
use self::drive::{Driver, Ending, Outcome};
pub use self::fairness::FairnessReport;
use self::plan::Job;
pub use self::prefix::PrefixReport;
pub use self::report::Report;
use self::report::{Check, FirstDifference, Quantiles, ServerSide};
use self::request::{RequestSpec, TimedResponse};
use crate::progress;

/// A server must be idle this soon after its last response.
const IDLE_WITHIN: Duration = Duration::from_secs(5);

/// Maximum number of failures that are reported.
const MAX_FAILURES: usize = 5;

/// Number of parts of the run that tokens per second are reported for.
const TIMELINE_PARTS: usize = 60;

/// Runs a load test, with `prompts` instead of generated ones if given.
pub fn run(args: &LoadArgs, prompts: Option<&[String]>) -> Result<Report> {
    runtime()?.block_on(run_on(args, &args.server.client()?, prompts))
}

/// Measures the speedup of the prefix cache with a shared prefix of `tokens` tokens.
pub fn measure_prefix(args: &LoadArgs, tokens: usize) -> Result<PrefixReport> {
    runtime()?.block_on(prefix::measure(&args.server.client()?, tokens))
}

/// Measures how long short requests wait beside callers that ask for as much as they can.
pub fn measure_fairness(args: &LoadArgs) -> Result<FairnessReport> {
    let client = args.server.client()?;
    let abuser = match &args.abuser_key {
        Some(key) => client.clone().with_api_key(key)?,
        None => client.clone(),
    };
    runtime()?.block_on(fairness::measure(&client, &abuser))
}

/// One thread suffices: it is the server that computes.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

impl ServerArgs {
    pub(crate) fn client(&self) -> Result<Client> {
        let client = Client::new(&self.url)?.trusting(self.ca_cert.as_deref())?;
        let response = self.timeout();
        let client = client.with_timeouts(Timeouts { response, ..Timeouts::default() });
        match &self.api_key {
            Some(key) => Ok(client.with_api_key(key)?),
            None => Ok(client),
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }
}

/// Returns the first model of a server.
pub(crate) async fn served_model(client: &Client) -> Result<ModelCard> {
    let list: ModelList = client.get_json("/v1/models").await?;
    list.data.into_iter().next().context("the server has no model")
}

async fn run_on(args: &LoadArgs, client: &Client, prompts: Option<&[String]>) -> Result<Report> {
    let model = served_model(client).await?;
    let specs = workload::specs(&args.workload, prompts, model.max_model_len);
    let before = if args.shared { None } else { ServerCounts::of(client).await };
    let start = Instant::now();
    let alone = match args.check {
        true => send_alone(client, &specs).await?,
        false => Vec::new(),
    };
    let alone_seconds = start.elapsed().as_secs_f64();

    let jobs = plan::jobs(args, &specs);
    let start = Instant::now();
    let driver = Driver {
        client: client.clone(),
        specs: specs.clone(),
        jobs: jobs.clone(),
        gate: args.hold.map(Barrier::new),
        timeout: args.server.timeout(),
        progress: progress::bar(jobs.len(), "load"),
    };
    let concurrency = args.rate.is_none().then(|| args.hold.unwrap_or(args.concurrency));
    let mut health = Vec::new();
    let outcomes = tokio::select! {
        outcomes = driver.run(concurrency) => outcomes,
        never = drive::probe_health(client, &mut health) => match never {},
    };

    let complete = outcomes.iter().filter(|outcome| outcome.ending == Ending::Complete);
    let complete: Vec<&TimedResponse> = complete.map(|outcome| &outcome.timed).collect();
    let mut received = Counts::default();
    complete.iter().for_each(|timed| received.add(&timed.response));
    let seconds = start.elapsed().as_secs_f64();
    let mut report = Report {
        url: args.server.url.clone(),
        model: model.id,
        requests: jobs.len(),
        concurrency,
        rate: args.rate,
        held: args.hold,
        seconds,
        prompt_tokens: received.prompt_tokens,
        cached_tokens: received.cached_tokens,
        reply_tokens: received.generation_tokens,
        tok_s: received.generation_tokens as f64 / seconds,
        requests_s: complete.len() as f64 / seconds,
        health_ms: Quantiles::of(&mut health),
        ..Report::default()
    };
    if let Some(before) = before {
        alone.iter().for_each(|timed| received.add(&timed.response));
        let incomplete = (outcomes.len() - complete.len()) as u64;
        let (now, idle) = wait_until_idle(client).await?;
        let counted = now.since(&before);
        report.server = Some(ServerSide {
            disagreements: received.mismatches(&counted.done, incomplete),
            quiet_ms: idle.map(|time| time.as_secs_f64() * 1e3),
            unfinished: incomplete,
            counted,
            seen: received,
        });
    }
    add_outcomes(&mut report, &outcomes);
    if args.check {
        let check = compare_all(&specs, &jobs, &alone, &outcomes);
        report.check = Some(Check { alone_seconds, ..check });
    }
    add_times(&mut report, &complete, start);
    Ok(report)
}

/// Sends each request by itself.
async fn send_alone(client: &Client, specs: &[RequestSpec]) -> Result<Vec<TimedResponse>> {
    let progress = progress::bar(specs.len(), "alone");
    let mut alone = Vec::with_capacity(specs.len());
    for (number, spec) in specs.iter().enumerate() {
        let timed = request::respond(client, spec, false).await;
        alone.push(timed.map_err(|failure| anyhow!("request {number}, sent alone: {failure}"))?);
        progress.inc(1);
    }
    Ok(alone)
}

/// Waits until no request is running and no page is in use. Returns the server's counts and the time
/// it took, or `None` if it took too long.
pub(crate) async fn wait_until_idle(client: &Client) -> Result<(ServerCounts, Option<Duration>)> {
    let start = Instant::now();
    loop {
        let now = ServerCounts::of(client).await.context("/metrics is no longer available")?;
        if now.is_idle() {
            return Ok((now, Some(start.elapsed())));
        }
        if start.elapsed() > IDLE_WITHIN {
            return Ok((now, None));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn add_outcomes(report: &mut Report, outcomes: &[Outcome]) {
    for outcome in outcomes {
        report.refused_429 += outcome.retries;
        match &outcome.ending {
            Ending::Complete => report.ok += 1,
            Ending::Disconnected => report.hung_up += 1,
            Ending::ClosedWhileSlow(after) => {
                report.closed_while_slow += 1;
                let after = after.as_secs_f64();
                let (first, last) = report.closed_after_s.unwrap_or((after, after));
                report.closed_after_s = Some((first.min(after), last.max(after)));
            }
            Ending::Failed(message) => {
                report.failed += 1;
                if report.failures.len() < MAX_FAILURES {
                    report.failures.push(format!("request {}: {message}", outcome.job));
                }
            }
        }
    }
}

/// Compares each response with that of the same request sent alone.
fn compare_all(
    specs: &[RequestSpec],
    jobs: &[Job],
    alone: &[TimedResponse],
    outcomes: &[Outcome],
) -> Check {
    let mut check = Check { prompts: specs.len(), ..Check::default() };
    for outcome in outcomes {
        let job = &jobs[outcome.job];
        let (alone, found) = (&alone[job.spec].response, &outcome.timed.response);
        let is_complete = outcome.ending == Ending::Complete;
        let difference = if is_complete {
            compare::difference(alone, found)
        } else {
            compare::difference_of_prefix(alone, found)
        };
        match difference {
            None if is_complete => check.equal += 1,
            None => check.equal_beginnings += 1,
            Some(difference) => {
                check.different += 1;
                let spec = format!("{:?}", specs[job.spec]);
                let (request, streamed) = (outcome.job, job.streamed);
                let first = FirstDifference { request, streamed, spec, difference };
                check.first_difference.get_or_insert(first);
            }
        }
    }
    check
}

/// Adds latencies and throughput of the complete responses.
fn add_times(report: &mut Report, complete: &[&TimedResponse], start: Instant) {
    report.first_token_times = complete.iter().filter_map(|t| t.first_token_ms()).collect();
    report.between_tokens_times = complete.iter().flat_map(|t| t.between_tokens_ms()).collect();
    let mut total: Vec<f64> =
        complete.iter().map(|t| (t.ended - t.sent).as_secs_f64() * 1e3).collect();
    report.first_token_ms = Quantiles::of(&mut report.first_token_times);
    report.between_tokens_ms = Quantiles::of(&mut report.between_tokens_times);
    report.whole_ms = Quantiles::of(&mut total);

    let part = report.seconds / TIMELINE_PARTS as f64;
    report.streamed_tok_s = vec![0.0; TIMELINE_PARTS];
    for &(at, tokens) in complete.iter().flat_map(|timed| &timed.arrivals) {
        let index = (at - start).as_secs_f64() / part;
        report.streamed_tok_s[(index as usize).min(TIMELINE_PARTS - 1)] += tokens as f64 / part;
    }
}
