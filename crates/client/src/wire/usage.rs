//! Tokens counted and time measured.

use serde::{Deserialize, Serialize};

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt_tokens: u32,
    /// Tokens of the replies.
    pub completion_tokens: u32,
    /// Both.
    pub total_tokens: u32,
    /// More on the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptTokensDetails>,
}

/// More on the tokens of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PromptTokensDetails {
    /// Those that an earlier prompt had begun with too, and that were not computed again.
    pub cached_tokens: u32,
    /// The others: later prompts that begin with them may find them.
    #[serde(default)]
    pub cache_write_tokens: u32,
}

/// Where the time of a reply went, under the names of llama-server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Timings {
    /// Milliseconds from arrival to the start of computing.
    pub queue_ms: f64,
    /// Tokens of the prompt that were not computed again.
    pub cache_n: u32,
    /// Tokens of the prompt that were computed.
    pub prompt_n: u32,
    /// Milliseconds from the start of computing to the first token.
    pub prompt_ms: f64,
    /// Tokens a second of that.
    pub prompt_per_second: f64,
    /// Tokens of the reply.
    pub predicted_n: u32,
    /// Milliseconds from the first token to the last.
    pub predicted_ms: f64,
    /// Tokens a second of that.
    pub predicted_per_second: f64,
    /// Forward passes that wrote the reply.
    #[serde(default)]
    pub passes_n: u32,
    /// Tokens that were guessed and checked.
    #[serde(default)]
    pub draft_n: u32,
    /// Those of them that were right.
    #[serde(default)]
    pub draft_n_accepted: u32,
}

/// How far a prompt has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Progress {
    /// Its tokens.
    pub total: u32,
    /// Tokens read so far, those that were there already among them.
    pub processed: u32,
    /// Tokens that were there already.
    pub cache: u32,
}
