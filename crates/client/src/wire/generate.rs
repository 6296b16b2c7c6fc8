//! `POST /generate`, the API of SGLang's own.

use serde::{Deserialize, Serialize};

use super::{OneOrMany, Rest, TokenId};

/// A text to continue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct GenerateRequest {
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Or its tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_ids: Option<Vec<TokenId>>,
    /// How to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_params: Option<GenerateSampling>,
    /// Send the reply while it is written. Each event has all of the text so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Tell how likely each token was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_logprob: Option<bool>,
    /// And how likely this many of the likeliest were in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 20))]
    pub top_logprobs_num: Option<u32>,
    /// From which token of the prompt on; -1 for the reply alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprob_start_len: Option<i64>,
    /// The name of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rid: Option<String>,
    /// Higher runs first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub rest: Rest,
}

/// How tokens are chosen, and how many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct GenerateSampling {
    /// The most tokens to write; 128 if absent.
    pub max_new_tokens: Option<u32>,
    /// No end before this many tokens.
    pub min_new_tokens: Option<u32>,
    /// 0 takes the likeliest token each time.
    pub temperature: Option<f32>,
    /// Choose among the likeliest tokens that together have this probability.
    pub top_p: Option<f32>,
    /// Choose among this many of the likeliest tokens; 0 and -1 are all.
    pub top_k: Option<i64>,
    /// Leave out tokens less likely than this share of the likeliest one.
    pub min_p: Option<f32>,
    /// Subtract this for each time a token was written.
    pub frequency_penalty: Option<f32>,
    /// Subtract this from the scores of tokens already written.
    pub presence_penalty: Option<f32>,
    /// Divide the scores of tokens already seen by this.
    pub repetition_penalty: Option<f32>,
    /// Texts that end the reply.
    pub stop: Option<OneOrMany>,
    /// Tokens that end the reply, beside the model's own.
    pub stop_token_ids: Option<Vec<TokenId>>,
    /// Write on after the model's own end token.
    pub ignore_eos: Option<bool>,
    /// Whether special tokens are left out of the text.
    pub skip_special_tokens: Option<bool>,
    /// The same seed draws the same tokens.
    #[serde(alias = "seed")]
    pub sampling_seed: Option<i64>,
    /// How many replies to write.
    pub n: Option<u32>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = super::StructuredFields))]
    pub rest: Rest,
}

/// A reply, or all of it that is written so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GenerateResponse {
    /// Its text.
    pub text: String,
    /// Its tokens.
    pub output_ids: Vec<TokenId>,
    /// All else.
    pub meta_info: MetaInfo,
    /// Its place among the replies, where several were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// The logarithm of a token's probability, its number, and its text, which is null. The first token
/// of a prompt has no probability.
pub type SglangLogprob = (Option<f32>, TokenId, Option<String>);

/// What is known of a reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MetaInfo {
    /// The name of the request.
    pub id: String,
    /// Why it ended; null until it does.
    pub finish_reason: Option<SglangFinish>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the reply.
    pub completion_tokens: u32,
    /// Tokens of the prompt that were not computed again.
    pub cached_tokens: u32,
    /// `default`.
    pub weight_version: String,
    /// Seconds so far.
    pub e2e_latency: f64,
    /// Each token of the reply, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<Vec<Object>>>))]
    pub output_token_logprobs: Option<Vec<SglangLogprob>>,
    /// The same of the likeliest in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<Vec<Vec<Object>>>>))]
    pub output_top_logprobs: Option<Vec<Vec<SglangLogprob>>>,
    /// Each token of the prompt, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<Vec<Object>>>))]
    pub input_token_logprobs: Option<Vec<SglangLogprob>>,
}

/// Why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SglangFinish {
    /// At a stop.
    Stop {
        /// Which.
        matched: Option<MatchedStop>,
    },
    /// At the limit.
    Length {
        /// How many tokens that was.
        length: u32,
    },
    /// Something went wrong, or its time was up.
    Abort {
        /// What.
        message: String,
    },
}

/// What a reply stopped at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum MatchedStop {
    /// A token.
    Token(TokenId),
    /// A text.
    Text(String),
}
