//! Matrices of small integers as 64-byte lines in strips of sixteen rows.

use std::ops::Range;

use crate::arch::Lines;
use crate::{FirstError, Pool};

/// Output rows in a strip.
pub(crate) const STRIP: usize = 16;

/// Maximum number of columns: no integer sum in any kernel overflows, and the largest dot product of
/// trits, 128 * 2^17, is exact as an `f32`.
pub(crate) const MAX_COLS: usize = 1 << 17;

/// Sixteen rows by some columns, aligned so that no vector load crosses a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// Creates the lines of a matrix of `rows` by `cols`, strip by strip on all threads of `pool`.
///
/// `read` writes the numbers of at most sixteen rows, row by row, over old ones; `pack` turns them into
/// the lines of their strip, which hold `zeros` until then. If strips cannot be read, the error of the
/// first of them is returned.
pub(crate) fn packed<E: Send>(
    pool: &Pool,
    (rows, cols): (usize, usize),
    (zeros, lines_per_strip): (Line, usize),
    read: impl Fn(Range<usize>, &mut [i8]) -> Result<(), E> + Sync,
    pack: impl Fn(&[i8], &mut [Line]) + Sync,
) -> Result<Lines, E> {
    let strips = (rows.div_ceil(STRIP), lines_per_strip);
    let mut buffers = vec![vec![0; STRIP.min(rows) * cols]; pool.threads()];
    let first_error = FirstError::new();
    let lines = Lines::made(pool, zeros, strips, &mut buffers, |strip, lines, buffer| {
        let range = STRIP * strip..rows.min(STRIP * (strip + 1));
        let numbers = &mut buffer[..range.len() * cols];
        first_error.record(strip, read(range, numbers).map(|()| pack(numbers, lines)));
    });
    first_error.into_result(lines)
}
