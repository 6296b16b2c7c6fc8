//! One token a step.

use super::{Decoder, Need, Outcome, Plan, SeqView};
use crate::sample::{Sampler, logprobs};

/// Scores of the prompt's tokens are wanted for at most this many at once: each is a row of the
/// whole vocabulary.
const SCORED_AT_ONCE: usize = 16;

/// Runs what is not yet in the pages; once all of it is, the last scores are the next token.
#[derive(Debug, Default)]
pub struct Autoregressive;

impl Decoder for Autoregressive {
    fn need(&self, seq: SeqView<'_>) -> Need {
        let tokens = seq.tokens.len() - seq.kv_len;
        Need { tokens, least: 1, reads: tokens > 1 }
    }

    fn plan(&mut self, seq: SeqView<'_>, budget: usize) -> Plan {
        let pending = &seq.tokens[seq.kv_len..];
        // A token's scores tell of the one after it.
        let told = prompt_rows(seq, pending.len());
        let run = match told {
            0 => pending.len().min(budget),
            _ => pending.len().min(budget).min(SCORED_AT_ONCE),
        };
        let mut want: Vec<_> = (0..told.min(run)).collect();
        if run == pending.len() {
            want.push(run - 1);
        }
        Plan::causal(seq.kv_len, &pending[..run], want)
    }

    fn absorb(
        &mut self,
        seq: SeqView<'_>,
        plan: &Plan,
        scores: &mut [f32],
        sampler: &mut Sampler,
    ) -> Option<Outcome> {
        let mut outcome = Outcome { keep: plan.tokens.len(), ..Outcome::default() };
        if plan.want.is_empty() {
            return Some(outcome);
        }
        let told = prompt_rows(seq, plan.tokens.len());
        let mut rows = scores.chunks_exact_mut(scores.len() / plan.want.len());
        if let Some(top) = seq.prompt_logprobs {
            for (row, &next) in rows.by_ref().take(told).zip(&seq.tokens[seq.kv_len + 1..]) {
                outcome.prompt.push(logprobs(row, next, top));
            }
        }
        if let Some(row) = rows.next() {
            outcome.commit.push(sampler.pick(row, seq.tokens.len())?);
        }
        Some(outcome)
    }
}

/// How many of the next `run` tokens come before a token of the prompt that is to be told.
fn prompt_rows(seq: SeqView<'_>, run: usize) -> usize {
    match seq.prompt_logprobs {
        Some(_) => run.min((seq.prompt_len - 1).saturating_sub(seq.kv_len)),
        None => 0,
    }
}
