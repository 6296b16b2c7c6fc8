//! Counts of what happened in simulated runs.

use std::collections::BTreeMap;

/// Everything that a simulation has to provoke: one in which it never happens does not test it.
const KINDS: [&str; 14] = [
    "accepted drafts",
    "cached tokens",
    "cancelled",
    "completed",
    "embedded",
    "failed",
    "filled masks",
    "late",
    "panics",
    "preemptions",
    "refused",
    "slow steps",
    "steps",
    "tokens",
];

/// Number of occurrences of each of [`KINDS`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report(BTreeMap<&'static str, u64>);

impl Report {
    pub(super) fn add(&mut self, kind: &'static str, count: u64) {
        *self.0.entry(kind).or_default() += count;
    }

    pub(super) fn get(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(kind, count)| self.add(kind, *count));
    }

    pub(super) fn assert_complete(&self) {
        for kind in KINDS {
            assert!(self.get(kind) > 0, "no {kind}: {self:?}");
        }
    }
}
