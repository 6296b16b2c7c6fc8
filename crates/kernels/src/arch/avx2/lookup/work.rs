//! The buffers of a job. Threads share them, because a thread that waits for work needs none.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sums::BandSums;
use super::tables::lines;
use super::{BAND, BLOCK, CHUNK_LINES, MAX_ROWS, PASS_BYTES, Tokens};
use crate::arch::{Lines, Plain, numbers_mut};

// SAFETY: numbers, 32 bytes of them.
unsafe impl Plain for Tokens {}
// SAFETY: numbers, 64 bytes of them.
unsafe impl Plain for [i32; 16] {}
// SAFETY: a number of four bytes.
unsafe impl Plain for u32 {}

/// The buffers of a job.
pub(super) struct Work {
    indices: Lines,
    tables: Lines,
    bands: [BandSums; BLOCK / BAND],
}

impl Work {
    fn new() -> Self {
        Self {
            indices: lines(CHUNK_LINES * MAX_ROWS * size_of::<u32>()),
            tables: lines(PASS_BYTES),
            bands: std::array::from_fn(|_| BandSums::new()),
        }
    }

    /// Returns the indices, the tables of a pass and the sums of each band.
    pub(super) fn parts(&mut self) -> (&mut [u32], &mut [Tokens], &mut [BandSums]) {
        (numbers_mut(&mut self.indices), numbers_mut(&mut self.tables), &mut self.bands)
    }
}

static UNUSED: Mutex<Vec<Work>> = Mutex::new(Vec::new());

fn unused() -> MutexGuard<'static, Vec<Work>> {
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes sure that `threads` threads find buffers, so that [`take`] does not allocate in a job.
pub(super) fn reserve(threads: usize) {
    let mut unused = unused();
    while unused.len() < threads {
        unused.push(Work::new());
    }
}

pub(super) fn take() -> Work {
    let work = unused().pop();
    work.unwrap_or_else(Work::new)
}

pub(super) fn give_back(work: Work) {
    unused().push(work);
}
