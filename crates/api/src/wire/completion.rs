//! `POST /v1/completions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wf_core::SamplingOverrides;

use super::{JsonObject, Progress, Prompt, Sampling, Seed, Timings, TokenId, Usage};

/// Request for text completions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompletionRequest {
    /// Name of the model; the first model if absent.
    pub model: Option<String>,
    /// Prompt, or a list of prompts.
    #[schema(required = true)]
    pub prompt: Option<Prompt>,
    /// Sampling parameters.
    #[serde(flatten)]
    pub params: SamplingOverrides,
    /// Limits, streaming and decoding.
    #[serde(flatten)]
    pub sampling: Sampling,
    /// Returns the logprob of each token, and of this many of the most likely tokens.
    #[schema(minimum = 0, maximum = 20)]
    pub logprobs: Option<u32>,
    /// Begins the completion with the prompt, and with its logprobs if they are requested.
    pub echo: Option<bool>,
    /// Puts the model's BOS token before the prompt; `true` by default.
    pub add_special_tokens: Option<bool>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(value_type = super::StructuredFields)]
    pub extra: JsonObject,
}

/// Text completions, or a chunk of them in a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Completion {
    /// Id of the completion.
    pub id: String,
    /// `text_completion`.
    pub object: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
    /// Name of the model.
    pub model: String,
    /// The completions: all of the first prompt, then all of the second, and so on.
    pub choices: Vec<CompletionChoice>,
    /// Token counts. Streams have them with `stream_options.include_usage`, null except in the last chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
    /// Equal requests with equal fingerprints get equal completions.
    pub system_fingerprint: String,
    /// Seed of the request, or the one drawn for it; in a stream in the first chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub seed: Option<Seed>,
    /// Prefill progress, in a stream with `return_progress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_progress: Option<Progress>,
    /// Time spent; in a stream in the last chunk of each completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

/// One completion, or its new part in a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompletionChoice {
    /// Index among the completions.
    pub index: u32,
    /// Text of the completion.
    pub text: String,
    /// Logprobs of its tokens, with `logprobs`.
    pub logprobs: Option<CompletionLogprobs>,
    /// Finish reason: `stop`, `length` or `deadline`.
    pub finish_reason: Option<String>,
    /// Token ids of the prompt, with `return_token_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
    /// Its token ids, with `return_token_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// Logprobs of tokens, in four lists of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompletionLogprobs {
    /// Offset of each token in the text, in characters.
    pub text_offset: Vec<usize>,
    /// Natural logarithms of their probabilities; null for the first token of a prompt.
    pub token_logprobs: Vec<Option<f32>>,
    /// Texts of the tokens, or `bytes:` and their bytes as `\xNN` if they are not UTF-8.
    pub tokens: Vec<String>,
    /// Most likely tokens at each position.
    pub top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
}
