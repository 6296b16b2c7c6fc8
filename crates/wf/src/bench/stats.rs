//! Repeats, their median and their spread.

use std::time::{Duration, Instant};

use serde::Serialize;

/// The seconds some repeats took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Timing {
    /// The median, in seconds.
    pub(super) seconds: f64,
    /// How far the middle half of the repeats lies apart, as a share of the median; of a single
    /// repeat nothing is known.
    pub(super) spread: Option<f64>,
    pub(super) repeats: usize,
}

impl Timing {
    /// What is told of these times, which are at least one.
    pub(super) fn of(mut seconds: Vec<f64>) -> Self {
        assert!(!seconds.is_empty(), "a median of something");
        seconds.sort_by(f64::total_cmp);
        let median = quantile(&seconds, 0.5);
        let middle_half = quantile(&seconds, 0.75) - quantile(&seconds, 0.25);
        let spread = (seconds.len() > 1 && median > 0.0).then(|| middle_half / median);
        Self { seconds: median, spread, repeats: seconds.len() }
    }

    /// How often a second something happens that happens `times` in each repeat.
    pub(super) fn per_second(&self, times: usize) -> f64 {
        times as f64 / self.seconds
    }
}

/// The value below which `share` of the sorted `values` lie, between neighbours in proportion.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let place = share * (values.len() - 1) as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// How long to go on repeating.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeats {
    /// At most this many.
    pub(super) most: usize,
    /// No new one after this long.
    pub(super) budget: Duration,
}

impl Repeats {
    /// Times `work` again and again, after a first go that does not count if there is time for it.
    pub(super) fn time(self, mut work: impl FnMut()) -> Timing {
        let start = Instant::now();
        let mut seconds = vec![timed(&mut work)];
        // The first go warms up: it counts only where it is all there is.
        if start.elapsed() < self.budget && self.most > 1 {
            seconds.clear();
            while seconds.is_empty() || (seconds.len() < self.most && start.elapsed() < self.budget)
            {
                seconds.push(timed(&mut work));
            }
        }
        Timing::of(seconds)
    }

    /// Times `work` as [`time`](Self::time) does, and `beside` in turn with it: what slows the
    /// machine down for a while slows both. The first go of both does not count.
    pub(super) fn time_beside(
        self,
        mut work: impl FnMut(),
        mut beside: impl FnMut(),
    ) -> (Timing, Timing) {
        let mut of_beside = Vec::new();
        let mut of_work = Vec::new();
        let start = Instant::now();
        while of_work.is_empty() || (of_work.len() <= self.most && start.elapsed() < self.budget) {
            of_work.push(timed(&mut work));
            of_beside.push(timed(&mut beside));
        }
        let without_first = |mut seconds: Vec<f64>| {
            if seconds.len() > 1 {
                seconds.remove(0);
            }
            Timing::of(seconds)
        };
        (without_first(of_work), without_first(of_beside))
    }
}

/// Seconds that `work` takes.
pub(super) fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_mind_one_slow_repeat() {
        let timing = Timing::of(vec![2.0, 1.0, 900.0, 3.0, 2.0]);
        assert_eq!(timing, Timing { seconds: 2.0, spread: Some(0.5), repeats: 5 });
        assert_eq!(timing.per_second(10), 5.0);
    }

    #[test]
    fn even_counts_take_the_middle_of_two() {
        let timing = Timing::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(timing.seconds, 2.5);
        assert_eq!(timing.spread, Some(1.5 / 2.5));
    }

    #[test]
    fn one_repeat_has_no_spread() {
        assert_eq!(Timing::of(vec![1.0]).spread, None);
    }

    #[test]
    fn the_first_go_warms_up_unless_it_is_all_there_is() {
        let count = |repeats: Repeats| {
            let mut calls = 0;
            let timing = repeats.time(|| calls += 1);
            (calls, timing.repeats)
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(count(Repeats { most: 3, budget: hour }), (4, 3));
        assert_eq!(count(Repeats { most: 3, budget: Duration::ZERO }), (1, 1));
        assert_eq!(count(Repeats { most: 1, budget: hour }), (1, 1));
    }
}
