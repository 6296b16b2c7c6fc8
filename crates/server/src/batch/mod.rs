//! Batches in OpenAI's format: a line of JSON for each request, and one for each result, in any order.
//!
//! This module reads requests, runs them and stores results, so that a batch continues after an interruption.
//! Progress, and what to do with errors, belong to the caller.

mod files;
mod line;
mod local;
pub(crate) mod runner;

use std::future::Future;

use serde_json::Value;
use tokio::task::JoinSet;

pub use files::{BatchFileError, BatchInput, BatchResults, InputLimits};
pub use line::{BatchError, BatchLine, BatchResult, ENDPOINTS, ResultSummary};
pub use local::LocalCaller;

/// The response to one request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Id that the server gave to the request.
    pub request_id: Option<String>,
    /// The body: a response, or an error in OpenAI's format.
    pub body: Value,
}

/// A server that requests are sent to.
pub trait Caller: Clone + Send + Sync + 'static {
    /// Sends a request to one of [`ENDPOINTS`].
    ///
    /// An error means that the server cannot be used any longer, and ends the batch. A request that is rejected
    /// has an [`Answer`] that says so.
    fn call(
        &self,
        endpoint: &'static str,
        body: Value,
    ) -> impl Future<Output = Result<Answer, String>> + Send;
}

/// Runs the requests of a batch, `concurrency` at a time, and passes each result to `finish` when it is there.
///
/// # Errors
///
/// The first error of the server or of `finish`. Requests in flight are cancelled then, and have no result.
pub async fn run_batch<E: From<String>>(
    lines: impl Iterator<Item = Result<BatchLine, E>>,
    caller: impl Caller,
    concurrency: usize,
    mut finish: impl FnMut(BatchResult) -> Result<(), E>,
) -> Result<(), E> {
    let mut lines = lines.fuse();
    let mut running = JoinSet::new();
    loop {
        while running.len() < concurrency {
            let Some(line) = lines.next().transpose()? else { break };
            let caller = caller.clone();
            running.spawn(async move { run_line(line, &caller).await });
        }
        let Some(result) = running.join_next().await else { return Ok(()) };
        let result = result.map_err(|error| error.to_string())?;
        finish(result?)?;
    }
}

async fn run_line(line: BatchLine, caller: &impl Caller) -> Result<BatchResult, String> {
    let id = line.id();
    let outcome = match line.into_request() {
        Ok((endpoint, body)) => Ok(caller.call(endpoint, body).await?),
        Err(error) => Err(error),
    };
    Ok(BatchResult { id: id.0, custom_id: id.1, outcome })
}
