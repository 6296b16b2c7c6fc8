//! `/v1/batches`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::JsonObject;

/// Request to run a file of requests.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct BatchRequest {
    /// File with one request per line.
    pub input_file_id: Option<String>,
    /// Endpoint of all requests.
    pub endpoint: Option<String>,
    /// Time after which requests without a result expire, such as `24h`.
    pub completion_window: Option<String>,
    /// Labels of the author, at most 16.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Time after which the files of results are deleted.
    pub output_expires_after: Option<ExpiresAfter>,
    /// Other fields.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extra: JsonObject,
}

/// Time after which a file is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExpiresAfter {
    /// `created_at`.
    pub anchor: ExpiryAnchor,
    /// Seconds from then on.
    pub seconds: u64,
}

/// Start of the time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpiryAnchor {
    /// The time when it was created.
    CreatedAt,
}

/// State of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchStatus {
    /// Its requests are waiting, or being checked.
    Validating,
    /// Its requests cannot be read, or its results cannot be stored.
    Failed,
    /// Its requests run.
    InProgress,
    /// Its results are being collected.
    Finalizing,
    /// Every request has a result.
    Completed,
    /// Its time was over before every request had a response.
    Expired,
    /// It is being cancelled.
    Cancelling,
    /// It was cancelled.
    Cancelled,
}

impl BatchStatus {
    /// True if nothing happens to the batch any longer.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Completed | Self::Expired | Self::Cancelled)
    }
}

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Batch {
    /// Name that requests use.
    pub id: String,
    /// `batch`.
    pub object: String,
    /// Endpoint of all its requests.
    pub endpoint: String,
    /// Reasons of a failure.
    pub errors: Option<BatchErrors>,
    /// File of its requests.
    pub input_file_id: String,
    /// Time that it has.
    pub completion_window: String,
    /// Its state.
    pub status: BatchStatus,
    /// File of the results of requests that succeeded, once it is over and there are any.
    pub output_file_id: Option<String>,
    /// File of the results of requests that failed, once it is over and there are any.
    pub error_file_id: Option<String>,
    /// Time of its creation in seconds since 1970, like all others.
    pub created_at: u64,
    /// Time when it began to run.
    pub in_progress_at: Option<u64>,
    /// Time when it expires.
    pub expires_at: u64,
    /// Time when its results began to be collected.
    pub finalizing_at: Option<u64>,
    /// Time when it was completed.
    pub completed_at: Option<u64>,
    /// Time when it failed.
    pub failed_at: Option<u64>,
    /// Time when it expired.
    pub expired_at: Option<u64>,
    /// Time when it was asked to end.
    pub cancelling_at: Option<u64>,
    /// Time when it was cancelled.
    pub cancelled_at: Option<u64>,
    /// Numbers of its requests.
    pub request_counts: RequestCounts,
    /// Labels of its author.
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Numbers of the requests of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestCounts {
    /// All requests.
    pub total: usize,
    /// Requests that succeeded.
    pub completed: usize,
    /// Requests that failed.
    pub failed: usize,
}

/// Reasons why a batch failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchErrors {
    /// `list`.
    pub object: String,
    /// The reasons.
    pub data: Vec<BatchProblem>,
}

/// A reason why a batch failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchProblem {
    /// Machine-readable code.
    pub code: String,
    /// Description of the problem.
    pub message: String,
    /// Line of the input file, from 1.
    pub line: Option<usize>,
    /// Field of the request at fault.
    pub param: Option<String>,
}

/// A part of the list of batches, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchList {
    /// `list`.
    pub object: String,
    /// The batches.
    pub data: Vec<Batch>,
    /// Id of the first batch of this part.
    pub first_id: Option<String>,
    /// Id of the last batch of this part: `after` of the next request.
    pub last_id: Option<String>,
    /// True if the list goes on.
    pub has_more: bool,
}
