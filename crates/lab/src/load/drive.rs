//! Sends the requests of a plan, with a given concurrency or rate.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;
use wf_api::http::Client;

use super::plan::{Fault, Job};
use super::request::{self, RequestSpec, TimedResponse};
use super::response::Failure;

/// Delay before a retry if the server does not give one.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// A server must keep the connection of a slow client open for at least this long.
const MIN_PATIENCE: Duration = Duration::from_secs(9);

#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) job: usize,
    pub(super) timed: TimedResponse,
    pub(super) ending: Ending,
    /// Number of times it was rejected with 429 before.
    pub(super) retries: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// The complete response was received.
    Complete,
    /// The client disconnected, as planned.
    Disconnected,
    /// The server closed the connection of a deliberately slow client, after this long.
    ClosedWhileSlow(Duration),
    Failed(String),
}

/// Sends the requests of a plan to a server.
pub(super) struct Driver {
    pub(super) client: Client,
    pub(super) specs: Vec<RequestSpec>,
    pub(super) jobs: Vec<Job>,
    /// Barrier at which open streams wait for each other.
    pub(super) gate: Option<Barrier>,
    /// Maximum duration of a request, retries included.
    pub(super) timeout: Duration,
    pub(super) progress: ProgressBar,
}

impl Driver {
    /// Sends all requests, each at its planned time, and at most `concurrency` at a time. Returns the
    /// outcomes in the order of the plan.
    pub(super) async fn run(self, concurrency: Option<usize>) -> Vec<Outcome> {
        let driver = Arc::new(self);
        // Permits are given out in the order of the plan.
        let permits = Arc::new(Semaphore::new(concurrency.unwrap_or(Semaphore::MAX_PERMITS)));
        let start = tokio::time::Instant::now();
        let mut tasks = JoinSet::new();
        for job in 0..driver.jobs.len() {
            let (driver, permits) = (Arc::clone(&driver), Arc::clone(&permits));
            tasks.spawn(async move {
                tokio::time::sleep_until(start + driver.jobs[job].at).await;
                let _permit = permits.acquire().await;
                driver.send(job).await
            });
        }
        let mut outcomes = tasks.join_all().await;
        outcomes.sort_by_key(|outcome| outcome.job);
        outcomes
    }

    async fn send(&self, number: usize) -> Outcome {
        let job = &self.jobs[number];
        let client = self.client.clone().with_faults(job.fault.faults());
        let mut timed = TimedResponse::new();
        let mut retries = 0;
        let began = Instant::now();
        let sending = self.send_with_retries(&client, job, &mut timed, &mut retries);
        let timeout = match job.fault {
            Fault::DisconnectAfter(time) => time,
            _ => self.timeout,
        };
        let ending = match tokio::time::timeout(timeout, sending).await {
            Ok(Ok(())) => Ending::Complete,
            // A faulty client that runs out of time disconnects.
            Err(_) if job.fault != Fault::None => Ending::Disconnected,
            Err(_) => {
                Ending::Failed(format!("no complete response within {} s", timeout.as_secs_f64()))
            }
            Ok(Err(Failure::Http(_))) if job.fault.disconnects() => Ending::Disconnected,
            Ok(Err(Failure::Http(_))) if job.fault.is_slow() && began.elapsed() >= MIN_PATIENCE => {
                Ending::ClosedWhileSlow(began.elapsed())
            }
            Ok(Err(failure)) => Ending::Failed(failure.to_string()),
        };
        self.progress.inc(1);
        Outcome { job: number, timed, ending, retries }
    }

    async fn send_with_retries(
        &self,
        client: &Client,
        job: &Job,
        timed: &mut TimedResponse,
        retries: &mut usize,
    ) -> Result<(), Failure> {
        let (spec, gate) = (&self.specs[job.spec], self.gate.as_ref());
        loop {
            match request::send(client, spec, job.streamed, gate, timed).await {
                Err(Failure::Http(error)) if request::is_busy(&error) => {
                    *retries += 1;
                    tokio::time::sleep(error.retry_after().unwrap_or(RETRY_AFTER)).await;
                }
                result => return result,
            }
        }
    }
}

/// Requests `/health` ten times a second, and appends each latency in milliseconds.
pub(super) async fn probe_health(client: &Client, latencies: &mut Vec<f64>) -> Infallible {
    let mut interval = tokio::time::interval(Duration::from_millis(100));
    loop {
        interval.tick().await;
        let start = Instant::now();
        if client.get_text("/health").await.is_ok() {
            latencies.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
}
