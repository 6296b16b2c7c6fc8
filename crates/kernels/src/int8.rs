//! Matrices of int8 codes, for scanning a large table such as the output head.
//!
//! A line is 64 bytes: sixteen rows times four columns, byte `4n + q` of line `i` being row `n` of
//! the strip, column `4i + q`. The lines of a strip lie one after the other, so four activations
//! broadcast to all rows meet their weights without any sum across a vector.
//!
//! A byte holds the code plus 128, because the four-way byte dot product of x86 wants one side
//! unsigned.

use crate::code_matrix::{CodeMatrix, Packing};
use crate::kv::PAGE_LEN;
use crate::line::{Line, STRIP};
use crate::nibble::plain_nibble_sums;
use crate::{Kernel, Pool, QuantBatch, QuantRow, Strip};

/// Columns in a line.
pub(crate) const INT8_LINE_COLS: usize = 4;

/// What is added to a code to store it. Also the byte of code zero, and what undoes the addition: an
/// exclusive or.
pub(crate) const BIAS: u8 = 128;

/// How many tokens share one reading of a line.
const TOKENS: usize = 4;

/// A matrix of int8 codes in -127..=127.
///
/// Against activations in -128..=127, a dot product of 2^17 columns is at most 127 * 128 * 2^17,
/// which is less than 2^31: products are exact.
pub type Int8Matrix = CodeMatrix<Bytes>;

/// Lines of int8 codes.
pub struct Bytes;

impl Packing for Bytes {
    const LINE_COLS: usize = INT8_LINE_COLS;

    const ZEROS: u8 = BIAS;

    const REFUSAL: &'static str = "-128 is not a code of a matrix";

    fn allows(code: i8) -> bool {
        code != i8::MIN
    }

    fn pack(codes: &[i8], bytes: &mut [u8; 4]) {
        for (byte, code) in bytes.iter_mut().zip(codes) {
            *byte = code.cast_unsigned() ^ BIAS;
        }
    }

    fn unpack(bytes: [u8; 4], codes: &mut [i8]) {
        for (code, byte) in codes.iter_mut().zip(bytes) {
            *code = (byte ^ BIAS).cast_signed();
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

/// Codes that can be multiplied.
pub(crate) trait Codes: Packing {
    /// The sums of [`Int8Sums`] for such lines.
    fn sums<C: Int8Sums, const T: usize>(
        cpu: C,
        lines: &[Line],
        xs: [&QuantRow; T],
    ) -> [[i32; STRIP]; T];
}

impl Codes for Bytes {
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
    strip_dots(cpu, w, strip, xs, y);
}

/// The dot products of a strip of `w` with every row of `xs`.
#[inline(always)]
pub(crate) fn strip_dots<C: Int8Sums, K: Codes>(
    cpu: C,
    w: &CodeMatrix<K>,
    strip: usize,
    xs: &[QuantRow],
    y: &mut Strip<'_, i32>,
) {
    assert!(y.rows() == xs.len() && y.width() == w.strip_height(strip), "the strip of w");
    let lines = w.strip_lines(strip);
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
