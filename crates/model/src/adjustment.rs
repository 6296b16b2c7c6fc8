//! Changes of logits: bias and penalties.

use wf_core::TokenId;

/// A change of one token's logit before a draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjustment {
    /// The token.
    pub token: TokenId,
    /// Number to add first; −∞ forbids the token.
    pub bias: f32,
    /// Divisor of a positive logit, and factor of any other.
    pub repetition: f32,
    /// Number to subtract last.
    pub penalty: f32,
}

impl Adjustment {
    /// Changes nothing.
    pub fn none(token: TokenId) -> Self {
        Self { token, bias: 0.0, repetition: 1.0, penalty: 0.0 }
    }

    /// Returns the adjusted logit.
    pub fn apply(&self, logit: f32) -> f32 {
        let logit = logit + self.bias;
        let logit = if logit > 0.0 { logit / self.repetition } else { logit * self.repetition };
        logit - self.penalty
    }
}
