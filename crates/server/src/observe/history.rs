//! The last hour in samples, for the charts of the page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::time::{Interval, MissedTickBehavior, interval};
use utoipa::ToSchema;
use wf_engine::StatsSnapshot;

use super::memory::resident_bytes;
use super::metrics::Metrics;

/// Time between two samples.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);
/// Samples of an hour.
const MAX_SAMPLES: usize = 360;

/// State of the server at one moment. Totals are since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Sample {
    /// Milliseconds since 1970.
    time_ms: u64,
    /// Sequences being computed.
    running: usize,
    /// Sequences in the queue.
    waiting: usize,
    /// KV cache pages in use.
    kv_pages_in_use: usize,
    /// KV cache pages kept for prompts with the same prefix.
    kv_pages_kept: usize,
    /// Prompt tokens of all requests.
    prompt_tokens_total: u64,
    /// Generated tokens of all requests.
    generation_tokens_total: u64,
    /// Bytes of the process in memory; `null` where the system does not tell.
    resident_bytes: Option<u64>,
}

impl Sample {
    fn now(metrics: &Metrics, stats: &StatsSnapshot) -> Self {
        let (prompt_tokens_total, generation_tokens_total) = metrics.tokens();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            time_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
            running: stats.running,
            waiting: stats.waiting,
            kv_pages_in_use: stats.pages_in_use,
            kv_pages_kept: stats.cached_pages,
            prompt_tokens_total,
            generation_tokens_total,
            resident_bytes: resident_bytes(),
        }
    }
}

/// The samples of the last hour.
#[derive(Default)]
pub(crate) struct History(Mutex<VecDeque<Sample>>);

impl History {
    /// Returns a clock that ticks when the next sample is due.
    pub(crate) fn clock() -> Interval {
        let mut clock = interval(PERIOD);
        // A process that was suspended does not catch up.
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        clock
    }

    pub(crate) fn add(&self, metrics: &Metrics, stats: &StatsSnapshot) {
        self.push(Sample::now(metrics, stats));
    }

    /// Returns the samples, oldest first.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn push(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_older_than_an_hour_are_dropped() {
        let history = History::default();
        for running in 0..MAX_SAMPLES + 5 {
            history.push(Sample { running, ..Sample::default() });
        }
        let samples = history.samples();
        assert_eq!(samples.len(), MAX_SAMPLES);
        assert_eq!(PERIOD * MAX_SAMPLES as u32, Duration::from_secs(3600));
        assert_eq!((samples[0].running, samples[MAX_SAMPLES - 1].running), (5, MAX_SAMPLES + 4));
    }
}
