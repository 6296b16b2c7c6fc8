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
