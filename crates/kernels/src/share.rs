//! The distribution of the jobs of a run to workers.
//!
//! Each worker has a share of neighbouring jobs, always the same for the same number of jobs. It takes
//! jobs from the front of its share, so that it reads the weights of a product as one stream, and the
//! same weights in every pass. A worker without jobs takes from the back of other shares: if a worker
//! loses its CPU for a while, or wakes up late, the others do its work.
//!
//! Workers take an eighth of the remaining jobs at a time, so the last pieces are small and all workers
//! finish at about the same time.
//!
//! Nobody writes the shares before a run: a share that was last used in another run is untouched, and
//! whoever takes from it first knows its jobs from the number of jobs alone.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The divisor of the remaining jobs that are taken at once.
const PIECE: usize = 8;

/// Maximum number of groups of jobs in a run.
const MAX_GROUPS: usize = u16::MAX as usize;

/// The shares of all workers in one run.
pub(crate) struct Shares {
    shares: Vec<Share>,
    /// The number of the run, of which the lower 32 bits count.
    run: AtomicU64,
    jobs: AtomicUsize,
    /// Number of workers that have a share in this run.
    active: AtomicUsize,
}

/// The remaining groups of jobs of a share: `number of the run << 32 | first << 16 | end`. Aligned to two
/// cache lines, because CPUs fetch them in pairs.
#[repr(align(128))]
struct Share(AtomicU64);

impl Shares {
    /// Creates empty shares for `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        let shares = (0..workers).map(|_| Share(AtomicU64::new(0))).collect();
        let (jobs, active) = (AtomicUsize::new(0), AtomicUsize::new(workers));
        Self { shares, run: AtomicU64::new(0), jobs, active }
    }

    /// Starts run `run` with the jobs `0..jobs`, divided between the first `active` workers. Numbers of runs
    /// ascend from one, and no worker may be taking jobs.
    pub(crate) fn start(&self, run: u64, jobs: usize, active: usize) {
        if run as u32 == 0 {
            // From here on, the 32 bits of a share that was untouched since could name another run.
            self.store_all(pack(u32::MAX, 0..0));
        }
        self.run.store(run, Ordering::Relaxed);
        self.jobs.store(jobs, Ordering::Relaxed);
        self.active.store(active, Ordering::Relaxed);
    }

    /// Drops all remaining jobs.
    pub(crate) fn clear(&self) {
        self.store_all(pack(self.run.load(Ordering::Relaxed) as u32, 0..0));
    }

    fn store_all(&self, packed: u64) {
        for share in &self.shares {
            share.0.store(packed, Ordering::Relaxed);
        }
    }

    /// Returns some jobs for `worker`, from its own share or from another.
    pub(crate) fn take(&self, worker: usize) -> Option<Range<usize>> {
        let (run, jobs) = (self.run.load(Ordering::Relaxed), self.jobs.load(Ordering::Relaxed));
        let group_len = jobs.div_ceil(MAX_GROUPS).max(1);
        let workers = self.active.load(Ordering::Relaxed);
        let take = |owner: usize, from_front: bool| {
            let whole = share_of(owner, workers, jobs.div_ceil(group_len));
            self.shares[owner].take(run as u32, whole, |left, piece| {
                if from_front {
                    (left.start..left.start + piece, left.start + piece..left.end)
                } else {
                    (left.end - piece..left.end, left.start..left.end - piece)
                }
            })
        };
        let own = (worker < workers).then(|| take(worker, true)).flatten();
        let groups = own.or_else(|| {
            let mut others = (worker + 1..workers).chain(0..worker.min(workers));
            others.find_map(|other| take(other, false))
        })?;
        Some(groups.start * group_len..jobs.min(groups.end * group_len))
    }
}

