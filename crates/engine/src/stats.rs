//! Counters of the engine, written by its thread and read by any.

use std::sync::{Mutex, MutexGuard, PoisonError};

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
