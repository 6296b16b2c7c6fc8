//! Repeated measurements, their median and their spread.

use std::time::{Duration, Instant};

/// Durations of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    /// Median, in seconds.
    pub(crate) seconds: f64,
    /// Interquartile range as a fraction of the median; `None` for a single repeat.
    pub(crate) spread: Option<f64>,
    pub(crate) repeats: usize,
}

impl Timing {
    /// Summarizes durations, of which there must be at least one.
    pub(crate) fn of(mut seconds: Vec<f64>) -> Self {
        assert!(!seconds.is_empty(), "no durations");
        seconds.sort_by(f64::total_cmp);
        let median = quantile(&seconds, 0.5);
        let iqr = quantile(&seconds, 0.75) - quantile(&seconds, 0.25);
        let spread = (seconds.len() > 1 && median > 0.0).then(|| iqr / median);
        Self { seconds: median, spread, repeats: seconds.len() }
    }

    /// Returns the rate of something that happens `times` times in each repeat.
    pub(crate) fn per_second(&self, times: usize) -> f64 {
        times as f64 / self.seconds
    }
}

/// Returns a quantile of sorted `values`, with linear interpolation.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let index = share * (values.len() - 1) as f64;
    let (low, high) = (values[index.floor() as usize], values[index.ceil() as usize]);
    low + (high - low) * index.fract()
}

/// Limits of a repeated measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeats {
    /// Maximum number of repeats.
    pub(crate) max: usize,
    /// Time after which no further repeat is started.
    pub(crate) budget: Duration,
}

impl Repeats {
    /// Times `work` repeatedly, after a warm-up that counts only if there is no time for more.
    pub(crate) fn time(self, mut work: impl FnMut()) -> Timing {
        let start = Instant::now();
        let mut seconds = vec![timed(&mut work)];
        if start.elapsed() < self.budget && self.max > 1 {
            seconds.clear();
            while seconds.is_empty() || (seconds.len() < self.max && start.elapsed() < self.budget)
            {
                seconds.push(timed(&mut work));
            }
        }
        Timing::of(seconds)
    }

    /// Runs `cases` cases in turn, round after round, so that whatever slows the machine down slows all
    /// of them; the budget is that of one case. Returns the results of each case. The first round is a
    /// warm-up that counts only if there is no time for more.
    pub(crate) fn rounds<T>(self, cases: usize, mut run: impl FnMut(usize) -> T) -> Vec<Vec<T>> {
        let mut results: Vec<Vec<T>> = (0..cases).map(|_| Vec::new()).collect();
        let (start, budget) = (Instant::now(), self.budget * cases as u32);
        for round in 0..=self.max {
            if round > 0 && start.elapsed() >= budget {
                break;
            }
            for (case, results) in results.iter_mut().enumerate() {
                results.push(run(case));
            }
        }
        for results in results.iter_mut().filter(|results| results.len() > 1) {
            results.remove(0);
        }
        results
    }
}

/// Returns the seconds that `work` takes.
pub(crate) fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_repeat_does_not_change_the_median() {
        let timing = Timing::of(vec![2.0, 1.0, 900.0, 3.0, 2.0]);
        assert_eq!(timing, Timing { seconds: 2.0, spread: Some(0.5), repeats: 5 });
        assert_eq!(timing.per_second(10), 5.0);
    }

    #[test]
    fn even_counts_have_the_mean_of_two() {
        let timing = Timing::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(timing.seconds, 2.5);
        assert_eq!(timing.spread, Some(1.5 / 2.5));
    }

    #[test]
    fn one_repeat_has_no_spread() {
        assert_eq!(Timing::of(vec![1.0]).spread, None);
    }

    #[test]
    fn the_first_run_is_a_warm_up_unless_it_is_the_only_one() {
        let count = |repeats: Repeats| {
            let mut calls = 0;
            let timing = repeats.time(|| calls += 1);
            (calls, timing.repeats)
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(count(Repeats { max: 3, budget: hour }), (4, 3));
        assert_eq!(count(Repeats { max: 3, budget: Duration::ZERO }), (1, 1));
        assert_eq!(count(Repeats { max: 1, budget: hour }), (1, 1));
    }

    #[test]
    fn rounds_alternate_between_cases_and_drop_the_warm_up() {
        let order = |repeats: Repeats| {
            let mut calls = 0;
            repeats.rounds(2, |case| {
                calls += 1;
                (case, calls)
            })
        };
        let hour = Duration::from_secs(3600);
        let two = order(Repeats { max: 2, budget: hour });
        assert_eq!(two, [[(0, 3), (0, 5)], [(1, 4), (1, 6)]]);
        assert_eq!(order(Repeats { max: 2, budget: Duration::ZERO }), [[(0, 1)], [(1, 2)]]);
    }
}
