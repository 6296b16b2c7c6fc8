//! Matrices of int8 codes, for scanning a large table such as the output head.
//!
//! A line is 64 bytes: sixteen rows times four columns, byte `4n + q` of line `i` being row `n` of
//! the strip, column `4i + q`. The lines of a strip lie one after the other, so four activations
//! broadcast to all rows meet their weights without any sum across a vector.
//!
//! A byte holds the code plus 128, because the four-way byte dot product of x86 wants one side
//! unsigned.

use std::ops::Range;

use crate::arch::Lines;
use crate::kv::PAGE_LEN;
use crate::line::{Line, MAX_COLS, STRIP, fill};
use crate::nibble::plain_nibble_sums;
use crate::quant::RUN;
use crate::{Kernel, Pool, QuantBatch, QuantRow, Strip};

/// Columns in a line.
pub(crate) const INT8_LINE_COLS: usize = 4;

/// What is added to a code to store it. Also the byte of code zero, and what undoes the addition: an
/// exclusive or.
pub(crate) const BIAS: u8 = 128;

/// How many tokens share one reading of a line.
const TOKENS: usize = 4;

/// A matrix of int8 codes in -127..=127. What a code of a row is worth is known to the caller.
///
/// Against activations in -128..=127, a dot product of 2^17 columns is at most 127 * 128 * 2^17,
/// which is less than 2^31: products are exact.
pub struct Int8Matrix {
    rows: usize,
    cols: usize,
    /// Rows are padded to whole strips and columns to whole runs of codes, both with zeros.
    lines: Lines,
}

impl Int8Matrix {
    /// A matrix of zeros.
    ///
    /// # Panics
    ///
    /// If there are no columns or more than 131,072 (up to there the arithmetic is exact).
    pub fn new(rows: usize, cols: usize) -> Self {
        assert!((1..=MAX_COLS).contains(&cols), "{cols} columns, allowed are 1 to {MAX_COLS}");
        let lines_len = rows.div_ceil(STRIP) * lines_per_strip(cols);
        Self { rows, cols, lines: Lines::filled(Line([BIAS; 64]), lines_len) }
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

    /// Fills the whole matrix, strip by strip, on all threads of `pool`.
    ///
    /// `read` is given a range of at most sixteen rows and writes their codes, row by row. The
    /// buffer holds old codes when it comes. If some strips cannot be read, the error of the first
    /// of them is returned and the content of the matrix is anything.
    ///
    /// # Panics
    ///
    /// If `read` leaves a -128.
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
        let place = 4 * (row % STRIP);
        for (line, out) in self.strip_lines(row / STRIP).iter().zip(out.chunks_mut(INT8_LINE_COLS))
        {
            for (code, byte) in out.iter_mut().zip(&line.0[place..]) {
                *code = (byte ^ BIAS).cast_signed();
            }
        }
    }

    fn strip_lines(&self, strip: usize) -> &[Line] {
        let len = lines_per_strip(self.cols);
        &self.lines[strip * len..][..len]
    }
}

fn lines_per_strip(cols: usize) -> usize {
    cols.next_multiple_of(RUN) / INT8_LINE_COLS
}

/// Packs up to sixteen rows of codes.
fn pack_strip(codes: &[i8], cols: usize, lines: &mut [Line]) {
    assert!(!codes.contains(&i8::MIN), "-128 is not a code of a matrix");
    for (n, row) in codes.chunks_exact(cols).enumerate() {
        for (codes, line) in row.chunks(INT8_LINE_COLS).zip(lines.iter_mut()) {
            for (byte, code) in line.0[4 * n..].iter_mut().zip(codes) {
                *byte = code.cast_unsigned() ^ BIAS;
            }
        }
    }
}

/// The exact dot products of every row of `w` with every row of `xs`: `y[t * w.rows() + r]`. Does
/// not allocate.
///
/// # Panics
///
/// If the shapes do not fit each other.
pub fn int8_products(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &Int8Matrix,
    xs: &QuantBatch,
    y: &mut [i32],
) {
    assert_eq!(y.len(), xs.rows().len() * w.rows(), "one result a token and row");
    pool.strips(y, w.rows(), STRIP, |strip, mut y| kernel.int8_dots(w, strip, xs.rows(), &mut y));
}

