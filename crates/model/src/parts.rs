//! Where the time of a forward pass goes.
//!
//! A clock with laps, off unless [`Model::start_clock`](crate::Model::start_clock) asks for it: the
//! time since the last lap belongs to the part named at the next one, so the parts of a pass add up
//! to the whole of it.

use std::time::{Duration, Instant};

/// A part of the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Looking up the rows of the tokens.
    Embedding,
    /// The norms, and the quantising after them.
    Norms,
    /// The products that make queries, keys and values.
    QueryKeyValue,
    /// Turning queries and keys, and writing keys and values to the pages.
    Rotary,
    /// The heads.
    Attention,
    /// The product from the heads back to the hidden state, and its residual sum.
    Output,
    /// The products that make gate and up, and the activation.
    GateUp,
    /// The product from the neurons back to the hidden state, and its residual sum.
    Down,
    /// The last norm and the output head.
    Head,
}

impl Part {
    /// Every part, in the order of the pass.
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

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Norms => "norms",
            Self::QueryKeyValue => "qkv",
            Self::Rotary => "rotary",
            Self::Attention => "attention",
            Self::Output => "o",
            Self::GateUp => "gate+up",
            Self::Down => "down",
            Self::Head => "head",
        }
    }
}

/// The time spent in each part.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartTimes([Duration; Part::ALL.len()]);

impl PartTimes {
    /// The time of one part.
    pub fn of(&self, part: Part) -> Duration {
        self.0[part as usize]
    }

    /// The time of all parts together.
    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// The clock a pass carries; without a time of the last lap it stands still.
#[derive(Default)]
pub(crate) struct Clock {
    last_lap: Option<Instant>,
    times: PartTimes,
}

impl Clock {
    /// Runs from zero.
    pub(crate) fn start(&mut self) {
        *self = Self { last_lap: Some(Instant::now()), times: PartTimes::default() };
    }

    /// Stands still, and says what it showed.
    pub(crate) fn stop(&mut self) -> PartTimes {
        std::mem::take(self).times
    }

    /// What went by since the last lap belongs to no part: a pass begins.
    pub(crate) fn skip(&mut self) {
        self.last_lap = self.last_lap.map(|_| Instant::now());
    }

    /// What went by since the last lap was `part`.
    pub(crate) fn lap(&mut self, part: Part) {
        if let Some(last) = self.last_lap {
            let now = Instant::now();
            self.times.0[part as usize] += now - last;
            self.last_lap = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_not_started_shows_nothing() {
        let mut clock = Clock::default();
        clock.skip();
        clock.lap(Part::Head);
        assert_eq!(clock.stop().total(), Duration::ZERO);
    }

    #[test]
    fn laps_go_to_the_part_they_name_and_skipped_time_to_none() {
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
        clock.lap(Part::Down);
        tick();
        clock.lap(Part::Head);
        let pass = pass.elapsed();
        let times = clock.stop();
        assert!(times.of(Part::Down) >= Duration::from_micros(50));
        assert!(times.of(Part::Head) >= Duration::from_micros(50));
        assert_eq!(times.of(Part::Down) + times.of(Part::Head), times.total());
        assert!(times.total() <= pass, "skipped time is not in it");
        clock.lap(Part::Norms);
        assert_eq!(clock.stop().total(), Duration::ZERO, "it stands still again");
    }

    #[test]
    fn every_part_has_its_place() {
        for (place, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, place);
        }
    }
}
