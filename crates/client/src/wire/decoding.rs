//! How tokens are found: one by one, by blocks, or with guesses.

use serde::{Deserialize, Serialize};

/// How blocks are filled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DiffusionSettings {
    /// Tokens of a block; the model's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1024))]
    pub block_size: Option<usize>,
    /// Tokens of the parts it is filled in; divides the block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1024))]
    pub sub_block_size: Option<usize>,
    /// Which guesses of a pass stay: threshold, factor, static, dynamic, entropy, adaptive, single, edit
    /// or prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "threshold"))]
    pub rule: Option<String>,
    /// The number that steers the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 1000.0))]
    pub threshold: Option<f32>,
    /// How sure the rule edit must be to change a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 1.0))]
    pub edit_threshold: Option<f32>,
    /// The most passes on a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub steps: Option<usize>,
    /// Fill a block to its end even if the reply has ended in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_blocks: Option<bool>,
    /// Take K/V of other parts from an earlier pass: fewer rows, other answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse: Option<bool>,
    /// Tell, in a stream, how the block stands after each pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<bool>,
}

/// How tokens are guessed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DraftSettings {
    /// The most tokens to guess at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 64))]
    pub tokens: Option<usize>,
    /// Guess fewer when guesses are wrong; true if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapt: Option<bool>,
}
