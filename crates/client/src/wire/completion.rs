//! `POST /v1/completions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Progress, Rest, Sampling, Timings, TokenId, Usage};

/// Texts to continue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct CompletionRequest {
    /// Which model; the only one there is if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What to continue.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub prompt: Option<Prompt>,
    /// How to go on.
    #[serde(flatten)]
    pub sampling: Sampling,
    /// Tell how likely each token was, and that of this many of the likeliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 20))]
    pub logprobs: Option<u32>,
    /// Begin the reply with the prompt; with `logprobs`, tell how likely that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<bool>,
    /// Whether the model's begin token goes before the prompt; it does, unless this is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_special_tokens: Option<bool>,
    /// Fields without a type.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = super::StructuredFields))]
    pub rest: Rest,
}

/// A text or tokens, or several of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(
    untagged,
    expecting = "expected a string, a list of strings, a list of token numbers or a list of such lists"
)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Tokens.
    Ids(Vec<TokenId>),
    /// Several texts.
    Texts(Vec<String>),
    /// Several lists of tokens.
    ManyIds(Vec<Vec<TokenId>>),
}

/// A whole answer, and in a stream a part of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Completion {
    /// Its name.
    pub id: String,
    /// `text_completion`.
    pub object: String,
    /// When it was begun, in seconds since 1970.
    pub created: u64,
    /// The model that wrote it.
    pub model: String,
    /// The replies: all of the first prompt, then all of the second, and so on.
    pub choices: Vec<CompletionChoice>,
    /// The tokens counted; in a stream only if asked for, null but in the last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
    /// Equal fingerprints, equal requests: equal answers.
    pub system_fingerprint: String,
    /// The seed given or drawn; in a stream in the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// How far the prompt has been read, if asked for, in a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_progress: Option<Progress>,
    /// Where the time went; in a stream with the end of each reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

/// One reply, or what is new of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CompletionChoice {
    /// Its place among the replies.
    pub index: u32,
    /// The text.
    pub text: String,
    /// How likely its tokens were, if asked for.
    pub logprobs: Option<CompletionLogprobs>,
    /// Why it ended: `stop`, `length` or `deadline`.
    pub finish_reason: Option<String>,
    /// The prompt's tokens, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
    /// Its tokens, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// How likely tokens were, in four lists of one length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CompletionLogprobs {
    /// Where in the text each token begins, in characters.
    pub text_offset: Vec<usize>,
    /// The natural logarithms of their probabilities; null for the first token of a prompt.
    pub token_logprobs: Vec<Option<f32>>,
    /// Their texts, or `bytes:` and their bytes as `\xNN` where they are no text by themselves.
    pub tokens: Vec<String>,
    /// The likeliest in their place.
    pub top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
}