/// The integer heart of a product with small codes.
pub(crate) trait Int8Sums: Copy {
    /// For each of `T` tokens and each of sixteen rows, the exact sum of code times activation over
    /// `lines`, which are all of a strip. Each token has four activations a line.
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T];

    /// The same over lines of a [`NibbleMatrix`](crate::NibbleMatrix), with eight activations a line.
    #[inline(always)]
    fn nibble_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        plain_nibble_sums(lines, xs)
    }

    /// The same for the keys of sixteen positions, which are few columns.
    #[inline(always)]
    fn key_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        self.int8_sums(lines, xs)
    }

    /// For each of `T` rows of weights and of `B` times sixteen columns, the sum of weight times
    /// value over all positions, which the caller knows to fit into 32 bits.
    #[inline(always)]
    fn value_sums<const T: usize, const B: usize>(
        self,
        values: &impl ValuePages,
        first: usize,
        weights: [&[WeightPair]; T],
    ) -> [[[i32; 16]; B]; T] {
        let mut sums = [[[0; 16]; B]; T];
        for (sums, weights) in sums.iter_mut().zip(weights) {
            for (page, weights) in weights.chunks(PAGE_LEN / 2).enumerate() {
                let rows = values.page(page).chunks_exact(values.columns());
                for (row, [even, odd]) in rows.zip(weights) {
                    for (sums, pairs) in sums.iter_mut().zip(&row[first..]) {
                        for (sum, [a, b]) in sums.iter_mut().zip(pairs.as_chunks().0) {
                            *sum +=
                                i32::from(*even) * i32::from(*a) + i32::from(*odd) * i32::from(*b);
                        }
                    }
                }
            }
        }
        sums
    }
}

/// The weights of two neighbouring positions.
pub(crate) type WeightPair = [i16; 2];

/// Sixteen columns of two neighbouring positions, column by column.
pub(crate) type ValuePairs = [i8; 32];

/// Values in pages, two positions a row.
pub(crate) trait ValuePages {
    /// How many times sixteen columns a row has.
    fn columns(&self) -> usize;

    /// The rows of page `i`, one after the other.
    fn page(&self, i: usize) -> &[ValuePairs];
}

/// How wide the codes of a matrix are.
pub(crate) trait Codes {
    /// Columns in a line.
    const LINE_COLS: usize;

    /// The sums of [`Int8Sums`] for such lines.
    fn sums<C: Int8Sums, const T: usize>(
        cpu: C,
        lines: &[Line],
        xs: [&QuantRow; T],
    ) -> [[i32; STRIP]; T];
}

/// Lines of int8 codes.
struct Bytes;

impl Codes for Bytes {
    const LINE_COLS: usize = INT8_LINE_COLS;

    #[inline(always)]
    fn sums<C: Int8Sums, const T: usize>(
        cpu: C,
        lines: &[Line],
        xs: [&QuantRow; T],
    ) -> [[i32; STRIP]; T] {
        cpu.int8_sums(lines, xs)
    }
}

#[inline(always)]
pub(crate) fn int8_dots<C: Int8Sums>(
    cpu: C,
    w: &Int8Matrix,
    strip: usize,
    xs: &[QuantRow],
    y: &mut Strip<'_, i32>,
) {
    let rows = w.rows.min(STRIP * (strip + 1)) - STRIP * strip;
    strip_dots::<C, Bytes>(cpu, w.strip_lines(strip), rows, xs, y);
}

/// The dot products of a strip of `rows` rows, whose `lines` are given, with every row of `xs`.
#[inline(always)]
pub(crate) fn strip_dots<C: Int8Sums, K: Codes>(
    cpu: C,
    lines: &[Line],
    rows: usize,
    xs: &[QuantRow],
    y: &mut Strip<'_, i32>,
) {
    assert!(y.rows() == xs.len() && y.width() == rows, "the strip of w");
    let cols = lines.len() * K::LINE_COLS;
    assert!(xs.iter().all(|x| x.codes().len() == cols), "as many codes as columns");
    let (whole, rest) = xs.as_chunks::<TOKENS>();
    for (i, xs) in whole.iter().enumerate() {
        dots_of_tokens::<C, K, TOKENS>(cpu, lines, xs.each_ref(), y, i * TOKENS);
    }
    let done = whole.len() * TOKENS;
    match rest {
        [a, b, c] => dots_of_tokens::<C, K, 3>(cpu, lines, [a, b, c], y, done),
        [a, b] => dots_of_tokens::<C, K, 2>(cpu, lines, [a, b], y, done),
        [a] => dots_of_tokens::<C, K, 1>(cpu, lines, [a], y, done),
        _ => {}
    }
}

/// The strip times `T` tokens, the first of which is row `first` of `y`.
#[inline(always)]
fn dots_of_tokens<C: Int8Sums, K: Codes, const T: usize>(
    cpu: C,
    lines: &[Line],
    xs: [&QuantRow; T],
    y: &mut Strip<'_, i32>,
    first: usize,
) {
    for (t, sums) in K::sums(cpu, lines, xs).iter().enumerate() {
        let y = y.row(first + t);
        y.copy_from_slice(&sums[..y.len()]);
    }
}
