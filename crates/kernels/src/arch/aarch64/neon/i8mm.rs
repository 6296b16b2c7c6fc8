//! Sums with `smmla`, for several tokens: two rows by two tokens over eight columns, 32 products in one
//! instruction. For one token, `sdot` does as many.

use std::arch::aarch64::*;
use std::arch::asm;

use super::values::value_sums;
use super::{I8mm, Neon, dotprod, fields, load, store};
use crate::QuantRow;
use crate::int8::{Int8Sums, ValuePages, WeightPair};
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::product::LineSums;

impl LineSums for Neon<I8mm> {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { if T == 1 { dotprod::line_sums(lines, tokens) } else { line_sums(lines, tokens) } }
    }
}

impl Int8Sums for Neon<I8mm> {
    #[inline(always)]
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { dotprod::int8_sums(lines, xs) }
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

/// At most four tokens, in two pairs; what has no partner is its own.
#[inline]
#[target_feature(enable = "neon,dotprod,i8mm")]
fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
    let tokens = tokens.map(|codes| &codes.as_chunks::<LINE_COLS>().0[..lines.len()]);
    let token = |t: usize| tokens[t.min(T - 1)];
    let pairs = [[token(0), token(1)], [token(2), token(3)]];
    // By pair of tokens and pair of rows.
    let mut sums = [[vdupq_n_s32(0); STRIP / 2]; 2];
    for (i, line) in lines.iter().enumerate() {
        let activations = pairs.map(|[a, b]| pair_of_tokens(&a[i], &b[i]));
        for (quarter, bytes) in line.0.as_chunks::<16>().0.iter().enumerate() {
            let rows = pairs_of_rows(bytes);
            for (sums, activations) in sums.iter_mut().zip(activations).take(T.div_ceil(2)) {
                for (pair, halves) in rows.iter().enumerate() {
                    let sum = &mut sums[2 * quarter + pair];
                    *sum = matmul(*sum, halves[0], activations[0]);
                    *sum = matmul(*sum, halves[1], activations[1]);
                }
            }
        }
    }
    let mut results = [[0; STRIP]; T];
    for (t, results) in results.iter_mut().enumerate() {
        for (rows, sums) in results.as_chunks_mut::<2>().0.iter_mut().zip(sums[t / 2]) {
            let by_row_and_token = store(sums);
            *rows = [by_row_and_token[t % 2], by_row_and_token[2 + t % 2]];
        }
    }
    results
}

/// Of two tokens, the first eight activations of each, and the last eight.
#[inline]
#[target_feature(enable = "neon")]
fn pair_of_tokens(a: &[i8; 16], b: &[i8; 16]) -> [int8x16_t; 2] {
    let (a, b) = (vreinterpretq_s64_s8(load(a)), vreinterpretq_s64_s8(load(b)));
    [vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))]
}

/// Of rows 0 and 1, and of rows 2 and 3 of a quarter: the first eight codes of each, and the last
/// eight. A field has four columns of each row, so two fields side by side make eight.
#[inline]
#[target_feature(enable = "neon")]
fn pairs_of_rows(bytes: &[u8; 16]) -> [[int8x16_t; 2]; 2] {
    let [a, b, c, d] = fields(bytes).map(|field| vreinterpretq_s32_s8(field));
    let first = [vzip1q_s32(a, b), vzip1q_s32(c, d)].map(|codes| vreinterpretq_s8_s32(codes));
    let second = [vzip2q_s32(a, b), vzip2q_s32(c, d)].map(|codes| vreinterpretq_s8_s32(codes));
    [first, second]
}

/// `smmla`, whose intrinsic is not stable yet: with two rows of eight bytes each in `a` and in `b`,
/// adds `a[i] · b[j]` to sum `2i + j`.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn matmul(sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sums = sums;
    // SAFETY: the CPU has the instruction, which works on registers only.
    unsafe {
        asm!(
            "smmla {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_what_scalar_says() {
        if let Some(cpu) = Neon::<I8mm>::detect() {
            crate::product::tests::check_sums(*cpu);
        }
    }
}
