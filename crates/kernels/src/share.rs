//! The distribution of the jobs of a run to workers.
//!
//! Each worker has a share of neighbouring jobs, always the same for the same number of jobs. It takes
//! jobs from the front of its share, so that it reads the weights of a product as one stream, and the
//! same weights in every pass. A worker without jobs takes from the back of other shares: if a worker
//! loses its CPU for a while, or wakes up late, the others do its work.
//!
//! Workers take an eighth of the remaining jobs at a time, so the last pieces are small and all workers
//! finish at about the same time.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The divisor of the remaining jobs that are taken at once.
const PIECE: usize = 8;

/// The shares of all workers in one run.
pub(crate) struct Shares(Vec<Share>);

/// The remaining jobs of a share: `first << 32 | end`. Aligned to two cache lines, because CPUs fetch
/// them in pairs.
#[repr(align(128))]
struct Share(AtomicU64);

impl Shares {
    /// Creates empty shares for `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Share(AtomicU64::new(0))).collect())
    }

    /// Distributes the jobs `0..jobs`. No worker may be taking any.
    pub(crate) fn deal(&self, jobs: usize) {
        assert!(u32::try_from(jobs).is_ok(), "{jobs} jobs, at most {} are allowed", u32::MAX);
        for (worker, share) in self.0.iter().enumerate() {
            share.0.store(pack(share_of(worker, self.0.len(), jobs)), Ordering::Relaxed);
        }
    }

    /// Drops all remaining jobs.
    pub(crate) fn clear(&self) {
        for share in &self.0 {
            share.0.store(0, Ordering::Relaxed);
        }
    }

    /// Returns some jobs for `worker`, from its own share or from another.
    pub(crate) fn take(&self, worker: usize) -> Option<Range<usize>> {
        let (before, from_own) = self.0.split_at(worker);
        let (own, after) = from_own.split_first()?;
        own.take(|left, piece| (left.start..left.start + piece, left.start + piece..left.end))
            .or_else(|| {
                after.iter().chain(before).find_map(|other| {
                    other.take(|left, piece| {
                        (left.end - piece..left.end, left.start..left.end - piece)
                    })
                })
            })
    }
}

impl Share {
    /// Takes the first of the two ranges into which `cut` divides the remaining jobs.
    fn take(
        &self,
        cut: impl Fn(Range<usize>, usize) -> (Range<usize>, Range<usize>),
    ) -> Option<Range<usize>> {
        let mut packed = self.0.load(Ordering::Relaxed);
        loop {
            let left = unpack(packed);
            if left.is_empty() {
                return None;
            }
            let piece = (left.len() / PIECE).max(1);
            let (taken, rest) = cut(left, piece);
            // The opening of the gate orders memory accesses of jobs, not this.
            match self.0.compare_exchange_weak(
                packed,
                pack(rest),
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

fn pack(jobs: Range<usize>) -> u64 {
    (jobs.start as u64) << 32 | jobs.end as u64
}

fn unpack(packed: u64) -> Range<usize> {
    (packed >> 32) as usize..(packed & u64::from(u32::MAX)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_alone_does_its_own_share_in_order_and_then_the_others() {
        let shares = Shares::new(3);
        shares.deal(100);
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
        shares.deal(64);
        while shares.take(1).is_some_and(|jobs| jobs.start >= 32) {}
        let first = shares.take(0).unwrap();
        assert_eq!(first.start, 0, "the front is still the owner's");
        let rest: usize = std::iter::from_fn(|| shares.take(0)).map(|jobs| jobs.len()).sum();
        assert_eq!(first.len() + rest, 32 - 4, "one piece was taken");
    }

    #[test]
    fn few_jobs_go_to_as_many_workers() {
        let shares = Shares::new(4);
        shares.deal(4);
        assert!((0..4).all(|worker| shares.take(worker) == Some(worker..worker + 1)));
        assert!((0..4).all(|worker| shares.take(worker).is_none()));
        shares.deal(4);
        shares.clear();
        assert_eq!(shares.take(0), None);
    }
}
