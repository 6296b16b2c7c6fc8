//! Matrices of four-bit codes: half of the bits of an int8 matrix, for a scan of half its bytes.
//!
//! A line is 64 bytes: sixteen rows times eight columns. Byte `4n + q` of line `i` is row `n` of the
//! strip, with column `8i + q` in its lower four bits and column `8i + 4 + q` in its upper ones. As
//! in an int8 matrix, four activations broadcast to all rows meet their weights in place.

use std::ops::Range;

use crate::arch::Lines;
use crate::int8::{Codes, Int8Sums, strip_dots};
use crate::line::{Line, MAX_COLS, STRIP, fill};
use crate::quant::RUN;
use crate::{Pool, QuantRow, Strip};

/// Columns in a line.
pub(crate) const NIBBLE_LINE_COLS: usize = 8;

/// A matrix of codes in 0..=15. What they stand for is known to the caller.
///
/// Against activations in -128..=127, a dot product of 2^17 columns is at most 15 * 128 * 2^17,
/// which is less than 2^28: products are exact.
pub struct NibbleMatrix {
    rows: usize,
    cols: usize,
    /// Rows are padded to whole strips and columns to whole runs of codes, both with zeros.
    lines: Lines,
}

impl NibbleMatrix {
    /// A matrix of zeros.
    ///
    /// # Panics
    ///
    /// If there are no columns or more than 131,072 (up to there the arithmetic is exact).
    pub fn new(rows: usize, cols: usize) -> Self {
        assert!((1..=MAX_COLS).contains(&cols), "{cols} columns, allowed are 1 to {MAX_COLS}");
        let lines_len = rows.div_ceil(STRIP) * lines_per_strip(cols);
        Self { rows, cols, lines: Lines::filled(Line([0; 64]), lines_len) }
    }

    /// Rows, without padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Strips of sixteen rows, the last of which may be padded.
    pub fn strips(&self) -> usize {
        self.rows.div_ceil(STRIP)
    }

    /// Bytes of codes, padding included.
    pub fn bytes_len(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Fills the whole matrix, strip by strip, on all threads of `pool`, as
    /// [`Int8Matrix::fill`](crate::Int8Matrix::fill) does.
    ///
    /// # Panics
    ///
    /// If `read` leaves a code that is not in 0..=15.
    pub fn fill<E: Send>(
        &mut self,
        pool: &Pool,
        read: impl Fn(Range<usize>, &mut [i8]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let cols = self.cols;
        let pack = |codes: &[i8], lines: &mut [Line]| pack_strip(codes, cols, lines);
        fill(pool, &mut self.lines, (self.rows, cols), read, pack)
    }

    /// Writes the codes of one row.
    pub fn unpack(&self, row: usize, out: &mut [i8]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.cols, "one code a column");
        let lines = self.strip_lines(row / STRIP);
        for (line, out) in lines.iter().zip(out.chunks_mut(NIBBLE_LINE_COLS)) {
            let bytes = &line.0[4 * (row % STRIP)..][..4];
            for (column, code) in out.iter_mut().enumerate() {
                *code = ((bytes[column % 4] >> (column / 4 * 4)) & 15).cast_signed();
            }
        }
    }

    fn strip_lines(&self, strip: usize) -> &[Line] {
        let len = lines_per_strip(self.cols);
        &self.lines[strip * len..][..len]
    }
}

fn lines_per_strip(cols: usize) -> usize {
    cols.next_multiple_of(RUN) / NIBBLE_LINE_COLS
}

/// Packs up to sixteen rows of codes.
fn pack_strip(codes: &[i8], cols: usize, lines: &mut [Line]) {
    assert!(codes.iter().all(|code| (0..16).contains(code)), "codes of four bits are 0 to 15");
    for (n, row) in codes.chunks_exact(cols).enumerate() {
        for (codes, line) in row.chunks(NIBBLE_LINE_COLS).zip(lines.iter_mut()) {
            let bytes = &mut line.0[4 * n..][..4];
            bytes.fill(0);
            for (column, code) in codes.iter().enumerate() {
                bytes[column % 4] |= code.cast_unsigned() << (column / 4 * 4);
            }
        }
    }
}

/// Lines of four-bit codes.
struct Nibbles;

impl Codes for Nibbles {
    const LINE_COLS: usize = NIBBLE_LINE_COLS;

    #[inline(always)]
    fn sums<C: Int8Sums, const T: usize>(
        cpu: C,
        lines: &[Line],
        xs: [&QuantRow; T],
    ) -> [[i32; STRIP]; T] {
        cpu.nibble_sums(lines, xs)
    }
}

#[inline(always)]
pub(crate) fn nibble_dots<C: Int8Sums>(
    cpu: C,
    w: &NibbleMatrix,
    strip: usize,
    xs: &[QuantRow],
    y: &mut Strip<'_, i32>,
) {
    let rows = w.rows.min(STRIP * (strip + 1)) - STRIP * strip;
    strip_dots::<C, Nibbles>(cpu, w.strip_lines(strip), rows, xs, y);
}

/// What [`Int8Sums::nibble_sums`] is, in plain code.
#[inline(always)]
pub(crate) fn plain_nibble_sums<const T: usize>(
    lines: &[Line],
    xs: [&QuantRow; T],
) -> [[i32; STRIP]; T] {
    let mut sums = [[0; STRIP]; T];
    for (sums, x) in sums.iter_mut().zip(xs) {
        for (line, codes) in lines.iter().zip(x.codes().as_chunks::<NIBBLE_LINE_COLS>().0) {
            for (sum, bytes) in sums.iter_mut().zip(line.0.as_chunks::<4>().0) {
                for (q, byte) in bytes.iter().enumerate() {
                    *sum += i32::from(byte & 15) * i32::from(codes[q]);
                    *sum += i32::from(byte >> 4) * i32::from(codes[q + 4]);
                }
            }
        }
    }
    sums
}
