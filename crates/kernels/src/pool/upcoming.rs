//! The weights that the next run reads, which waiting workers fetch into their caches.
//!
//! While the caller computes what cannot be divided, the workers have nothing to do and memory rests. A
//! forward pass reads its matrices in a known order, so it announces each before it is needed, and a worker
//! that waits fetches the start of its share. A run never waits for this, and it changes no result.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::arch::prefetch;
use crate::share::share_of;

/// Bytes that a CPU fetches at once.
const LINE: usize = 64;

/// Maximum number of matrices that a run reads.
const MAX_MATRICES: usize = 3;

/// Maximum number of lines that a worker fetches: 128 KiB, a part of any level-two cache.
const MAX_LINES: usize = 2048;

/// Lines that a worker fetches between two looks at the gate.
const LINES_AT_ONCE: usize = 4;

/// The matrices that a run will read, as bytes.
#[derive(Clone, Copy)]
pub enum Upcoming<'a> {
    /// Unknown, or nothing worth fetching.
    Unknown,
    /// One after another: the share of a worker is a part of the whole.
    InTurn([&'a [u8]; MAX_MATRICES]),
    /// Side by side: the share of a worker is a part of each.
    Together([&'a [u8]; 2]),
}

/// The last announcement. Only addresses are kept, and nothing is read from them: a matrix may be dropped at
/// any time, and a worker that sees half of an announcement fetches lines that nobody needs.
#[derive(Default)]
pub(super) struct Announcement {
    number: AtomicUsize,
    together: AtomicBool,
    matrices: [Extent; MAX_MATRICES],
}

/// Address of a matrix, and the number of its lines.
#[derive(Default)]
struct Extent {
    address: AtomicUsize,
    lines: AtomicUsize,
}

impl Announcement {
    pub(super) fn set(&self, upcoming: Upcoming<'_>) {
        let (together, matrices) = match upcoming {
            Upcoming::Unknown => (false, [&[][..]; MAX_MATRICES]),
            Upcoming::InTurn(matrices) => (false, matrices),
            Upcoming::Together([first, second]) => (true, [first, second, &[]]),
        };
        self.together.store(together, Ordering::Relaxed);
        for (extent, bytes) in self.matrices.iter().zip(matrices) {
            extent.address.store(bytes.as_ptr().addr(), Ordering::Relaxed);
            extent.lines.store(bytes.len() / LINE, Ordering::Relaxed);
        }
        self.number.fetch_add(1, Ordering::Release);
    }
}

/// The lines that one worker has yet to fetch.
pub(super) struct Fetch {
    worker: usize,
    workers: usize,
    /// Number of the announcement that `left` is a part of.
    number: usize,
    /// Address of the next line and number of lines, for each matrix.
    left: [(usize, usize); MAX_MATRICES],
}

impl Fetch {
    pub(super) fn new(worker: usize, workers: usize) -> Self {
        Self { worker, workers, number: 0, left: [(0, 0); MAX_MATRICES] }
    }

    /// Starts to fetch a few lines of the last announcement. Returns `false` if none are left.
    pub(super) fn step(&mut self, announcement: &Announcement) -> bool {
        let number = announcement.number.load(Ordering::Acquire);
        if number != self.number {
            self.number = number;
            self.left = self.share(announcement);
        }
        let Some((address, lines)) = self.left.iter_mut().find(|(_, lines)| *lines > 0) else {
            return false;
        };
        for _ in 0..LINES_AT_ONCE.min(*lines) {
            prefetch(*address);
            *address += LINE;
            *lines -= 1;
        }
        true
    }

    /// Returns the start of this worker's share of each matrix.
    fn share(&self, announcement: &Announcement) -> [(usize, usize); MAX_MATRICES] {
        let extents = announcement.matrices.each_ref().map(|extent| {
            (extent.address.load(Ordering::Relaxed), extent.lines.load(Ordering::Relaxed))
        });
        if announcement.together.load(Ordering::Relaxed) {
            return extents.map(|(address, lines)| {
                let share = share_of(self.worker, self.workers, lines);
                (address + share.start * LINE, share.len().min(MAX_LINES / 2))
            });
        }
        let lines = extents.iter().map(|(_, lines)| lines).sum();
        let share = share_of(self.worker, self.workers, lines);
        let (mut skipped, mut left) = (share.start, share.len().min(MAX_LINES));
        extents.map(|(address, lines)| {
            let first = skipped.min(lines);
            let len = left.min(lines - first);
            skipped -= first;
            left -= len;
            (address + first * LINE, len)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of `bytes` that worker `worker` of four fetches of `upcoming`, parts of `bytes`.
    fn fetched(upcoming: Upcoming<'_>, bytes: &[u8], worker: usize) -> Vec<usize> {
        let announcement = Announcement::default();
        announcement.set(upcoming);
        let spans = Fetch::new(worker, 4).share(&announcement);
        let first = |address: usize| (address - bytes.as_ptr().addr()) / LINE;
        let lines = spans.iter().filter(|(_, lines)| *lines > 0);
        lines.flat_map(|&(address, lines)| first(address)..first(address) + lines).collect()
    }

    #[test]
    fn matrices_in_turn_are_shared_as_one() {
        let bytes = vec![0; 160 * LINE];
        let (query, rest) = bytes.split_at(60 * LINE);
        let (key, value) = rest.split_at(40 * LINE);
        let upcoming = Upcoming::InTurn([query, key, value]);
        assert!((0..4).flat_map(|worker| fetched(upcoming, &bytes, worker)).eq(0..160));
        assert!(fetched(upcoming, &bytes, 1).into_iter().eq(40..80));
    }

    #[test]
    fn matrices_together_are_shared_each() {
        let bytes = vec![0; 80 * LINE];
        let (gate, up) = bytes.split_at(40 * LINE);
        let share = fetched(Upcoming::Together([gate, up]), &bytes, 2);
        assert!(share.into_iter().eq((20..30).chain(60..70)));
    }

    #[test]
    fn a_worker_fetches_its_share_once_and_no_more_than_a_cache_holds() {
        let bytes = vec![0; (4 * MAX_LINES + 400) * LINE];
        let announcement = Announcement::default();
        announcement.set(Upcoming::InTurn([&bytes, &[], &[]]));
        let mut fetch = Fetch::new(1, 4);
        let steps = (0..).take_while(|_| fetch.step(&announcement)).count();
        assert_eq!(steps, MAX_LINES / LINES_AT_ONCE);
        announcement.set(Upcoming::Unknown);
        assert!(!fetch.step(&announcement));
    }
}
