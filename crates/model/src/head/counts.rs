//! Counters of the scans of the output head.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a head. They can be read from any thread while it works.
#[derive(Debug, Default)]
pub struct HeadCounts {
    picks: AtomicU64,
    candidates: AtomicU64,
    widened: AtomicU64,
    whole: AtomicU64,
    checked: AtomicU64,
}

impl HeadCounts {
    /// Number of rows whose best tokens a scan found.
    pub fn picks(&self) -> u64 {
        self.picks.load(Ordering::Relaxed)
    }

    /// Number of candidate tokens of those rows, which were scored from the table.
    pub fn candidates(&self) -> u64 {
        self.candidates.load(Ordering::Relaxed)
    }

    /// Number of rows that were scanned again with all bits.
    pub fn widened(&self) -> u64 {
        self.widened.load(Ordering::Relaxed)
    }

    /// Number of rows that read the whole table after all.
    pub fn whole(&self) -> u64 {
        self.whole.load(Ordering::Relaxed)
    }

    /// Number of rows that were compared with the full head.
    pub fn checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    pub(crate) fn add_pick(&self, candidates: usize) {
        self.picks.fetch_add(1, Ordering::Relaxed);
        self.candidates.fetch_add(candidates as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_widened(&self) {
        self.widened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_whole(&self) {
        self.whole.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_checked(&self) {
        self.checked.fetch_add(1, Ordering::Relaxed);
    }
}
