//! Counters of the scans of the output head.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a head. They can be read from any thread while it works.
#[derive(Debug, Default)]
pub struct HeadCounts {
    /// Rows whose best tokens a scan found.
    pub picks: Count,
    /// Candidate tokens of those rows, which were scored from the table.
    pub candidates: Count,
    /// Rows that were scanned again with all bits.
    pub widened: Count,
    /// Rows that read the whole table after all.
    pub whole: Count,
    /// Rows that were compared with the full head.
    pub checked: Count,
}

/// A counter.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }
}
