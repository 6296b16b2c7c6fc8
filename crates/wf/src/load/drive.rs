//! Sends the requests of a plan, as many at once or a second as asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use wf_client::http::Client;

use super::ask::{self, Ask, Failure, Heard};
use super::plan::{Job, Trouble};

/// A server that does not say when to come back is asked again after this.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// No server may give up on a slow client sooner than this.
const LEAST_PATIENCE: Duration = Duration::from_secs(9);

/// How a request of the load ended.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) job: usize,
    pub(super) heard: Heard,
    pub(super) ended: Ended,
    /// How often it was refused with 429 before.
    pub(super) refusals: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ended {
    /// The whole reply came.
    Whole,
    /// The client hung up, as planned.
    HungUp,
    /// The server closed the connection of a client that was slow on purpose, after this long.
    ClosedWhileSlow(Duration),
    Failed(String),
}

/// A plan and whom it is carried out on.
pub(super) struct Drive {
    pub(super) client: Client,
    pub(super) asks: Vec<Ask>,
    pub(super) jobs: Vec<Job>,
    /// Where streams wait for each other.
    pub(super) gate: Option<Barrier>,
    /// The longest a request may take, refusals and all.
    pub(super) patience: Duration,
    pub(super) progress: ProgressBar,
}

impl Drive {
    /// Sends all requests, `concurrency` at a time; without, each at its own moment. In the order of
    /// the plan, how they ended.
    pub(super) async fn run(self, concurrency: Option<usize>) -> Vec<Outcome> {
        let drive = Arc::new(self);
        let mut tasks = JoinSet::new();
        match concurrency {
            Some(concurrency) => {
                let next = Arc::new(AtomicUsize::new(0));
                for _ in 0..concurrency.min(drive.jobs.len()) {
                    let (drive, next) = (Arc::clone(&drive), Arc::clone(&next));
                    tasks.spawn(async move {
                        let mut outcomes = Vec::new();
                        loop {
                            let job = next.fetch_add(1, Ordering::Relaxed);
                            if job >= drive.jobs.len() {
                                return outcomes;
                            }
                            outcomes.push(drive.one(job).await);
                        }
                    });
                }
            }
            None => {
                let start = tokio::time::Instant::now();
                for job in 0..drive.jobs.len() {
                    let drive = Arc::clone(&drive);
                    tasks.spawn(async move {
                        tokio::time::sleep_until(start + drive.jobs[job].at).await;
                        vec![drive.one(job).await]
                    });
                }
            }
        }
        let mut outcomes: Vec<Outcome> = tasks.join_all().await.into_iter().flatten().collect();
        outcomes.sort_by_key(|outcome| outcome.job);
        outcomes
    }

    async fn one(&self, number: usize) -> Outcome {
        let job = &self.jobs[number];
        let client = self.client.clone().with_pace(job.trouble.pace());
        let mut heard = Heard::new();
        let mut refusals = 0;
        let began = Instant::now();
        let sending = self.patiently(&client, job, &mut heard, &mut refusals);
        let patience = match job.trouble {
            Trouble::HangUpAfter(time) => time,
            _ => self.patience,
        };
        let ended = match tokio::time::timeout(patience, sending).await {
            Ok(Ok(())) => Ended::Whole,
            // A slow client that has had enough has hung up.
            Err(_) if job.trouble != Trouble::None => Ended::HungUp,
            Err(_) => Ended::Failed(format!("no end within {} s", patience.as_secs_f64())),
            Ok(Err(Failure::Http(_))) if job.trouble.hangs_up() => Ended::HungUp,
            Ok(Err(Failure::Http(_)))
                if job.trouble.is_slow() && began.elapsed() >= LEAST_PATIENCE =>
            {
                Ended::ClosedWhileSlow(began.elapsed())
            }
            Ok(Err(failure)) => Ended::Failed(failure.to_string()),
        };
        self.progress.inc(1);
        Outcome { job: number, heard, ended, refusals }
    }

    /// Sends a request, again and again while the server has too much to do.
    async fn patiently(
        &self,
        client: &Client,
        job: &Job,
        heard: &mut Heard,
        refusals: &mut usize,
    ) -> Result<(), Failure> {
        let (ask, gate) = (&self.asks[job.ask], self.gate.as_ref());
        loop {
            match ask::send(client, ask, job.streamed, gate, heard).await {
                Err(Failure::Http(error)) if ask::is_busy(&error) => {
                    *refusals += 1;
                    tokio::time::sleep(error.retry_after().unwrap_or(RETRY_AFTER)).await;
                }
                result => return result,
            }
        }
    }
}

/// The reply to `ask`, not streamed.
pub(crate) async fn reply_to(client: &Client, ask: &Ask) -> Result<Heard, Failure> {
    let mut heard = Heard::new();
    ask::send(client, ask, false, None, &mut heard).await?;
    Ok(heard)
}

/// Shows how far it is, on a terminal.
pub(crate) fn progress(total: usize, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:7} {wide_bar} {pos}/{len}  {eta}");
    let bar = ProgressBar::new(total as u64).with_message(what);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Asks `/health` ten times a second for as long as it lives.
pub(super) struct HealthProbe {
    milliseconds: Arc<Mutex<Vec<f64>>>,
    task: tokio::task::JoinHandle<()>,
}

impl HealthProbe {
    pub(super) fn start(client: Client) -> Self {
        let milliseconds = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&milliseconds);
        let task = tokio::spawn(async move {
            let mut interval = tokio::time::interval(Duration::from_millis(100));
            loop {
                interval.tick().await;
                let start = Instant::now();
                if client.get_text("/health").await.is_ok() {
                    let ms = start.elapsed().as_secs_f64() * 1e3;
                    times.lock().unwrap_or_else(PoisonError::into_inner).push(ms);
                }
            }
        });
        Self { milliseconds, task }
    }

    /// Milliseconds that the answers took.
    pub(super) fn stop(self) -> Vec<f64> {
        self.task.abort();
        std::mem::take(&mut *self.milliseconds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
