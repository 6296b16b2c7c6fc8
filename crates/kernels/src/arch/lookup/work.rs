//! The buffers of a job.

use std::cell::RefCell;

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
pub(in crate::arch) struct Work {
    entries: Lines,
    tables: Lines,
    bands: [BandSums; BLOCK / BAND],
}

impl Work {
    fn new() -> Self {
        Self {
            entries: lines(CHUNK_LINES * MAX_ROWS * size_of::<u32>()),
            tables: lines(PASS_BYTES),
            bands: std::array::from_fn(|_| BandSums::new()),
        }
    }

    /// Returns the entries of a chunk of lines, the tables of a pass and the sums of each band.
    pub(super) fn parts(&mut self) -> (&mut [u32], &mut [Tokens], &mut [BandSums]) {
        (numbers_mut(&mut self.entries), numbers_mut(&mut self.tables), &mut self.bands)
    }
}

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Calls `job` with the buffers of this thread, which its first call allocates.
pub(in crate::arch) fn with_work(job: impl FnOnce(&mut Work)) {
    WORK.with_borrow_mut(|work| job(work.get_or_insert_with(Work::new)));
}
