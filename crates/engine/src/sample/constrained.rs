//! Grammars and thinking: what constrains a completion beside its parameters, and when it is complete.

use std::time::Duration;

use wf_core::TokenId;

use super::Sampler;
use crate::grammar::{Follower, Grammar};
use crate::output::FinishReason;
use crate::thinking::{OpenThinking, Thinking};

impl Sampler {
    /// Constrains the completion by a grammar.
    #[must_use]
    pub fn with_grammar(self, grammar: Option<&Grammar>) -> Self {
        Self { grammar: grammar.map(Follower::new), ..self }
    }

    /// Returns `true` if a grammar constrains the completion.
    pub(crate) fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }

    /// Begins the completion inside of thinking, which the grammar does not constrain.
    #[must_use]
    pub fn with_thinking(self, thinking: Option<Thinking>) -> Self {
        Self { thinking: thinking.map(OpenThinking::new), ..self }
    }

    /// Computes the tokens that the grammar allows next, so that only their logits are needed.
    pub(crate) fn prepare_mask(&mut self, vocab_len: usize) {
        if let (Some(grammar), None, None) = (&mut self.grammar, self.logprobs, &self.thinking) {
            grammar.prepare_mask(vocab_len, &self.stop_tokens);
        }
    }

    /// Returns and resets the time that the grammar took beyond the usual.
    pub(crate) fn take_excess_time(&mut self) -> Duration {
        self.grammar.as_mut().map_or(Duration::ZERO, Follower::take_excess_time)
    }

    /// Returns the tokens that may come next, one bit per token; empty if that is unknown or all may.
    pub(crate) fn allowed(&self) -> &[u32] {
        let grammar = self.grammar.as_ref().filter(|_| self.logprobs.is_none());
        grammar.and_then(Follower::prepared_mask).unwrap_or_default()
    }

    /// Returns `true` if the completion ends with this token, which was just committed.
    pub(crate) fn ends(&self, token: TokenId) -> bool {
        self.is_stop(token) || self.is_complete()
    }

    /// Returns `true` if logits that were computed before can be sampled after this token, which was just committed.
    /// Not at the end, and not at the beginning of an answer whose grammar needs more of them.
    pub(crate) fn continues(&self, token: TokenId) -> bool {
        let grammar = self.grammar.as_ref().filter(|_| self.thinking.is_none());
        let needs_more = grammar.is_some_and(Follower::is_at_start);
        !self.ends(token) && !needs_more
    }

    /// Returns `true` if the grammar allows the completion only to end.
    pub(crate) fn is_complete(&self) -> bool {
        let grammar = self.grammar.as_ref().filter(|_| self.thinking.is_none());
        grammar.is_some_and(Follower::is_complete)
    }

    /// Returns the finish reason after no token could be sampled. A completion that the grammar accepts ends
    /// normally: its stop tokens may be ruled out, or it may have none.
    pub(crate) fn failure(&self) -> FinishReason {
        match &self.grammar {
            Some(_) if self.dead_end => FinishReason::DeadEnd,
            Some(grammar) if grammar.accepts => FinishReason::Stop,
            _ => FinishReason::NonFiniteLogits,
        }
    }
}