impl Share {
    /// Takes the first of the two ranges into which `cut` divides the remaining groups, which are `whole`
    /// if the share is untouched in this run.
    fn take(
        &self,
        run: u32,
        whole: Range<usize>,
        cut: impl Fn(Range<usize>, usize) -> (Range<usize>, Range<usize>),
    ) -> Option<Range<usize>> {
        let mut packed = self.0.load(Ordering::Relaxed);
        loop {
            let (last_run, left) = unpack(packed);
            let left = if last_run == run { left } else { whole.clone() };
            if left.is_empty() {
                return None;
            }
            let piece = (left.len() / PIECE).max(1);
            let (taken, rest) = cut(left, piece);
            // The opening of the gate orders memory accesses of jobs, not this.
            match self.0.compare_exchange_weak(
                packed,
                pack(run, rest),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(taken),
                Err(now) => packed = now,
            }
        }
    }
}

/// Returns the jobs in the share of `worker`.
pub(crate) fn share_of(worker: usize, workers: usize, jobs: usize) -> Range<usize> {
    jobs * worker / workers..jobs * (worker + 1) / workers
}

fn pack(run: u32, groups: Range<usize>) -> u64 {
    u64::from(run) << 32 | (groups.start as u64) << 16 | groups.end as u64
}

fn unpack(packed: u64) -> (u32, Range<usize>) {
    let part = |shift: u32| usize::from((packed >> shift) as u16);
    ((packed >> 32) as u32, part(16)..part(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_alone_does_its_own_share_in_order_and_then_the_others() {
        let shares = Shares::new(3);
        shares.start(1, 100, 3);
        let mut done = Vec::new();
        while let Some(jobs) = shares.take(1) {
            done.extend(jobs);
        }
        assert!(done[..33].iter().copied().eq(33..66), "its own, from the front");
        done.sort_unstable();
        assert!(done.into_iter().eq(0..100), "every job once");
    }

    #[test]
    fn others_take_from_the_back() {
        let shares = Shares::new(2);
        shares.start(1, 64, 2);
        while shares.take(1).is_some_and(|jobs| jobs.start >= 32) {}
        let first = shares.take(0).unwrap();
        assert_eq!(first.start, 0, "the front is still the owner's");
        let rest: usize = std::iter::from_fn(|| shares.take(0)).map(|jobs| jobs.len()).sum();
        assert_eq!(first.len() + rest, 32 - 4, "one piece was taken");
    }

    #[test]
    fn few_jobs_go_to_as_many_workers() {
        let shares = Shares::new(4);
        shares.start(1, 4, 4);
        assert!((0..4).all(|worker| shares.take(worker) == Some(worker..worker + 1)));
        assert!((0..4).all(|worker| shares.take(worker).is_none()));
        shares.start(2, 4, 4);
        shares.clear();
        assert_eq!(shares.take(0), None);
    }

    #[test]
    fn a_worker_without_a_share_takes_from_the_others() {
        let shares = Shares::new(4);
        shares.start(1, 20, 2);
        let mut done: Vec<_> = shares.take(0).into_iter().chain(shares.take(1)).flatten().collect();
        assert_eq!(done, [0, 10], "two shares of ten");
        assert_eq!(shares.take(3), Some(9..10), "the back of the first");
        done.push(9);
        done.extend(std::iter::from_fn(|| shares.take(2)).flatten());
        done.sort_unstable();
        assert!(done.into_iter().eq(0..20), "every job once");
    }

    #[test]
    fn many_jobs_are_taken_in_groups_without_loss() {
        for jobs in [MAX_GROUPS, MAX_GROUPS + 1, 3 * MAX_GROUPS + 7] {
            let shares = Shares::new(3);
            shares.start(1, jobs, 3);
            let mut done: Vec<_> = (0..).map_while(|i| shares.take(i % 3)).flatten().collect();
            done.sort_unstable();
            assert!(done.into_iter().eq(0..jobs), "every job once");
        }
    }

    #[test]
    fn a_share_that_rested_while_numbers_wrapped_is_whole_again() {
        let shares = Shares::new(2);
        let wrapped = 1 << 32;
        shares.start(5, 2, 2);
        assert_eq!((shares.take(1), shares.take(0)), (Some(1..2), Some(0..1)));
        // Run 5 once more, as far as the 32 bits of a share can tell.
        shares.start(wrapped, 0, 2);
        shares.start(wrapped + 5, 2, 2);
        assert_eq!((shares.take(1), shares.take(0)), (Some(1..2), Some(0..1)));
    }
}
