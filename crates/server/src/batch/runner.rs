//! Runs the batches that callers of a server have created.
//!
//! One batch of each caller runs at a time, with less urgency than requests that arrive over the network. A batch
//! that is interrupted by the end of the process continues at the next start: requests that have a result are not
//! sent again.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use axum::Router;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet, spawn_blocking};
use tokio::time::{interval, sleep};
use wf_api::wire::{Batch, BatchErrors, BatchProblem, BatchStatus, RequestCounts};

use super::{
    Answer, BatchFileError, BatchInput, BatchLine, BatchResult, BatchResults, Caller, ENDPOINTS,
    InputLimits, LocalCaller, ResultSummary, run_batch,
};
use crate::access::Background;
use crate::app::{App, is_on, now};
use crate::store::{BatchRecord, FileStore, NewFile, Owner, StoreError, Stored, Upload};

/// Interval of looking for a model, and for files whose time is over.
const LOADING_PAUSE: Duration = Duration::from_millis(100);
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// First and longest pause before a request that was turned away is sent again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Length of a line around the body of a request.
const LINE_OVERHEAD: usize = 4096;

/// Runs batches until `stop` is true. Requests in flight are cancelled then, and have no result.
pub(crate) async fn run(app: App, router: Router, mut stop: watch::Receiver<bool>) {
    let Some(store) = app.options.files.clone() else { return };
    let runner = Runner { app, router, store };
    tokio::select! {
        () = runner.run() => {}
        () = is_on(&mut stop) => {}
    }
}

#[derive(Clone)]
struct Runner {
    app: App,
    router: Router,
    store: FileStore,
}

/// The end of a batch.
enum Ending {
    Completed,
    Cancelled,
    Expired,
    Failed(BatchProblem),
}

/// An error that ends a batch.
enum Failure {
    Server(String),
    File(BatchFileError),
    Store(StoreError),
}

