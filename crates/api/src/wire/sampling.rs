//! Fields that chat and completion requests share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Seed, TokenId};

/// Limits, streaming and decoding. Sampling parameters are fields of the requests themselves: a flattened struct
/// inside another one would leave its fields among the unknown ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sampling {
    /// Values added to the logits of tokens, by token id.
    pub logit_bias: Option<BTreeMap<String, f32>>,
    /// Seed of the random numbers. By default a random one, which the response has.
    #[schema(value_type = Option<i64>)]
    pub seed: Option<Seed>,
    /// Maximum number of tokens to generate.
    #[schema(minimum = 0)]
    pub max_tokens: Option<u32>,
    /// Minimum number of tokens to generate.
    #[schema(minimum = 0)]
    pub min_tokens: Option<u32>,
    /// Strings that end the completion, which does not include them.
    pub stop: Option<OneOrMany>,
    /// Token ids that end the completion, in addition to the model's own.
    pub stop_token_ids: Option<Vec<TokenId>>,
    /// Continues after the model's end-of-sequence token.
    pub ignore_eos: Option<bool>,
    /// Omits special tokens from the text; `true` by default.
    pub skip_special_tokens: Option<bool>,
    /// Number of completions.
    #[schema(minimum = 1, maximum = 8)]
    pub n: Option<u32>,
    /// Streams the completion as it is generated.
    pub stream: Option<bool>,
    /// Options of the stream.
    pub stream_options: Option<StreamOptions>,
    /// Among the requests of a caller, those with a higher priority run first; 0 by default.
    pub priority: Option<i32>,
    /// Requests share the prefix cache only if they have the same salt.
    pub cache_salt: Option<String>,
    /// Returns token ids.
    pub return_token_ids: Option<bool>,
    /// Sends prefill progress, in a stream.
    pub return_progress: Option<bool>,
    /// Decoding mode; `GET /props` lists those that the model supports. Its settings are objects beside this field.
    #[schema(example = "autoregressive")]
    pub decode: Option<String>,
}

/// A string or a list of strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub enum OneOrMany {
    /// One string.
    One(String),
    /// A list of strings.
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

/// Options of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// Sends one more chunk at the end, with token counts.
    pub include_usage: Option<bool>,
    /// Accepted and ignored.
    pub include_obfuscation: Option<bool>,
}
