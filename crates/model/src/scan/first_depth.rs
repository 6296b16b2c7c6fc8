//! The choice between a first scan of nibbles and one of bytes for draws with top-p.
//!
//! Where few tokens have most of the probability, as with trained models, bounds of nibbles tell which tokens top-p
//! keeps. Where they do not, a scan of nibbles is wasted, so it is left out after a few such draws. Tokens do not
//! depend on the choice.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of draws without nibbles after a wasted scan, doubled with each one up to a limit.
const MAX_SKIPPED: u32 = 64;

/// The success of nibbles in recent draws.
#[derive(Debug, Default)]
pub(super) struct FirstDepth {
    /// Number of draws that are still to do without nibbles.
    left: AtomicU32,
    /// Number of draws to do without nibbles after the next wasted scan.
    next: AtomicU32,
}

impl FirstDepth {
    /// Returns `true` if the next draw should begin with nibbles.
    pub(super) fn is_nibbles(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    /// Records whether nibbles were enough.
    pub(super) fn record(&self, enough: bool) {
        let next =
            if enough { 0 } else { (2 * self.next.load(Ordering::Relaxed)).clamp(1, MAX_SKIPPED) };
        self.next.store(next, Ordering::Relaxed);
        self.left.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wasted_scans_become_rare_and_one_success_ends_that() {
        let depth = FirstDepth::default();
        let mut tried = 0;
        for _ in 0..1000 {
            if depth.is_nibbles() {
                tried += 1;
                depth.record(false);
            }
        }
        assert!((10..30).contains(&tried), "{tried}");
        while !depth.is_nibbles() {}
        depth.record(true);
        assert!(depth.is_nibbles() && depth.is_nibbles());
    }
}