impl Runner {
    async fn run(self) {
        while self.app.models().is_err() {
            sleep(LOADING_PAUSE).await;
        }
        let mut changes = self.store.changes();
        let mut purge = interval(PURGE_INTERVAL);
        let mut tasks = JoinSet::new();
        let mut running: HashMap<Id, Stored<BatchRecord>> = HashMap::new();
        loop {
            for batch in self.store.open_batches() {
                if may_start(&batch, running.values()) {
                    let task = tasks.spawn(self.clone().run_one(batch.clone()));
                    running.insert(task.id(), batch);
                }
            }
            tokio::select! {
                Some(ended) = tasks.join_next_with_id() => {
                    let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, ())| *id);
                    let batch = running.remove(&id);
                    if let (Err(_), Some(batch)) = (ended, batch) {
                        // A panic of one batch must not run it again and again.
                        self.end(&batch, Ending::Failed(problem("internal_error", "internal error"))).await;
                    }
                }
                _ = changes.changed() => {}
                _ = purge.tick() => {
                    let store = self.store.clone();
                    let _ = spawn_blocking(move || store.purge(now())).await;
                }
            }
        }
    }

    async fn run_one(self, batch: Stored<BatchRecord>) {
        let ending = match self.send_requests(&batch).await {
            Ok(ending) => ending,
            Err(failure) => Ending::Failed(failure.into_problem()),
        };
        self.end(&batch, ending).await;
    }

    /// Sends the requests that have no result yet.
    async fn send_requests(&self, stored: &Stored<BatchRecord>) -> Result<Ending, Failure> {
        let (batch, store) = (&stored.item.batch, &self.store);
        if batch.status == BatchStatus::Cancelling {
            return Ok(Ending::Cancelled);
        }
        let (input, mut results) = self.open_files(batch).await?;
        let (done, succeeded) = results.take_done();
        let (total, earlier) = (input.len(), done.len());
        let mut counts = RequestCounts { total, completed: succeeded, failed: earlier - succeeded };
        self.update(batch, move |batch| {
            batch.request_counts = counts;
            if batch.status == BatchStatus::Validating {
                batch.status = BatchStatus::InProgress;
                batch.in_progress_at = Some(now());
            }
        })
        .await?;
        let endpoint = ENDPOINTS.into_iter().find(|one| *one == batch.endpoint);
        let endpoint = endpoint.ok_or_else(|| Failure::Server("unknown endpoint".to_owned()))?;
        let pending = input.pending(done)?;
        let restrict = |line: BatchLine| line.for_endpoint(endpoint);
        let lines = pending.map(|line| line.map(restrict).map_err(Failure::File));
        let finish = |result: BatchResult| -> Result<(), Failure> {
            match result.is_success() {
                true => counts.completed += 1,
                false => counts.failed += 1,
            }
            store.grow(results.append(&result)? as u64)?;
            store.count(&batch.id, counts);
            Ok(())
        };
        let caller = OwnerCaller { runner: self.clone(), owner: stored.owner.clone() };
        let concurrency = self.app.models().map_or(1, |models| models.first_profile().max_running);
        let left = Duration::from_secs(batch.expires_at.saturating_sub(now()));
        let ending = tokio::select! {
            sent = run_batch(lines, caller, concurrency, finish) => sent.map(|()| Ending::Completed)?,
            () = self.until_cancelled(&batch.id) => Ending::Cancelled,
            () = sleep(left) => Ending::Expired,
        };
        Ok(ending)
    }

    /// Opens the requests and the results of a batch.
    async fn open_files(&self, batch: &Batch) -> Result<(BatchInput, BatchResults), Failure> {
        let store = self.store.clone();
        let limits = InputLimits {
            line_len: self.app.options.limits.body_len + LINE_OVERHEAD,
            requests: store.limits().requests,
        };
        let (id, input_id) = (batch.id.clone(), batch.input_file_id.clone());
        let open = move || {
            let input = BatchInput::check(&store.content(&input_id), limits)?;
            let results = BatchResults::open(&store.results(&id), &input)?;
            Ok((input, results))
        };
        spawn_blocking(open).await.map_err(|error| Failure::Server(error.to_string()))?
    }

    async fn update(
        &self,
        batch: &Batch,
        change: impl FnOnce(&mut Batch) + Send + 'static,
    ) -> Result<(), Failure> {
        let (store, id) = (self.store.clone(), batch.id.clone());
        let updated = spawn_blocking(move || store.update(&id, change)).await;
        updated.map_err(|error| Failure::Server(error.to_string()))??;
        Ok(())
    }

    async fn until_cancelled(&self, id: &str) {
        let mut changes = self.store.changes();
        let is_cancelled = || {
            let status = self.store.find_batch(id).map(|batch| batch.item.batch.status);
            status.is_none_or(|status| status == BatchStatus::Cancelling)
        };
        while !is_cancelled() {
            // The sender lives as long as the store.
            let _ = changes.changed().await;
        }
    }

    /// Collects the results of a batch, and ends it.
    async fn end(&self, batch: &Stored<BatchRecord>, ending: Ending) {
        let (runner, id) = (self.clone(), batch.item.batch.id.clone());
        let ended = spawn_blocking(move || runner.collect(&id, ending)).await;
        let ended = ended.map_err(|error| Failure::Server(error.to_string())).flatten();
        if let Err(failure) = ended {
            tracing::error!(
                batch = batch.item.batch.id,
                error = failure.message(),
                "ending a batch failed"
            );
            // It is tried again when the server starts, or a little later.
            sleep(PURGE_INTERVAL).await;
        }
    }

    /// Moves the results of a batch to files of its owner. Blocks. If it is interrupted, it may run again.
    fn collect(&self, id: &str, ending: Ending) -> Result<(), Failure> {
        let store = &self.store;
        let Some(batch) = store.find_batch(id) else { return Ok(()) };
        store.update(id, |batch| {
            batch.finalizing_at.get_or_insert_with(now);
            if matches!(ending, Ending::Completed) {
                batch.status = BatchStatus::Finalizing;
            }
        })?;
        if matches!(ending, Ending::Expired) {
            self.expire_requests(&batch.item.batch)?;
        }
        let collected = self.split_results(&batch)?;
        store.update(id, |batch| {
            batch.request_counts = RequestCounts {
                total: batch.request_counts.total,
                completed: collected.succeeded,
                failed: collected.failed,
            };
            (batch.output_file_id, batch.error_file_id) = (collected.output, collected.errors);
            end(batch, ending);
        })?;
        Ok(store.remove_results(id)?)
    }

    /// Adds results for requests that were not sent in time.
    fn expire_requests(&self, batch: &Batch) -> Result<(), Failure> {
        let input =
            BatchInput::check(&self.store.content(&batch.input_file_id), InputLimits::NONE)?;
        let mut results = BatchResults::open(&self.store.results(&batch.id), &input)?;
        let (done, _) = results.take_done();
        for line in input.pending(done)? {
            let message = "the request was not finished within the completion window";
            let result = line?.fail("batch_expired", message);
            self.store.grow_anyway(results.append(&result)? as u64);
        }
        Ok(results.sync()?)
    }

    /// Copies the results to two files: those of requests that succeeded, and the others.
    fn split_results(&self, batch: &Stored<BatchRecord>) -> Result<Collected, Failure> {
        let (mut output, mut errors) = (Part::default(), Part::default());
        let id = &batch.item.batch.id;
        let io = |error| Failure::Store(StoreError::Io(error));
        if let Ok(file) = File::open(self.store.results(id)) {
            let mut reader = BufReader::new(file);
            let mut line = String::new();
            while reader.read_line(&mut line).map_err(io)? > 0 && line.ends_with('\n') {
                let is_success =
                    ResultSummary::of_line(&line).is_ok_and(|result| result.is_success);
                let (part, kind) =
                    if is_success { (&mut output, "output") } else { (&mut errors, "errors") };
                part.add(&self.store, batch, kind, line.as_bytes())?;
                line.clear();
            }
        }
        let (succeeded, failed) = (output.lines, errors.lines);
        let output = output.finish(batch, "output")?;
        Ok(Collected { output, errors: errors.finish(batch, "errors")?, succeeded, failed })
    }
}

