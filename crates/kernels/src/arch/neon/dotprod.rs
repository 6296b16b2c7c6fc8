//! Integer lanes with `sdot`: four products of bytes in each of four lanes of 32 bits. The activations
//! are one of the four quads in a register, so they need not be broadcast.

use std::arch::aarch64::*;
use std::arch::asm;

use super::int::{self, shared_methods};
use super::{Dotprod, I8mm, Neon, i8mm};
use crate::arch::inlined;
use crate::int_lanes::{ColumnQuads, ColumnSums, IntLanes, QuadBlock, sums_for_dot_latency};
use crate::line::{Line, STRIP};

/// The four quarters of a line, four rows each.
type Quarters<T> = [T; 4];

/// Proof that the CPU has `sdot`.
pub(super) trait HasDotprod: Copy {
    /// See [`IntLanes::paired_line_sums`].
    #[inline(always)]
    fn paired_line_sums<const T: usize>(
        self,
        _lines: &[Line],
        _tokens: [&[i8]; T],
    ) -> Option<[[i32; STRIP]; T]> {
        None
    }
}

impl HasDotprod for Dotprod {}

impl HasDotprod for I8mm {
    /// `smmla` multiplies two rows by two tokens; for one token, `sdot` does as many products.
    #[inline(always)]
    fn paired_line_sums<const T: usize>(
        self,
        lines: &[Line],
        tokens: [&[i8]; T],
    ) -> Option<[[i32; STRIP]; T]> {
        // SAFETY: `self` exists, so the CPU has the features.
        (T > 1).then(|| unsafe { i8mm::line_sums(lines, tokens) })
    }
}

impl<D: HasDotprod> IntLanes for Neon<D> {
    type Bytes = Quarters<int8x16_t>;
    type Narrow = Quarters<int32x4_t>;
    type Sums = Quarters<int32x4_t>;
    type Quads<'a> = int8x16_t;

    inlined! {
        fn sums_per_row(tokens: usize, _short: bool) -> usize { sums_for_dot_latency(tokens) }

        fn load_bytes(self, line: &[u8; 64], _pass: usize) -> Self::Bytes {
            [0, 1, 2, 3].map(|part| int::load_16(line, part))
        }

        fn load_activations(self, activations: &[i8; 64], _pass: usize) -> Self::Bytes {
            [0, 1, 2, 3].map(|part| int::load_16(activations, part))
        }

        fn field(self, mut bytes: Self::Bytes, shift: usize, mask: u8) -> Self::Bytes {
            for quarter in &mut bytes {
                *quarter = int::field(*quarter, shift, mask);
            }
            bytes
        }

        fn signed(self, [a, b, c, d]: Self::Bytes) -> Self::Bytes {
            [int::signed(a), int::signed(b), int::signed(c), int::signed(d)]
        }

        fn quads(self, activations: &QuadBlock) -> int8x16_t {
            vld1q_s8(activations.as_flattened().as_ptr())
        }

        fn zero(self) -> Self::Narrow { self.splat_sums(0) }

        fn dot(
            self, mut sums: Self::Narrow, codes: Self::Bytes, activations: Self::Bytes,
        ) -> Self::Narrow {
            for i in 0..4 {
                sums[i] = sdot(sums[i], codes[i], activations[i]);
            }
            sums
        }

        fn dot_quad<const QUAD: usize>(
            self, mut sums: Self::Narrow, codes: Self::Bytes, quads: int8x16_t,
        ) -> Self::Narrow {
            for i in 0..4 {
                sums[i] = sdot_quad::<QUAD>(sums[i], codes[i], quads);
            }
            sums
        }

        fn splat_sums(self, value: i32) -> Self::Sums { [vdupq_n_s32(value); 4] }

        fn widen(self, mut sums: Self::Sums, narrow: Self::Narrow, _shift: usize) -> Self::Sums {
            for i in 0..4 {
                sums[i] = vaddq_s32(sums[i], narrow[i]);
            }
            sums
        }

        fn store_sums(self, sums: Self::Sums, out: &mut [i32; STRIP], _pass: usize) {
            int::store_columns(sums, out);
        }

        fn total(self, [a, b, c, d]: Self::Sums) -> i32 {
            vaddvq_s32(vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d)))
        }

        fn paired_line_sums<const T: usize>(
            self, lines: &[Line], tokens: [&[i8]; T],
        ) -> Option<[[i32; STRIP]; T]> {
            self.0.paired_line_sums(lines, tokens)
        }
    }

    shared_methods!();
}

/// `sdot`, whose intrinsic is not stable yet.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the CPU has the instruction, which works on registers only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// `sdot` with quad `QUAD` of `b` for every row.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot_quad<const QUAD: usize>(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_the_scalar_ones() {
        if super::super::detect_dotprod().is_some() {
            crate::sums::tests::check_sums(Neon(Dotprod(())));
        }
        if super::super::detect_i8mm().is_some() {
            crate::sums::tests::check_sums(Neon(I8mm(())));
        }
    }
}
