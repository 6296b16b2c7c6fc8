//! Costs of a completion that scheduling has to know: those of a draft, and the time of a grammar.

use std::time::Duration;

use wf_model::Scoring;

use super::Generation;
use crate::row_costs::Head;

/// Divisor of a step's time: the share that the grammar of one sequence may use.
const GRAMMAR_SHARE: u32 = 20;

impl Generation {
    /// Returns the logits that the next pass needs without a draft, and with one.
    pub(crate) fn heads(&self) -> [Head; 2] {
        // A grammar knows the tokens that may come next, so their logits alone are computed.
        let without = self.sampler.plain_scoring();
        let with = self.sampler.scoring();
        [without, with]
            .map(|scoring| Head::of(self.sampler.logprobs.map_or(scoring, |_| Scoring::All)))
    }

    /// Accounts for the grammar's time in a step of this duration.
    pub(crate) fn settle_debt(&mut self, step: Duration) {
        self.grammar_debt += self.sampler.take_excess_time();
        self.grammar_debt = self.grammar_debt.saturating_sub(step / GRAMMAR_SHARE);
    }
}
