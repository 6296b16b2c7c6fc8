//! Matrices of four-bit codes: half of the bits of an int8 matrix, for a scan of half its bytes.
//!
//! A line is 64 bytes: sixteen rows times eight columns. Byte `4n + q` of line `i` is row `n` of the
//! strip, with column `8i + q` in its lower four bits and column `8i + 4 + q` in its upper ones. As
//! in an int8 matrix, four activations broadcast to all rows meet their weights in place.

use crate::code_matrix::{CodeMatrix, Packing};
use crate::int8::{Codes, Int8Sums, strip_dots};
use crate::line::{Line, STRIP};
use crate::{QuantRow, Strip};

/// Columns in a line.
pub(crate) const NIBBLE_LINE_COLS: usize = 8;

/// A matrix of codes in 0..=15.
///
/// Against activations in -128..=127, a dot product of 2^17 columns is at most 15 * 128 * 2^17,
/// which is less than 2^28: products are exact.
pub type NibbleMatrix = CodeMatrix<Nibbles>;

/// Lines of four-bit codes.
pub struct Nibbles;

impl Packing for Nibbles {
    const LINE_COLS: usize = NIBBLE_LINE_COLS;

    const ZEROS: u8 = 0;

    const REFUSAL: &'static str = "codes of four bits are 0 to 15";

    fn allows(code: i8) -> bool {
        (0..16).contains(&code)
    }

    fn pack(codes: &[i8], bytes: &mut [u8; 4]) {
        for (column, code) in codes.iter().enumerate() {
            bytes[column % 4] |= code.cast_unsigned() << (column / 4 * 4);
        }
    }

    fn unpack(bytes: [u8; 4], codes: &mut [i8]) {
        for (column, code) in codes.iter_mut().enumerate() {
            *code = ((bytes[column % 4] >> (column / 4 * 4)) & 15).cast_signed();
        }
    }
}

impl Codes for Nibbles {
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
    strip_dots(cpu, w, strip, xs, y);
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