/// True if no other batch of its owner runs, or if it only has to be ended.
fn may_start<'a>(
    stored: &Stored<BatchRecord>,
    mut running: impl Iterator<Item = &'a Stored<BatchRecord>>,
) -> bool {
    let batch = &stored.item.batch;
    let is_over = batch.status == BatchStatus::Cancelling || batch.expires_at <= now();
    !running.any(|other| match is_over {
        true => other.item.batch.id == batch.id,
        false => other.owner == stored.owner,
    })
}

/// Ids of the files of results, and the numbers of results in them.
struct Collected {
    output: Option<String>,
    errors: Option<String>,
    succeeded: usize,
    failed: usize,
}

/// One of the two files of results, once it has any.
#[derive(Default)]
struct Part {
    upload: Option<Upload>,
    lines: usize,
}

impl Part {
    fn add(
        &mut self,
        store: &FileStore,
        batch: &Stored<BatchRecord>,
        kind: &str,
        line: &[u8],
    ) -> Result<(), Failure> {
        let upload = match &mut self.upload {
            Some(upload) => upload,
            None => self.upload.insert(store.begin_results(batch, kind)?),
        };
        self.lines += 1;
        Ok(upload.write(line)?)
    }

    fn finish(self, batch: &Stored<BatchRecord>, kind: &str) -> Result<Option<String>, Failure> {
        let Some(upload) = self.upload else { return Ok(None) };
        let created_at = now();
        let new = NewFile {
            filename: format!("{}_{kind}.jsonl", batch.item.batch.id),
            purpose: "batch_output",
            created_at,
            expires_at: batch.item.output_lifetime.map(|seconds| created_at + seconds),
        };
        Ok(Some(upload.finish(new)?.id))
    }
}

/// Gives a batch its final state.
fn end(batch: &mut Batch, ending: Ending) {
    let now = Some(now());
    match ending {
        Ending::Completed => (batch.status, batch.completed_at) = (BatchStatus::Completed, now),
        Ending::Cancelled => (batch.status, batch.cancelled_at) = (BatchStatus::Cancelled, now),
        Ending::Expired => (batch.status, batch.expired_at) = (BatchStatus::Expired, now),
        Ending::Failed(problem) => {
            (batch.status, batch.failed_at) = (BatchStatus::Failed, now);
            batch.errors = Some(BatchErrors { object: "list".into(), data: vec![problem] });
        }
    }
}

fn problem(code: &str, message: &str) -> BatchProblem {
    BatchProblem { code: code.to_owned(), message: message.to_owned(), line: None, param: None }
}

impl Failure {
    fn message(&self) -> String {
        match self {
            Self::Server(message) => message.clone(),
            Self::File(error) => error.to_string(),
            Self::Store(error) => error.to_string(),
        }
    }

    /// Describes the failure to the owner of the batch, without paths of the server.
    fn into_problem(self) -> BatchProblem {
        match self {
            Self::File(BatchFileError::Line { line, message, .. }) => {
                BatchProblem { line: Some(line), ..problem("invalid_line", &message) }
            }
            Self::File(BatchFileError::Whole { message, .. }) => problem("invalid_file", message),
            Self::File(BatchFileError::Io { source, .. }) => {
                problem("storage_error", &source.to_string())
            }
            Self::Store(StoreError::Io(error)) => problem("storage_error", &error.to_string()),
            Self::Store(error) => problem("storage_limit", &error.to_string()),
            Self::Server(message) => problem("server_error", &message),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Server(message)
    }
}

impl From<BatchFileError> for Failure {
    fn from(error: BatchFileError) -> Self {
        Self::File(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Sends requests as the owner of a batch, with patience: the server may be busy, or the limits of the key reached.
#[derive(Clone)]
struct OwnerCaller {
    runner: Runner,
    owner: Owner,
}

impl Caller for OwnerCaller {
    async fn call(&self, endpoint: &'static str, body: Value) -> Result<Answer, String> {
        let mut pause = FIRST_PAUSE;
        loop {
            // Keys may be replaced while a batch runs.
            let sender = self.owner.to_caller(&self.runner.app.keys());
            let sender = sender.ok_or("the API key of this batch was removed")?;
            let router = self.runner.router.clone();
            let caller = LocalCaller::on_behalf_of(router, Background(sender));
            let answer = caller.call(endpoint, body.clone()).await?;
            if !matches!(answer.status, 429 | 503) {
                return Ok(answer);
            }
            sleep(pause).await;
            pause = MAX_PAUSE.min(pause * 2);
        }
    }
}
