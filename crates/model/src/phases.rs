//! Time of each phase of the forward pass.
//!
//! A lap clock, off until [`Model::start_clock`](crate::Model::start_clock): the time since the last
//! lap is attributed to the phase of the next one, so the phases of a pass add up to its duration.

use std::time::{Duration, Instant};

/// A phase of the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Embedding lookup.
    Embedding,
    /// Norms, quantization, and the routing to experts.
    Norms,
    /// Query, key and value projections.
    QueryKeyValue,
    /// Rotation of queries and keys, and writes to the KV cache.
    Rotary,
    /// Attention over the KV cache.
    Attention,
    /// Output projection and residual sum.
    Output,
    /// Gate and up projections, and the activation.
    GateUp,
    /// Down projection and residual sum.
    Down,
    /// Final norm and output head.
    Head,
}

impl Phase {
    /// All phases, in the order of the pass.
    pub const ALL: [Self; 9] = [
        Self::Embedding,
        Self::Norms,
        Self::QueryKeyValue,
        Self::Rotary,
        Self::Attention,
        Self::Output,
        Self::GateUp,
        Self::Down,
        Self::Head,
    ];

    const NAMES: [&str; Self::ALL.len()] =
        ["embedding", "norms", "qkv", "rotary", "attention", "o", "gate+up", "down", "head"];

    /// Short name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Time spent in each phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseTimes([Duration; Phase::ALL.len()]);

impl PhaseTimes {
    /// Returns the time of one phase.
    pub fn of(&self, phase: Phase) -> Duration {
        self.0[phase as usize]
    }

    /// Returns the time of all phases together.
    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// The clock of a pass; stopped if there is no last lap.
#[derive(Default)]
pub(crate) struct Clock {
    last_lap: Option<Instant>,
    times: PhaseTimes,
}

impl Clock {
    pub(crate) fn start(&mut self) {
        *self = Self { last_lap: Some(Instant::now()), times: PhaseTimes::default() };
    }

    pub(crate) fn stop(&mut self) -> PhaseTimes {
        std::mem::take(self).times
    }

    /// Starts a lap without attributing the time since the last one.
    pub(crate) fn skip(&mut self) {
        self.last_lap = self.last_lap.map(|_| Instant::now());
    }

    /// Attributes the time since the last lap to `phase`.
    pub(crate) fn lap(&mut self, phase: Phase) {
        if let Some(last) = self.last_lap {
            let now = Instant::now();
            self.times.0[phase as usize] += now - last;
            self.last_lap = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_not_started_measures_nothing() {
        let mut clock = Clock::default();
        clock.skip();
        clock.lap(Phase::Head);
        assert_eq!(clock.stop().total(), Duration::ZERO);
    }

    #[test]
    fn laps_count_for_their_phase_and_skipped_time_for_none() {
        let tick = || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(50) {}
        };
        let mut clock = Clock::default();
        clock.start();
        tick();
        let pass = Instant::now();
        clock.skip();
        tick();
        clock.lap(Phase::Down);
        tick();
        clock.lap(Phase::Head);
        let pass = pass.elapsed();
        let times = clock.stop();
        assert!(times.of(Phase::Down) >= Duration::from_micros(50));
        assert!(times.of(Phase::Head) >= Duration::from_micros(50));
        assert_eq!(times.of(Phase::Down) + times.of(Phase::Head), times.total());
        assert!(times.total() <= pass, "skipped time is not in it");
        clock.lap(Phase::Norms);
        assert_eq!(clock.stop().total(), Duration::ZERO, "stopped again");
    }

    #[test]
    fn phases_are_listed_in_order() {
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, index);
        }
    }
}
