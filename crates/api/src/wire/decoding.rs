//! Decoding modes: block diffusion and speculative decoding.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Settings of block diffusion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffusionSettings {
    /// Tokens per block; the model's own value by default.
    #[schema(minimum = 1, maximum = 1024)]
    pub block_size: Option<usize>,
    /// Tokens per sub-block; must divide the block size.
    #[schema(minimum = 1, maximum = 1024)]
    pub sub_block_size: Option<usize>,
    /// Rule that selects the tokens to keep after a pass: threshold, factor, static, dynamic, entropy, adaptive,
    /// single, edit or prefix.
    #[schema(example = "threshold")]
    pub rule: Option<String>,
    /// Parameter of the rule.
    #[schema(minimum = 0.0, maximum = 1000.0)]
    pub threshold: Option<f32>,
    /// Confidence that the rule `edit` needs to change a token.
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub edit_threshold: Option<f32>,
    /// Maximum number of passes per sub-block.
    #[schema(minimum = 1)]
    pub steps: Option<usize>,
    /// Fills the last block completely, even if the completion ends inside it.
    pub whole_blocks: Option<bool>,
    /// Reuses keys and values of other sub-blocks from an earlier pass: faster, with different output.
    pub reuse: Option<bool>,
    /// Sends the state of the block after each pass, in a stream.
    pub preview: Option<bool>,
}

/// Settings of speculative decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DraftSettings {
    /// Maximum number of draft tokens per step.
    #[schema(minimum = 1, maximum = 64)]
    pub tokens: Option<usize>,
    /// Drafts fewer tokens when drafts are rejected; `true` by default.
    pub adapt: Option<bool>,
}
