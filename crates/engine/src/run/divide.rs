//! Division of a step between the running sequences. `crate::fair` decides, from the claims of all callers.

use wf_model::Forward;

use super::Engine;
use crate::fair::Capacity;
use crate::sequence::Sequence;

impl<F: Forward> Engine<F> {
    /// Returns the share of each running sequence in the next step. One whose grammar is slow lets others run
    /// first, and so does one that lacks pages.
    pub(super) fn divide(&mut self) -> Vec<usize> {
        let all_in_debt = self.running.iter().all(Sequence::is_in_debt);
        let stuck = self.stuck();
        let takes_part = |(at, sequence): (usize, &Sequence)| {
            Some(at) != stuck && (all_in_debt || !sequence.is_in_debt())
        };
        let takes_part: Vec<_> = self.running.iter().enumerate().map(takes_part).collect();
        let running = self.running.iter().zip(&takes_part);
        let claims: Vec<_> =
            running.filter(|(_, takes)| **takes).map(|(sequence, _)| sequence.claim()).collect();
        let capacity =
            Capacity { rows: self.model.max_batch_tokens(), sequences: self.max_running };
        let mut shares = self.ledger.divide(&claims, capacity).into_iter();
        if let Some(at) = stuck {
            self.running[at].steps_without_pages += 1;
        }
        let share = |takes_part: bool| takes_part.then(|| shares.next()).flatten();
        takes_part.into_iter().map(share).map(Option::unwrap_or_default).collect()
    }

    /// Returns the sequence that waits for pages: the last one, if it lacks more than there are. With a share of
    /// the step it could keep the others, which would free pages, from running.
    fn stuck(&self) -> Option<usize> {
        let last = self.running.len().checked_sub(1).filter(|last| *last > 0)?;
        (self.running[last].missing_pages > self.store.available()).then_some(last)
    }
}
