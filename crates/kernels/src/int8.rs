//! Matrices of int8 codes, for scanning a large table such as the output head.
//!
//! A line has 64 bytes, sixteen rows by four columns: byte `4n + q` of line `i` is row `n` of the
//! strip, column `4i + q`. The lines of a strip follow each other, so four activations broadcast to
//! all rows are multiplied in place, and no sum crosses a vector.
//!
//! A byte holds the code plus 128, because the byte dot product of x86 needs one unsigned operand.

use crate::ahead::Ahead;
use crate::code_matrix::{CodeMatrix, Packing};
use crate::int_lanes::CodeWidth;
use crate::line::{Line, STRIP};
use crate::sums::IntSums;
use crate::tiles::PAIR;
use crate::{Kernel, Pool, QuantBatch, QuantRow, Strip};

/// Columns in a line.
pub(crate) const INT8_LINE_COLS: usize = 4;

/// The bias of stored codes, which an exclusive or adds and removes. It is also the byte of code zero.
pub(crate) const BIAS: u8 = 128;

/// Tokens that share one load of a line.
const TOKENS: usize = 4;

/// A matrix of int8 codes in -127..=127.
///
/// With activations of -128..=127, a dot product of 2^17 columns is at most 127 * 128 * 2^17, which is
/// less than 2^31: products are exact.
pub type Int8Matrix = CodeMatrix<Bytes>;

/// Codes of eight bits.
pub struct Bytes;

impl Packing for Bytes {
    const LINE_COLS: usize = INT8_LINE_COLS;

    const ZEROS: u8 = BIAS;

    const OUT_OF_RANGE: &'static str = "codes of eight bits are -127 to 127";

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

/// Computes the exact dot products of every row of `w` with every row of `xs`: `y[t * w.rows() + r]`.
/// Does not allocate.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn int8_products(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &Int8Matrix,
    xs: &QuantBatch,
    y: &mut [i32],
) {
    assert_eq!(y.len(), xs.rows().len() * w.rows(), "one result a token and row");
    pool.strips(y, w.rows(), PAIR, |pair, mut y| int8_pair_dots(kernel, w, pair, xs, &mut y));
}

/// Computes the exact dot products of the [`PAIR`] rows `PAIR * pair ..` of `w` with every row of `xs`, by
/// tiles if `xs` has been quantized to them. `y.row(t)` receives those of row `t`. Does not allocate.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn int8_pair_dots(
    kernel: &dyn Kernel,
    w: &Int8Matrix,
    pair: usize,
    xs: &QuantBatch,
    y: &mut Strip<'_, i32>,
) {
    if let Some(tiles) = kernel.tile_kernel().filter(|_| xs.tiles().tiles_per_band() > 0) {
        return tiles.int8_dots(w, pair, xs, y);
    }
    each_strip(w, pair, y, |strip, y| kernel.int8_dots(w, strip, xs.rows(), y));
}

/// Calls `dots` for each strip of a pair, with its columns of `y`.
pub(crate) fn each_strip<P: Packing>(
    w: &CodeMatrix<P>,
    pair: usize,
    y: &mut Strip<'_, i32>,
    dots: impl Fn(usize, &mut Strip<'_, i32>),
) {
    for (i, strip) in (2 * pair..w.strips().min(2 * (pair + 1))).enumerate() {
        dots(strip, &mut y.columns(STRIP * i, w.strip_height(strip)));
    }
}

impl CodeWidth for Bytes {
    const BITS: usize = 8;
    const MAX: usize = 127;
    const SIGNED: bool = true;
}

/// Computes the dot products of a strip of `w` with every row of `xs`.
#[inline(always)]
pub(crate) fn strip_dots<C: IntSums, K: Packing + CodeWidth>(
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
        let lines = (lines, Ahead::next_strip(lines, i, whole.len()));
        dots_of_tokens::<C, K, TOKENS>(cpu, lines, xs.each_ref(), y, i * TOKENS);
    }
    let done = whole.len() * TOKENS;
    // A rest behind whole groups prefetches nothing.
    let lines = (lines, Ahead::next_strip(lines, whole.len(), whole.len()));
    match rest {
        [a, b, c] => dots_of_tokens::<C, K, 3>(cpu, lines, [a, b, c], y, done),
        [a, b] => dots_of_tokens::<C, K, 2>(cpu, lines, [a, b], y, done),
        [a] => dots_of_tokens::<C, K, 1>(cpu, lines, [a], y, done),
        _ => {}
    }
}

/// Computes the dot products with `T` tokens, the first of which is row `first` of `y`.
#[inline(always)]
fn dots_of_tokens<C: IntSums, K: Packing + CodeWidth, const T: usize>(
    cpu: C,
    (lines, ahead): (&[Line], Ahead),
    xs: [&QuantRow; T],
    y: &mut Strip<'_, i32>,
    first: usize,
) {
    for (t, sums) in cpu.code_sums::<K, T>(lines, xs, ahead.for_tokens::<T>()).iter().enumerate() {
        let y = y.row(first + t);
        y.copy_from_slice(&sums[..y.len()]);
    }
}
