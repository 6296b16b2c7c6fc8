//! Counters of the engine, written by its thread and read by any.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::disk::DiskStats;
use crate::output::DecodeStats;

/// Snapshot of the engine's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Total K/V pages.
    pub pages: usize,
    /// Requests that wait for admission.
    pub waiting: usize,
    /// Requests that run.
    pub running: usize,
    /// K/V pages that running requests hold.
    pub pages_in_use: usize,
    /// K/V pages in the prefix cache that no request holds.
    pub cached_pages: usize,
    /// Forward passes.
    pub steps: u64,
    /// Prompt tokens of started requests.
    pub prompt_tokens: u64,
    /// Prompt tokens whose K/V was cached.
    pub cached_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// Passes that generated them, counted once per request in a pass.
    pub decode_passes: u64,
    /// Draft tokens that were verified.
    pub drafted_tokens: u64,
    /// Draft tokens that were accepted.
    pub accepted_tokens: u64,
    /// Preemptions: a request released its pages to one of higher rank.
    pub preemptions: u64,
    /// Requests that were cancelled by their caller.
    pub cancelled: u64,
    /// Steps that panicked; their requests ended with an error.
    pub failed_steps: u64,
    /// Neurons that were tested for zeros to skip.
    pub neurons: u64,
    /// Tested neurons whose gate was not positive.
    pub closed_gates: u64,
    /// Tested neurons whose int8 code was zero.
    pub zero_codes: u64,
    /// Counts of the prefix cache on disk.
    pub disk: DiskStats,
}

impl StatsSnapshot {
    /// Counts the tokens that a sequence has generated in a pass, and what its own counters gained by it.
    pub(crate) fn count(&mut self, generated: usize, before: DecodeStats, after: DecodeStats) {
        self.completion_tokens += generated as u64;
        self.decode_passes += (after.passes - before.passes) as u64;
        self.drafted_tokens += (after.drafted - before.drafted) as u64;
        self.accepted_tokens += (after.accepted - before.accepted) as u64;
    }

    /// Adds what another engine has counted. What it holds at the moment is not added.
    #[must_use]
    pub fn plus_counts_of(self, other: &Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            cached_tokens: self.cached_tokens + other.cached_tokens,
            completion_tokens: self.completion_tokens + other.completion_tokens,
            decode_passes: self.decode_passes + other.decode_passes,
            drafted_tokens: self.drafted_tokens + other.drafted_tokens,
            accepted_tokens: self.accepted_tokens + other.accepted_tokens,
            preemptions: self.preemptions + other.preemptions,
            cancelled: self.cancelled + other.cancelled,
            failed_steps: self.failed_steps + other.failed_steps,
            neurons: self.neurons + other.neurons,
            closed_gates: self.closed_gates + other.closed_gates,
            zero_codes: self.zero_codes + other.zero_codes,
            disk: self.disk.plus(&other.disk),
            ..self
        }
    }

    /// Adds both what another engine has counted and what it holds at the moment.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            pages: self.pages + other.pages,
            waiting: self.waiting + other.waiting,
            running: self.running + other.running,
            pages_in_use: self.pages_in_use + other.pages_in_use,
            cached_pages: self.cached_pages + other.cached_pages,
            ..self.plus_counts_of(other)
        }
    }
}

/// Counters of the engine. The lock is held only to change or copy them.
#[derive(Debug)]
pub(crate) struct Stats(Mutex<StatsSnapshot>);

impl Stats {
    pub(crate) fn new(pages: usize) -> Self {
        Self(Mutex::new(StatsSnapshot { pages, ..StatsSnapshot::default() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, StatsSnapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters whose values are `factor` times a prime each.
    fn counters(factor: usize) -> StatsSnapshot {
        let count = factor as u64;
        StatsSnapshot {
            pages: 2 * factor,
            waiting: 3 * factor,
            running: 5 * factor,
            pages_in_use: 7 * factor,
            cached_pages: 11 * factor,
            steps: 13 * count,
            prompt_tokens: 17 * count,
            cached_tokens: 19 * count,
            completion_tokens: 23 * count,
            decode_passes: 29 * count,
            drafted_tokens: 31 * count,
            accepted_tokens: 37 * count,
            preemptions: 41 * count,
            cancelled: 43 * count,
            failed_steps: 47 * count,
            neurons: 53 * count,
            closed_gates: 59 * count,
            zero_codes: 61 * count,
            disk: DiskStats {
                hits: 67 * count,
                misses: 71 * count,
                written: 73 * count,
                dropped: 79 * count,
                // The largest of the two, not the sum.
                bytes: 83,
            },
        }
    }

    #[test]
    fn a_sum_has_the_sum_of_every_counter() {
        assert_eq!(counters(1).plus(&counters(4)), counters(5));
        assert_eq!(counters(4).plus(&counters(1)), counters(5));
    }

    #[test]
    fn counts_are_added_without_what_the_other_engine_holds() {
        let (own, sum) = (counters(1), counters(5));
        let StatsSnapshot { pages, waiting, running, pages_in_use, cached_pages, .. } = own;
        let expected = StatsSnapshot { pages, waiting, running, pages_in_use, cached_pages, ..sum };
        assert_eq!(own.plus_counts_of(&counters(4)), expected);
    }
}
