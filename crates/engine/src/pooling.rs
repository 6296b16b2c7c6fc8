//! Embedding task of a sequence: reads a text and pools the hidden states of its tokens.

use std::ops::Range;

use wf_model::{Pooling, Visibility};

use crate::decode::{Capabilities, Plan, SeqState, TokenDemand, UnsupportedMode};
use crate::output::FinishReason;
use crate::request::Event;

/// Pools hidden states into one vector.
///
/// States are added token by token, so the sum does not depend on how the text was split into steps.
#[derive(Debug)]
pub(crate) struct Pooler {
    pooling: Pooling,
    pub(crate) visibility: Visibility,
    text_len: usize,
    sum: Vec<f32>,
}

impl Pooler {
    /// Creates a pooler for a text of `text_len` tokens.
    ///
    /// # Errors
    ///
    /// If the model attends to whole blocks that exceed a step.
    pub(crate) fn new(
        pooling: Pooling,
        text_len: usize,
        model: Capabilities,
    ) -> Result<Self, UnsupportedMode> {
        let max = model.max_batch_tokens;
        let visibility = match model.blocks {
            Some(block) if !block.causal_context => Visibility::Block(block.block_len),
            _ => Visibility::Causal,
        };
        if let Visibility::Block(len) = visibility {
            model.require_in_window(len)?;
        }
        match visibility {
            Visibility::Block(len) if len > max => Err(UnsupportedMode(format!(
                "this model reads blocks of {len} tokens, but a step is limited to {max} tokens"
            ))),
            _ => Ok(Self { pooling, visibility, text_len, sum: Vec::new() }),
        }
    }

    /// Returns `true` if the hidden state of every token is needed, so that no K/V comes from the cache.
    pub(crate) fn needs_all_tokens(&self) -> bool {
        self.pooling != Pooling::Last
    }

    pub(crate) fn demand(&self, seq: &SeqState) -> TokenDemand {
        let tokens = self.text_len - seq.kv_len;
        TokenDemand { tokens, min_tokens: tokens.min(self.unit()), is_prefill: true }
    }

    pub(crate) fn plan(&self, seq: &SeqState, budget: usize) -> Plan {
        let pending = &seq.tokens[seq.kv_len..];
        let run = match budget < pending.len() {
            true => budget - budget % self.unit(),
            false => pending.len(),
        };
        let (tokens, visibility) = (pending[..run].to_vec(), self.visibility);
        Plan { start: seq.kv_len, tokens, visibility, scored: Vec::new(), scoring: None }
    }

    /// Returns the indices of the plan's tokens whose hidden states are pooled.
    pub(crate) fn pooled_rows(&self, plan: &Plan) -> Range<usize> {
        let run = plan.tokens.len();
        match self.pooling {
            Pooling::Mean => 0..run,
            Pooling::First => 0..usize::from(plan.start == 0),
            Pooling::Last => (self.text_len - 1).saturating_sub(plan.start).min(run)..run,
        }
    }

    pub(crate) fn add(&mut self, hidden: &[f32]) {
        match self.sum.is_empty() {
            true => self.sum.extend_from_slice(hidden),
            false => self.sum.iter_mut().zip(hidden).for_each(|(sum, state)| *sum += state),
        }
    }

    /// Absorbs a pass. Once all tokens have run, emits the vector and returns the finish reason.
    pub(crate) fn absorb(
        &mut self,
        seq: &mut SeqState,
        plan: &Plan,
        mut emit: impl FnMut(Event),
    ) -> Option<FinishReason> {
        if seq.kv_len + plan.tokens.len() < self.text_len {
            seq.advance(plan.tokens.len()).into_iter().for_each(emit);
            return None;
        }
        let mut vector = std::mem::take(&mut self.sum);
        if self.pooling == Pooling::Mean {
            vector.iter_mut().for_each(|value| *value /= self.text_len as f32);
        }
        if !vector.iter().all(|value| value.is_finite()) {
            return Some(FinishReason::NonFiniteLogits);
        }
        seq.kv_len += plan.tokens.len();
        emit(Event::Embedding(vector));
        Some(FinishReason::Stop)
    }

    /// Starts over after the sequence has given up its pages.
    pub(crate) fn reset(&mut self) {
        self.sum.clear();
    }

    /// Returns the number of tokens that run together, as long as more follow them.
    fn unit(&self) -> usize {
        match self.visibility {
            Visibility::Block(len) => len,
            Visibility::Causal | Visibility::Until(_) => 1,
        }
    }
}
