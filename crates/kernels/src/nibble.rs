//! Matrices of four-bit codes, with half the bytes of an int8 matrix.
//!
//! A line has 64 bytes, sixteen rows by eight columns: byte `4n + q` of line `i` is row `n` of the
//! strip, with column `8i + q` in its lower four bits and column `8i + 4 + q` in its upper four. As in
//! an int8 matrix, four activations broadcast to all rows are multiplied in place.

use crate::code_matrix::{CodeMatrix, Packing};
use crate::int_lanes::CodeWidth;
use crate::int8::each_strip;
use crate::{Kernel, QuantBatch, Strip};

/// Columns in a line.
pub(crate) const NIBBLE_LINE_COLS: usize = 8;

/// A matrix of codes in 0..=15.
///
/// With activations of -128..=127, a dot product of 2^17 columns is at most 15 * 128 * 2^17, which is
/// less than 2^28: products are exact.
pub type NibbleMatrix = CodeMatrix<Nibbles>;

/// Codes of four bits.
pub struct Nibbles;

impl Packing for Nibbles {
    const LINE_COLS: usize = NIBBLE_LINE_COLS;

    const ZEROS: u8 = 0;

    const OUT_OF_RANGE: &'static str = "codes of four bits are 0 to 15";

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

/// As [`int8_pair_dots`](crate::int8_pair_dots), for codes of four bits.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn nibble_pair_dots(
    kernel: &dyn Kernel,
    w: &NibbleMatrix,
    pair: usize,
    xs: &QuantBatch,
    y: &mut Strip<'_, i32>,
) {
    if let Some(tiles) = kernel.tile_kernel().filter(|_| xs.tiles().tiles_per_band() > 0) {
        return tiles.nibble_dots(w, pair, xs, y);
    }
    each_strip(w, pair, y, |strip, y| kernel.nibble_dots(w, strip, xs.rows(), y));
}

impl CodeWidth for Nibbles {
    const BITS: usize = 4;
    const MAX: usize = 15;
}
