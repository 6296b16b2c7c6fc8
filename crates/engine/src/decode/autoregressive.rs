//! One token a step.

use wf_model::Sees;

use super::{Decoder, Outcome, Plan, SeqView};
use crate::sample::Sampler;

/// Runs what is not yet in the pages; once all of it is, the last scores are the next token.
#[derive(Debug, Default)]
pub struct Autoregressive;

impl Decoder for Autoregressive {
    fn plan(&mut self, seq: SeqView<'_>, budget: usize) -> Plan {
        let pending = &seq.tokens[seq.kv_len..];
        let run = pending.len().min(budget);
        let want = if run == pending.len() { vec![run - 1] } else { Vec::new() };
        Plan { at: seq.kv_len, tokens: pending[..run].to_vec(), sees: Sees::Causal, want }
    }

    fn absorb(
        &mut self,
        seq: SeqView<'_>,
        plan: &Plan,
        scores: &mut [f32],
        sampler: &mut Sampler,
    ) -> Option<Outcome> {
        let keep = plan.tokens.len();
        if plan.want.is_empty() {
            return Some(Outcome { keep, commit: Vec::new() });
        }
        let picked = sampler.pick(scores, seq.tokens.len())?;
        Some(Outcome { keep, commit: vec![picked] })
    }
}
