//! Counters of the engine, written by its thread and read by any.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::output::DecodeStats;

/// Declares the live counters and their snapshot.
macro_rules! stats {
    (gauges { $($(#[$gauge_doc:meta])* $gauge:ident,)* } counters { $($(#[$doc:meta])* $counter:ident,)* }) => {
        /// Counters of the engine. Each is exact at some moment; together they are consistent when nothing runs.
        #[derive(Debug, Default)]
        pub(crate) struct Stats {
            $(pub(crate) $gauge: Gauge,)*
            $(pub(crate) $counter: Counter,)*
        }

        /// Snapshot of the engine's counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct StatsSnapshot {
            /// Total K/V pages.
            pub pages: usize,
            $($(#[$gauge_doc])* pub $gauge: usize,)*
            $($(#[$doc])* pub $counter: u64,)*
        }

        impl Stats {
            pub(crate) fn snapshot(&self, pages: usize) -> StatsSnapshot {
                StatsSnapshot {
                    pages,
                    $($gauge: self.$gauge.get(),)*
                    $($counter: self.$counter.get(),)*
                }
            }
        }
    };
}

stats! {
    gauges {
        /// Requests that wait for admission.
        waiting,
        /// Requests that run.
        running,
        /// K/V pages that running requests hold.
        pages_in_use,
        /// K/V pages in the prefix cache that no request holds.
        cached_pages,
    }
    counters {
        /// Forward passes.
        steps,
        /// Prompt tokens of started requests.
        prompt_tokens,
        /// Prompt tokens whose K/V was cached.
        cached_tokens,
        /// Generated tokens.
        completion_tokens,
        /// Passes that generated them, counted once per request in a pass.
        decode_passes,
        /// Draft tokens that were verified.
        drafted_tokens,
        /// Draft tokens that were accepted.
        accepted_tokens,
        /// Preemptions: a request released its pages to one of higher rank.
        preemptions,
        /// Requests that were cancelled by their caller.
        cancelled,
        /// Steps that panicked; their requests ended with an error.
        failed_steps,
        /// Neurons that were tested for zeros to skip.
        neurons,
        /// Tested neurons whose gate was not positive.
        closed_gates,
        /// Tested neurons whose int8 code was zero.
        zero_codes,
    }
}

impl Stats {
    /// Adds what a step changed in a sequence's counters.
    pub(crate) fn add_decode(&self, before: DecodeStats, after: DecodeStats) {
        self.decode_passes.add(after.passes - before.passes);
        self.drafted_tokens.add(after.drafted - before.drafted);
        self.accepted_tokens.add(after.accepted - before.accepted);
    }
}

/// Counter that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Sets a counter that is maintained elsewhere.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Gauge that grows and shrinks.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicUsize);

impl Gauge {
    pub(crate) fn set(&self, value: usize) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Increments the gauge unless it has reached `limit`. Returns `true` if it was incremented.
    pub(crate) fn enter(&self, limit: usize) -> bool {
        let one_more = |now| (now < limit).then_some(now + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_does_not_exceed_its_limit() {
        let gauge = Gauge::default();
        assert!(gauge.enter(2) && gauge.enter(2) && !gauge.enter(2));
        gauge.leave();
        assert!(gauge.enter(2));
        assert_eq!(gauge.get(), 2);
    }
}
