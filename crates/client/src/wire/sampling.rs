//! What chat and completion requests have in common.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DiffusionSettings, DraftSettings, TokenId};

/// How tokens are chosen, how many, and how they are sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Sampling {
    /// 0 takes the likeliest token each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 100.0))]
    pub temperature: Option<f32>,
    /// Choose among the likeliest tokens that together have this probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 1.0))]
    pub top_p: Option<f32>,
    /// Choose among this many of the likeliest tokens; 0 and -1 are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = -1))]
    pub top_k: Option<i64>,
    /// Leave out tokens less likely than this share of the likeliest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 1.0))]
    pub min_p: Option<f32>,
    /// Divide the scores of tokens already seen by this.
    #[serde(alias = "repeat_penalty", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 100.0))]
    pub repetition_penalty: Option<f32>,
    /// Subtract this from the scores of tokens already written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = -2.0, maximum = 2.0))]
    pub presence_penalty: Option<f32>,
    /// Subtract this for each time a token was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = -2.0, maximum = 2.0))]
    pub frequency_penalty: Option<f32>,
    /// Added to the scores of tokens, by their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logit_bias: Option<BTreeMap<String, f32>>,
    /// The same seed draws the same tokens. Drawn and told if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// The most tokens to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub max_tokens: Option<u32>,
    /// No end before this many tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub min_tokens: Option<u32>,
    /// Texts that end a reply. They are not part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<OneOrMany>,
    /// Tokens that end a reply, beside the model's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_token_ids: Option<Vec<TokenId>>,
    /// Write on after the model's own end token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_eos: Option<bool>,
    /// Whether special tokens are left out of the text; they are, unless this is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_special_tokens: Option<bool>,
    /// How many replies to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 8))]
    pub n: Option<u32>,
    /// Send the reply while it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// How to send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<StreamOptions>,
    /// Higher runs first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Only requests with the same salt share the work on prompts that start alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_salt: Option<String>,
    /// Tell the numbers of the tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_token_ids: Option<bool>,
    /// Tell, in a stream, how far the prompt has been read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_progress: Option<bool>,
    /// How tokens are found: autoregressive, diffusion, drafted, lookup or drafted+lookup.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "autoregressive"))]
    pub decode: Option<String>,
    /// How blocks are filled; implies `decode` to be diffusion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diffusion: Option<DiffusionSettings>,
    /// How tokens are guessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<DraftSettings>,
}

/// One text or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl From<OneOrMany> for Vec<String> {
    fn from(texts: OneOrMany) -> Self {
        match texts {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        }
    }
}

/// What a stream has beside the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct StreamOptions {
    /// One more event before the end, with the tokens counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_usage: Option<bool>,
    /// Accepted; nothing is hidden here that padding would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_obfuscation: Option<bool>,
}
