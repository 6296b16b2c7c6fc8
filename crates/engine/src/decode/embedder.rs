//! Reads a text and joins the hidden states of its tokens to one vector.

use std::ops::Range;

use wf_model::{Pooling, Sees};

use super::{Abilities, Decoder, Need, Outcome, Plan, SeqView, Unsupported};
use crate::sample::Sampler;

/// Writes nothing: once all tokens have run, what they came to is the answer.
///
/// States are added one token after another, so the sum is the same however the text was cut.
#[derive(Debug)]
pub struct Embedder {
    pooling: Pooling,
    /// What a token sees: as in text that the model continues.
    sees: Sees,
    text_len: usize,
    pooled: Vec<f32>,
}

impl Embedder {
    /// For a text of `text_len` tokens, read by a model that can do so much.
    ///
    /// # Errors
    ///
    /// If the model reads whole blocks that no step has room for.
    pub fn new(pooling: Pooling, text_len: usize, can: Abilities) -> Result<Self, Unsupported> {
        let max_batch_tokens = can.max_batch_tokens;
        let sees = match can.blocks {
            Some(block) if !block.causal_context => Sees::Block(block.block_len),
            _ => Sees::Causal,
        };
        match sees {
            Sees::Block(len) if len > max_batch_tokens => Err(Unsupported(format!(
                "this model reads blocks of {len} tokens, but a step has {max_batch_tokens}"
            ))),
            _ => Ok(Self { pooling, sees, text_len, pooled: Vec::new() }),
        }
    }

    /// Tokens that have to run together, as long as more follow them.
    fn unit(&self) -> usize {
        match self.sees {
            Sees::Block(len) => len,
            Sees::Causal | Sees::Until(_) => 1,
        }
    }
}

impl Decoder for Embedder {
    fn need(&self, seq: SeqView<'_>) -> Need {
        let tokens = seq.tokens.len() - seq.kv_len;
        Need { tokens, least: tokens.min(self.unit()), reads: true }
    }

    fn plan(&mut self, seq: SeqView<'_>, budget: usize) -> Plan {
        let pending = &seq.tokens[seq.kv_len..];
        let run = match budget < pending.len() {
            true => budget - budget % self.unit(),
            false => pending.len(),
        };
        Plan { sees: self.sees, ..Plan::causal(seq.kv_len, &pending[..run], Vec::new()) }
    }

    fn absorb(
        &mut self,
        _seq: SeqView<'_>,
        plan: &Plan,
        _scores: &mut [f32],
        _sampler: &mut Sampler,
    ) -> Option<Outcome> {
        let mut outcome = Outcome { keep: plan.tokens.len(), ..Outcome::default() };
        if plan.at + plan.tokens.len() < self.text_len {
            return Some(outcome);
        }
        let mut embedding = std::mem::take(&mut self.pooled);
        if self.pooling == Pooling::Mean {
            embedding.iter_mut().for_each(|value| *value /= self.text_len as f32);
        }
        outcome.embedding = Some(embedding);
        outcome.embedding.as_ref()?.iter().all(|value| value.is_finite()).then_some(outcome)
    }

    fn pooled(&self, plan: &Plan) -> Range<usize> {
        let run = plan.tokens.len();
        match self.pooling {
            Pooling::Mean => 0..run,
            Pooling::First => 0..usize::from(plan.at == 0),
            Pooling::Last => (self.text_len - 1).saturating_sub(plan.at).min(run)..run,
        }
    }

    fn pool(&mut self, hidden: &[f32]) {
        match self.pooled.is_empty() {
            true => self.pooled.extend_from_slice(hidden),
            false => self.pooled.iter_mut().zip(hidden).for_each(|(sum, state)| *sum += state),
        }
    }

    fn runs_all(&self) -> bool {
        self.pooling != Pooling::Last
    }

    fn forget_pages(&mut self) {
        self.pooled.clear();
    }

    fn context(&self) -> Sees {
        self.sees
    }
}
