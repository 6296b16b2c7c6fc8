//! Sums on baseline NEON: bytes times bytes, added up in 16 bits.

use std::arch::aarch64::*;

use super::values::value_sums;
use super::{Neon, Widening, fields};
use crate::QuantRow;
use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums, ValuePages, WeightPair};
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::product::LineSums;

/// How many lines the 16-bit sums of [`line_sums`] can take before they are widened.
///
/// A product of a code (at most 2) and an activation (-128..=127) is in -256..=254, and a line has
/// four fields, so after 32 lines a sum is within 128 * -256 = -32768 and 128 * 254 = 32512, just
/// what 16 bits hold.
const LINES_IN_16_BITS: usize = 32;

impl LineSums for Neon<Widening> {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        // SAFETY: every CPU of this target has NEON.
        unsafe { line_sums(lines, tokens) }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
    let tokens = tokens.map(|codes| &codes.as_chunks::<LINE_COLS>().0[..lines.len()]);
    let mut sums = [[0; STRIP]; T];
    // Four rows of the strip at a time.
    for quarter in 0..4 {
        let mut wide = [[vdupq_n_s32(0); 2]; T];
        for (i, lines) in lines.chunks(LINES_IN_16_BITS).enumerate() {
            let tokens = tokens.map(|codes| &codes[LINES_IN_16_BITS * i..][..lines.len()]);
            let narrow = quarter_line_sums(lines, quarter, tokens);
            for (wide, narrow) in wide.iter_mut().zip(narrow) {
                *wide = [vpadalq_s16(wide[0], narrow[0]), vpadalq_s16(wide[1], narrow[1])];
            }
        }
        for (sums, [low, high]) in sums.iter_mut().zip(wide) {
            let rows = &mut sums.as_chunks_mut::<4>().0[quarter];
            // SAFETY: writes an array of four integers.
            unsafe { vst1q_s32(rows.as_mut_ptr(), vpaddq_s32(low, high)) };
        }
    }
    sums
}

/// The 16-bit sums, four for each of four rows, over at most [`LINES_IN_16_BITS`] lines.
#[inline]
#[target_feature(enable = "neon")]
fn quarter_line_sums<const T: usize>(
    lines: &[Line],
    quarter: usize,
    tokens: [&[[i8; LINE_COLS]]; T],
) -> [[int16x8_t; 2]; T] {
    let mut sums = [[vdupq_n_s16(0); 2]; T];
    for (i, line) in lines.iter().enumerate() {
        let fields = fields(&line.0.as_chunks::<16>().0[quarter]);
        for (field, trits) in fields.into_iter().enumerate() {
            for (sums, codes) in sums.iter_mut().zip(tokens) {
                let quad = broadcast(codes[i].as_chunks::<4>().0[field]);
                sums[0] = vmlal_s8(sums[0], vget_low_s8(trits), vget_low_s8(quad));
                sums[1] = vmlal_high_s8(sums[1], trits, quad);
            }
        }
    }
    sums
}

impl Int8Sums for Neon<Widening> {
    #[inline(always)]
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: every CPU of this target has NEON.
        unsafe { int8_sums(lines, xs) }
    }

    #[inline(always)]
    fn value_sums<const T: usize, const B: usize>(
        self,
        values: &impl ValuePages,
        first: usize,
        weights: [&[WeightPair]; T],
    ) -> [[[i32; 16]; B]; T] {
        // SAFETY: every CPU of this target has NEON.
        unsafe { value_sums(values, first, weights) }
    }
}

/// A product is at most 127 * 128 = 16256, so 16 bits hold the sum of two: lines go in pairs.
#[inline]
#[target_feature(enable = "neon")]
fn int8_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    let lines = lines.as_chunks::<2>().0;
    let tokens = xs.map(|x| &x.codes().as_chunks::<{ 2 * INT8_LINE_COLS }>().0[..lines.len()]);
    let bias = vdupq_n_u8(BIAS);
    let mut sums = [[0; STRIP]; T];
    // Four rows of the strip at a time.
    for quarter in 0..4 {
        let mut wide = [[vdupq_n_s32(0); 2]; T];
        for (i, pair) in lines.iter().enumerate() {
            let [first, second] = pair.each_ref().map(|line| {
                let bytes = &line.0.as_chunks::<16>().0[quarter];
                // SAFETY: reads an array of sixteen bytes.
                vreinterpretq_s8_u8(veorq_u8(unsafe { vld1q_u8(bytes.as_ptr()) }, bias))
            });
            for (wide, codes) in wide.iter_mut().zip(tokens) {
                let [a, b] = std::array::from_fn(|k| broadcast(codes[i].as_chunks::<4>().0[k]));
                let low = vmull_s8(vget_low_s8(first), vget_low_s8(a));
                let high = vmull_high_s8(first, a);
                let low = vmlal_s8(low, vget_low_s8(second), vget_low_s8(b));
                let high = vmlal_high_s8(high, second, b);
                *wide = [vpadalq_s16(wide[0], low), vpadalq_s16(wide[1], high)];
            }
        }
        for (sums, [low, high]) in sums.iter_mut().zip(wide) {
            let rows = &mut sums.as_chunks_mut::<4>().0[quarter];
            // SAFETY: writes an array of four integers.
            unsafe { vst1q_s32(rows.as_mut_ptr(), vpaddq_s32(low, high)) };
        }
    }
    sums
}

/// Four activations, for each of four rows.
#[inline]
#[target_feature(enable = "neon")]
fn broadcast(quad: [i8; 4]) -> int8x16_t {
    vreinterpretq_s8_s32(vdupq_n_s32(i32::from_le_bytes(quad.map(i8::cast_unsigned))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_what_scalar_says() {
        crate::product::tests::check_sums(Neon(Widening));
    }
}
