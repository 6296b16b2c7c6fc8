//! Sums with `sdot`: four products of bytes added to each of four 32-bit sums. Its activations are one
//! of the four quads in a register, so that they need not be broadcast.

use std::arch::aarch64::*;
use std::arch::asm;

use super::values::value_sums;
use super::{Dotprod, Neon, fields, load, store};
use crate::QuantRow;
use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums, ValuePages, WeightPair};
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::product::{LineSums, sums_per_row};

/// For each quarter of a strip, four rows: the sums of one token.
type Quarters = [[int32x4_t; 4]; 4];

impl LineSums for Neon<Dotprod> {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { line_sums(lines, tokens) }
    }
}

#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
    let tokens = tokens.map(|codes| &codes.as_chunks::<LINE_COLS>().0[..lines.len()]);
    let mut sums: [Quarters; T] = [[[vdupq_n_s32(0); 4]; 4]; T];
    for (i, line) in lines.iter().enumerate() {
        for (quarter, bytes) in line.0.as_chunks::<16>().0.iter().enumerate() {
            let [a, b, c, d] = fields(bytes);
            for (sums, codes) in sums.iter_mut().zip(tokens) {
                let quads = load(&codes[i]);
                let sums = &mut sums[quarter];
                let place = |field| field % sums_per_row(T);
                sums[place(0)] = dot::<0>(sums[place(0)], a, quads);
                sums[place(1)] = dot::<1>(sums[place(1)], b, quads);
                sums[place(2)] = dot::<2>(sums[place(2)], c, quads);
                sums[place(3)] = dot::<3>(sums[place(3)], d, quads);
            }
        }
    }
    sums.map(|sums| total(sums))
}

impl Int8Sums for Neon<Dotprod> {
    #[inline(always)]
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { int8_sums(lines, xs) }
    }

    #[inline(always)]
    fn value_sums<const T: usize, const B: usize>(
        self,
        values: &impl ValuePages,
        first: usize,
        weights: [&[WeightPair]; T],
    ) -> [[[i32; 16]; B]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { value_sums(values, first, weights) }
    }
}

#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn int8_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    // As many lines as a register has quads.
    let lines = lines.as_chunks::<4>().0;
    let tokens = xs.map(|x| &x.codes().as_chunks::<{ 4 * INT8_LINE_COLS }>().0[..lines.len()]);
    let mut sums: [Quarters; T] = [[[vdupq_n_s32(0); 4]; 4]; T];
    for (i, lines) in lines.iter().enumerate() {
        for quarter in 0..4 {
            let [a, b, c, d] = lines.each_ref().map(|line| weights(&line.0, quarter));
            for (sums, codes) in sums.iter_mut().zip(tokens) {
                let quads = load(&codes[i]);
                let sums = &mut sums[quarter];
                let place = |line| line % sums_per_row(T);
                sums[place(0)] = dot::<0>(sums[place(0)], a, quads);
                sums[place(1)] = dot::<1>(sums[place(1)], b, quads);
                sums[place(2)] = dot::<2>(sums[place(2)], c, quads);
                sums[place(3)] = dot::<3>(sums[place(3)], d, quads);
            }
        }
    }
    sums.map(|sums| total(sums))
}

/// The weights of four rows in one line.
#[inline]
#[target_feature(enable = "neon")]
fn weights(line: &[u8; 64], quarter: usize) -> int8x16_t {
    let bytes = &line.as_chunks::<16>().0[quarter];
    // SAFETY: reads an array of sixteen bytes.
    let biased = unsafe { vld1q_u8(bytes.as_ptr()) };
    vreinterpretq_s8_u8(veorq_u8(biased, vdupq_n_u8(BIAS)))
}

/// `sdot`, whose intrinsic is not stable yet: adds to each sum the products of four bytes of `a` and
/// the four bytes of `b` that are quad `QUAD`.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot<const QUAD: i32>(sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sums = sums;
    // SAFETY: the CPU has the instruction, which works on registers only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.4b[{quad}]",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            quad = const QUAD,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// What the sums of each row add up to.
#[inline]
#[target_feature(enable = "neon")]
fn total(sums: Quarters) -> [i32; STRIP] {
    let mut rows = [0; STRIP];
    for (rows, [a, b, c, d]) in rows.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
        *rows = store(vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_what_scalar_says() {
        if let Some(cpu) = Neon::<Dotprod>::detect() {
            crate::product::tests::check_sums(*cpu);
        }
    }
}
