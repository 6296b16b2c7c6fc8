//! Sums of quad lines with `smmla`: two rows by two tokens over eight columns, 32 products in one
//! instruction.

use std::arch::aarch64::*;
use std::arch::asm;

use super::int::field;
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};

/// Returns the sums of [`line_sums`](crate::sums::line_sums) for at most four
/// tokens, in two pairs. A token without a partner is paired with itself.
#[inline]
#[target_feature(enable = "neon,dotprod,i8mm")]
pub(super) fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
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
            let mut by_row_and_token = [0; 4];
            // SAFETY: writes an array of four integers.
            unsafe { vst1q_s32(by_row_and_token.as_mut_ptr(), sums) };
            *rows = [by_row_and_token[t % 2], by_row_and_token[2 + t % 2]];
        }
    }
    results
}

/// Returns the first eight activations of two tokens, and the last eight.
#[inline]
#[target_feature(enable = "neon")]
fn pair_of_tokens(a: &[i8; 16], b: &[i8; 16]) -> [int8x16_t; 2] {
    // SAFETY: reads arrays of sixteen bytes.
    let (a, b) = unsafe { (vld1q_s8(a.as_ptr()), vld1q_s8(b.as_ptr())) };
    let (a, b) = (vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b));
    [vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))]
}

/// Returns the first eight codes of rows 0 and 1 of a quarter, and the last eight, and the same of rows
/// 2 and 3. A field has four columns of each row, so two fields side by side make eight.
#[inline]
#[target_feature(enable = "neon")]
fn pairs_of_rows(bytes: &[u8; 16]) -> [[int8x16_t; 2]; 2] {
    // SAFETY: reads an array of sixteen bytes.
    let bytes = unsafe { vld1q_s8(bytes.as_ptr().cast()) };
    let [a, b, c, d] = [0, 2, 4, 6].map(|shift| vreinterpretq_s32_s8(field(bytes, shift, 3)));
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
