//! Output of a generation: sampled tokens, logprobs, finish reasons, and the limits that end it.

use std::ops::AddAssign;
use std::time::Instant;

use wf_model::TokenId;

/// Conditions that end a completion.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Maximum number of tokens.
    pub max_tokens: usize,
    /// Tokens that end the completion and are part of it.
    pub stop_tokens: Vec<TokenId>,
    /// Number of tokens before which no stop token is sampled.
    pub min_tokens: usize,
    /// Time at which the completion ends, finished or not.
    pub deadline: Option<Instant>,
}

/// A token of the completion.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// Token id.
    pub token: TokenId,
    /// Logprobs, if requested.
    pub logprobs: Option<Logprobs>,
}

/// Log probabilities of a token by the model's own logits: before bias, penalties and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
    /// Most probable tokens of that position with their log probabilities, highest first.
    pub top: Vec<(TokenId, f32)>,
}

/// Reason for the end of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop token was sampled, or the grammar allows no more text.
    Stop,
    /// `max_tokens` were generated, or the context is full.
    Length,
    /// The deadline passed.
    Deadline,
    /// The model computed no finite logit: its weights are broken or overflow.
    NonFiniteLogits,
    /// The grammar allowed no token, or exceeded its limits.
    DeadEnd,
    /// The forward step panicked.
    Failed,
}

impl FinishReason {
    /// Returns the name of the reason, as the API reports it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Deadline => "deadline",
            Self::DeadEnd => "grammar_dead_end",
            Self::NonFiniteLogits | Self::Failed => "error",
        }
    }
}

/// Counters of the decoding work behind a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeStats {
    /// Forward passes, without those that only read the prompt.
    pub passes: usize,
    /// Rows of those passes.
    pub rows: usize,
    /// Draft tokens that were verified.
    pub drafted: usize,
    /// Draft tokens that were accepted.
    pub accepted: usize,
}

impl AddAssign for DecodeStats {
    fn add_assign(&mut self, other: Self) {
        self.passes += other.passes;
        self.rows += other.rows;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
    }
}
