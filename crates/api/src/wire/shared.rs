//! Types that several endpoints share: errors, named events, token counts and timings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of an error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// Details of an error. All four fields are always present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// Description of the problem, and of the values allowed.
    pub message: String,
    /// Type of error: `invalid_request_error`, `authentication_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Path of the field at fault, if there is one.
    pub param: Option<String>,
    /// Machine-readable code.
    pub code: Option<String>,
}

/// A server-sent event with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedEvent {
    /// Name of the event: the `type` in its data.
    pub event: String,
    /// A JSON object.
    pub data: String,
}

/// Token counts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens of all prompts.
    pub prompt_tokens: u32,
    /// Tokens of all completions.
    pub completion_tokens: u32,
    /// Sum of both.
    pub total_tokens: u32,
    /// Details of the prompt tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptTokensDetails>,
    /// Details of the generated tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens_details: Option<CompletionTokensDetails>,
}

/// Details of generated tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompletionTokensDetails {
    /// Tokens of thinking, with its tags.
    pub reasoning_tokens: u32,
}

/// Details of prompt tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptTokensDetails {
    /// Tokens found in the prefix cache, which were not computed again.
    pub cached_tokens: u32,
}

/// Time spent on a completion, under the names of llama-server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Timings {
    /// Milliseconds in the queue.
    pub queue_ms: f64,
    /// Prompt tokens found in the prefix cache.
    pub cache_n: u32,
    /// Prompt tokens computed.
    pub prompt_n: u32,
    /// Milliseconds of prefill.
    pub prompt_ms: f64,
    /// Prefill speed in tokens per second.
    pub prompt_per_second: f64,
    /// Tokens generated.
    pub predicted_n: u32,
    /// Milliseconds of decoding, from the first token to the last.
    pub predicted_ms: f64,
    /// Decoding speed in tokens per second.
    pub predicted_per_second: f64,
    /// Forward passes of decoding.
    #[serde(default)]
    pub passes_n: u32,
    /// Draft tokens verified.
    #[serde(default)]
    pub draft_n: u32,
    /// Draft tokens accepted.
    #[serde(default)]
    pub draft_n_accepted: u32,
    /// Tokens of prompt and completion that are out of sight, because a window has slid over them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub out_of_sight_n: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Prefill progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Tokens of the prompt.
    pub total: u32,
    /// Tokens processed so far, cached ones included.
    pub processed: u32,
    /// Tokens found in the prefix cache.
    pub cache: u32,
}
