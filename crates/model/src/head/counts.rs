//! What scans of the output head had to do.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a head, which go on while it works. Readable from any thread.
#[derive(Debug, Default)]
pub struct HeadCounts {
    picks: AtomicU64,
    candidates: AtomicU64,
    widened: AtomicU64,
    whole: AtomicU64,
    checked: AtomicU64,
}

impl HeadCounts {
    /// Rows whose best tokens were found by a scan.
    pub fn picks(&self) -> u64 {
        self.picks.load(Ordering::Relaxed)
    }

    /// Tokens that these scored from the table, all together.
    pub fn candidates(&self) -> u64 {
        self.candidates.load(Ordering::Relaxed)
    }

    /// Rows that were scanned again with all bits.
    pub fn widened(&self) -> u64 {
        self.widened.load(Ordering::Relaxed)
    }

    /// Rows that read the whole table after all.
    pub fn whole(&self) -> u64 {
        self.whole.load(Ordering::Relaxed)
    }

    /// Rows that were compared with the full head.
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
