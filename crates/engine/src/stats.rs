//! Counters of what the engine does, written by its thread and read by anyone.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::request::Work;

/// What the engine has done and is doing. Each number is right at some moment; together they are
/// right when nothing runs.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) waiting: Gauge,
    pub(crate) running: Gauge,
    pub(crate) pages_in_use: Gauge,
    pub(crate) pages_kept: Gauge,
    pub(crate) steps: Counter,
    pub(crate) prompt_tokens: Counter,
    pub(crate) cached_tokens: Counter,
    pub(crate) reply_tokens: Counter,
    pub(crate) reply_passes: Counter,
    pub(crate) drafted_tokens: Counter,
    pub(crate) agreed_tokens: Counter,
    pub(crate) preemptions: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) failed_steps: Counter,
    pub(crate) neurons: Counter,
    pub(crate) closed_gates: Counter,
    pub(crate) zero_codes: Counter,
}

/// What the engine has done and is doing, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Requests that wait for their turn or their pages.
    pub waiting: usize,
    /// Requests being computed.
    pub running: usize,
    /// Pages of K/V in all.
    pub pages: usize,
    /// Pages that running requests hold.
    pub pages_in_use: usize,
    /// Pages kept for prompts that start alike.
    pub pages_kept: usize,
    /// Forward passes.
    pub steps: u64,
    /// Prompt tokens of requests that were started.
    pub prompt_tokens: u64,
    /// Those of them whose K/V was there already.
    pub cached_tokens: u64,
    /// Tokens written.
    pub reply_tokens: u64,
    /// Passes that wrote them, counted once for each request in a pass.
    pub reply_passes: u64,
    /// Tokens that were guessed and checked.
    pub drafted_tokens: u64,
    /// Those of them that were right.
    pub agreed_tokens: u64,
    /// How often a request gave its pages up to an older one.
    pub preemptions: u64,
    /// Requests whose listener went away.
    pub cancelled: u64,
    /// Steps that panicked; their requests were ended with an error.
    pub failed_steps: u64,
    /// Neurons that were looked at for zeros to skip.
    pub neurons: u64,
    /// Those of them whose gate was not positive.
    pub closed_gates: u64,
    /// Those of them whose int8 code was zero.
    pub zero_codes: u64,
}

impl Stats {
    /// Counts what a step added to a sequence's work.
    pub(crate) fn add_work(&self, before: Work, after: Work) {
        self.reply_passes.add(after.passes - before.passes);
        self.drafted_tokens.add(after.drafted - before.drafted);
        self.agreed_tokens.add(after.agreed - before.agreed);
    }

    pub(crate) fn snapshot(&self, pages: usize) -> StatsSnapshot {
        StatsSnapshot {
            waiting: self.waiting.get(),
            running: self.running.get(),
            pages,
            pages_in_use: self.pages_in_use.get(),
            pages_kept: self.pages_kept.get(),
            steps: self.steps.get(),
            prompt_tokens: self.prompt_tokens.get(),
            cached_tokens: self.cached_tokens.get(),
            reply_tokens: self.reply_tokens.get(),
            reply_passes: self.reply_passes.get(),
            drafted_tokens: self.drafted_tokens.get(),
            agreed_tokens: self.agreed_tokens.get(),
            preemptions: self.preemptions.get(),
            cancelled: self.cancelled.get(),
            failed_steps: self.failed_steps.get(),
            neurons: self.neurons.get(),
            closed_gates: self.closed_gates.get(),
            zero_codes: self.zero_codes.get(),
        }
    }
}

/// A number that goes up.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// For what is counted elsewhere.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicUsize);

impl Gauge {
    pub(crate) fn set(&self, value: usize) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// One more, unless there are `limit` already. Says whether there was room.
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
    fn nobody_enters_beyond_the_limit() {
        let gauge = Gauge::default();
        assert!(gauge.enter(2) && gauge.enter(2) && !gauge.enter(2));
        gauge.leave();
        assert!(gauge.enter(2));
        assert_eq!(gauge.get(), 2);
    }
}
