//! Wire types of SGLang's `/generate`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wf_api::wire::{JsonObject, OneOrMany, Seed, StructuredFields, TokenId};
use wf_core::SamplingOverrides;

/// Request to continue a text.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(in crate::dialects) struct GenerateRequest {
    /// The prompt.
    pub(super) text: Option<String>,
    /// Token ids of the prompt, in place of `text`.
    pub(super) input_ids: Option<Vec<TokenId>>,
    /// Sampling and limits.
    pub(super) sampling_params: Option<GenerateSampling>,
    /// Streams the response as it is generated. Each event has all of the text so far.
    pub(super) stream: Option<bool>,
    /// Returns the logprob of each token.
    pub(super) return_logprob: Option<bool>,
    /// Number of most likely tokens to return at each position.
    #[schema(minimum = 0, maximum = 20)]
    pub(super) top_logprobs_num: Option<u32>,
    /// First prompt token with logprobs: 0 for the whole prompt, -1 (default) for none of it.
    pub(super) logprob_start_len: Option<i64>,
    /// Id of the request.
    pub(super) rid: Option<String>,
    /// Among the requests of a caller, those with a higher priority run first; 0 by default.
    pub(super) priority: Option<i32>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(ignore)]
    pub(super) extra: JsonObject,
}

/// Sampling and limits.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(super) struct GenerateSampling {
    /// Maximum number of tokens to generate; 128 by default.
    pub(super) max_new_tokens: Option<u32>,
    /// Minimum number of tokens to generate.
    pub(super) min_new_tokens: Option<u32>,
    /// Sampling parameters.
    #[serde(flatten)]
    pub(super) params: SamplingOverrides,
    /// Strings that end the response, which does not include them.
    pub(super) stop: Option<OneOrMany>,
    /// Token ids that end the response, in addition to the model's own.
    pub(super) stop_token_ids: Option<Vec<TokenId>>,
    /// Continues after the model's end-of-sequence token.
    pub(super) ignore_eos: Option<bool>,
    /// Omits special tokens from the text; `true` by default.
    pub(super) skip_special_tokens: Option<bool>,
    /// Seed of the random numbers.
    #[serde(alias = "seed")]
    #[schema(value_type = Option<i64>)]
    pub(super) sampling_seed: Option<Seed>,
    /// Number of responses.
    pub(super) n: Option<u32>,
    /// Fields without a type of their own.
    #[serde(flatten)]
    #[schema(value_type = StructuredFields)]
    pub(super) extra: JsonObject,
}

/// A response, or all of it so far in a stream.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct GenerateResponse {
    pub(super) text: String,
    pub(super) output_ids: Vec<TokenId>,
    /// Token counts, logprobs and finish reason.
    pub(super) meta_info: MetaInfo,
    /// Index among the responses, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<u32>,
}

/// Logprob, id and text of a token. The text is null, and the first token of a prompt has no logprob.
pub(super) type SglangLogprob = (Option<f32>, TokenId, Option<String>);

/// Token counts, logprobs and finish reason of a response.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct MetaInfo {
    pub(super) id: String,
    pub(super) finish_reason: Option<SglangFinishReason>,
    pub(super) prompt_tokens: u32,
    pub(super) completion_tokens: u32,
    /// Prompt tokens found in the prefix cache.
    pub(super) cached_tokens: u32,
    pub(super) weight_version: String,
    /// Seconds since the request arrived.
    pub(super) e2e_latency: f64,
    /// Logprobs of the response, with `return_logprob`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Vec<Object>>>)]
    pub(super) output_token_logprobs: Option<Vec<SglangLogprob>>,
    /// Logprobs of the most likely tokens at each position.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Vec<Vec<Object>>>>)]
    pub(super) output_top_logprobs: Option<Vec<Vec<SglangLogprob>>>,
    /// Logprobs of the prompt, with `logprob_start_len` 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Vec<Object>>>)]
    pub(super) input_token_logprobs: Option<Vec<SglangLogprob>>,
}

/// Finish reason.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum SglangFinishReason {
    /// A stop string or token.
    Stop {
        /// The stop string or token.
        matched: Option<MatchedStop>,
    },
    /// The limit on tokens.
    Length { length: u32 },
    /// The deadline or an error.
    Abort {
        /// `deadline` or `error`.
        message: String,
    },
}

/// Stop string or token that ended a response.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum MatchedStop {
    Token(TokenId),
    Text(String),
}
