//! Autoregressive decoding: one token per pass.

use wf_model::LogitsRow;

use super::mode::{Capabilities, Mode, ModeInfo, UnsupportedMode};
use super::{Decoder, Outcome, Pass, Plan, SeqState, TokenDemand};
use crate::logits::logprobs;

/// Maximum number of prompt tokens per pass while prompt logprobs are computed: each needs logits of the
/// whole vocabulary.
const MAX_PROMPT_LOGPROB_ROWS: usize = 16;

/// Runs the tokens that are not yet in the pages, and samples from the logits of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Autoregressive;

impl Mode for Autoregressive {
    fn info(&self) -> ModeInfo {
        ModeInfo { name: "autoregressive", summary: "one pass per token", ..ModeInfo::DEFAULT }
    }

    fn decoder(&self, model: Capabilities) -> Result<Box<dyn Decoder>, UnsupportedMode> {
        model.require_next_token(self.info().name)?;
        Ok(Box::new(Self))
    }
}

impl Decoder for Autoregressive {
    fn demand(&self, seq: &SeqState) -> TokenDemand {
        let is_prefill = seq.pending().len() > 1;
        TokenDemand { tokens: max_run(seq), min_tokens: 1, is_prefill }
    }

    fn plan(&mut self, seq: &SeqState, budget: usize) -> Plan {
        let pending = seq.pending();
        let prompt_rows = prompt_rows(seq, pending.len());
        let run = max_run(seq).min(budget);
        let mut scored: Vec<_> = (0..prompt_rows.min(run)).collect();
        if run == pending.len() {
            scored.push(run - 1);
        }
        Plan::causal(seq.kv_len, pending[..run].to_vec(), scored)
    }

    fn absorb(&mut self, pass: Pass<'_>) -> Option<Outcome> {
        let Pass { seq, plan, mut rows, sampler } = pass;
        let mut outcome = Outcome { keep: plan.tokens.len(), ..Outcome::default() };
        if plan.scored.is_empty() {
            return Some(outcome);
        }
        if let Some(top) = seq.prompt_logprobs {
            let prompt_rows = prompt_rows(seq, plan.tokens.len());
            for &next in seq.tokens[seq.kv_len + 1..].iter().take(prompt_rows) {
                // They were planned with all logits.
                let Some(LogitsRow::All(row)) = rows.next_row() else { break };
                outcome.prompt_logprobs.push(logprobs(row, next, top));
            }
        }
        if let Some(row) = rows.next_row() {
            outcome.commit.push(sampler.sample(row, seq.tokens.len())?);
        }
        Some(outcome)
    }
}

/// Returns the number of pending tokens that one pass can run.
fn max_run(seq: &SeqState) -> usize {
    let pending = seq.pending().len();
    match prompt_rows(seq, pending) {
        0 => pending,
        _ => pending.min(MAX_PROMPT_LOGPROB_ROWS),
    }
}

/// Returns how many of the next `run` tokens precede a prompt token whose logprobs are requested.
fn prompt_rows(seq: &SeqState, run: usize) -> usize {
    match seq.prompt_logprobs {
        Some(_) => run.min((seq.prompt_len - 1).saturating_sub(seq.kv_len)),
        None => 0,
    }
}
