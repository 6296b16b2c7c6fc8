//! Baseline NEON, without dot product instructions: sixteen lanes are four registers, and so is a
//! line.

mod sparse;

use std::arch::aarch64::*;
use std::arch::asm;

use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums};
use crate::lanes::{F32x16, Simd};
use crate::line::{Line, STRIP};
use crate::product::LineSums;
use crate::ternary::LINE_COLS;
use crate::{Isa, QuantRow};

/// Every 64-bit Arm CPU has this.
#[derive(Clone, Copy)]
pub(super) struct Neon;

crate::arch::implement_kernel!(Neon, Isa::Neon);

/// An intrinsic, or an instruction that has none.
macro_rules! on_cpu {
    ($call:expr) => {{
        // SAFETY: every CPU of this target has NEON; pointers are to arrays of the size of the access.
        unsafe { $call }
    }};
}

/// Sixteen floats in four registers.
#[derive(Clone, Copy)]
pub(super) struct Lanes([float32x4_t; 4]);

impl Lanes {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Simd for Neon {
    type Lanes = Lanes;

    #[inline(always)]
    fn splat(self, value: f32) -> Lanes {
        Lanes([on_cpu!(vdupq_n_f32(value)); 4])
    }

    #[inline(always)]
    fn load(self, values: &[f32; 16]) -> Lanes {
        let quarters = values.as_chunks::<4>().0;
        Lanes(std::array::from_fn(|i| on_cpu!(vld1q_f32(quarters[i].as_ptr()))))
    }

    #[inline(always)]
    fn load_i32(self, values: &[i32; 16]) -> Lanes {
        let quarters = values.as_chunks::<4>().0;
        Lanes(std::array::from_fn(|i| on_cpu!(vcvtq_f32_s32(vld1q_s32(quarters[i].as_ptr())))))
    }

    #[inline(always)]
    fn load_bf16(self, values: &[u16; 16]) -> Lanes {
        let widen = |bits| on_cpu!(vreinterpretq_f32_u32(vshll_n_u16::<16>(bits)));
        Lanes(load_quarters(values).map(widen))
    }

    #[inline(always)]
    fn load_f16(self, values: &[u16; 16]) -> Lanes {
        Lanes(load_quarters(values).map(widen_f16))
    }
}

#[inline(always)]
fn load_quarters(values: &[u16; 16]) -> [uint16x4_t; 4] {
    let quarters = values.as_chunks::<4>().0;
    std::array::from_fn(|i| on_cpu!(vld1_u16(quarters[i].as_ptr())))
}

/// `fcvtl`, whose intrinsic takes a type that is not stable yet.
#[inline(always)]
fn widen_f16(bits: uint16x4_t) -> float32x4_t {
    let wide: float32x4_t;
    on_cpu!(asm!(
        "fcvtl {0:v}.4s, {1:v}.4h",
        out(vreg) wide,
        in(vreg) bits,
        options(pure, nomem, nostack, preserves_flags)
    ));
    wide
}

impl F32x16 for Lanes {
    #[inline(always)]
    fn store(self, out: &mut [f32; 16]) {
        for (quarter, out) in self.0.iter().zip(out.as_chunks_mut::<4>().0) {
            on_cpu!(vst1q_f32(out.as_mut_ptr(), *quarter));
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(vaddq_f32(a, b)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(vsubq_f32(a, b)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(vmulq_f32(a, b)))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(vdivq_f32(a, b)))
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(std::array::from_fn(|i| on_cpu!(vfmaq_f32(addend.0[i], self.0[i], factor.0[i]))))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // Not `vmaxq_f32`, which has its own mind about NaN and the sign of zero.
        self.zip(other, |a, b| on_cpu!(vbslq_f32(vcgtq_f32(a, b), a, b)))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| on_cpu!(vbslq_f32(vcltq_f32(a, b), a, b)))
    }

    #[inline(always)]
    fn max_abs(self, other: Self) -> Self {
        // Magnitudes compare like their bits, and a NaN is above infinity.
        let magnitude = |x| on_cpu!(vreinterpretq_u32_f32(vabsq_f32(x)));
        self.zip(other, |a, b| {
            on_cpu!(vreinterpretq_f32_u32(vmaxq_u32(magnitude(a), magnitude(b))))
        })
    }

    #[inline(always)]
    fn round(self) -> Self {
        Self(self.0.map(|x| on_cpu!(vrndnq_f32(x))))
    }

    #[inline(always)]
    fn exp2_of_integer(self) -> Self {
        Self(self.0.map(|x| {
            on_cpu!({
                let exponent = vaddq_s32(vcvtnq_s32_f32(x), vdupq_n_s32(127));
                vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent))
            })
        }))
    }

    #[inline(always)]
    fn store_i8(self, out: &mut [i8; 16]) {
        on_cpu!({
            let [a, b, c, d] = self.0.map(|x| vmovn_s32(vcvtnq_s32_f32(x)));
            let low = vmovn_s16(vcombine_s16(a, b));
            let high = vmovn_s16(vcombine_s16(c, d));
            vst1q_s8(out.as_mut_ptr(), vcombine_s8(low, high));
        });
    }
}

/// How many lines the 16-bit sums of [`line_sums`] can take before they are widened.
///
/// A product of a code (at most 2) and an activation (-128..=127) is in -256..=254, and a line has
/// four fields, so after 32 lines a sum is within 128 * -256 = -32768 and 128 * 254 = 32512, just
/// what 16 bits hold.
const LINES_IN_16_BITS: usize = 32;

impl LineSums for Neon {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        on_cpu!(line_sums(lines, tokens))
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
    let mask = vdupq_n_u8(3);
    let mut sums = [[vdupq_n_s16(0); 2]; T];
    for (i, line) in lines.iter().enumerate() {
        let bytes = &line.0.as_chunks::<16>().0[quarter];
        // SAFETY: reads an array of sixteen bytes.
        let packed = unsafe { vld1q_u8(bytes.as_ptr()) };
        let fields = [
            vandq_u8(packed, mask),
            vandq_u8(vshrq_n_u8::<2>(packed), mask),
            vandq_u8(vshrq_n_u8::<4>(packed), mask),
            vshrq_n_u8::<6>(packed),
        ];
        for (field, trits) in fields.into_iter().enumerate() {
            let trits = vreinterpretq_s8_u8(trits);
            for (sums, codes) in sums.iter_mut().zip(tokens) {
                let quad = broadcast(codes[i].as_chunks::<4>().0[field]);
                sums[0] = vmlal_s8(sums[0], vget_low_s8(trits), vget_low_s8(quad));
                sums[1] = vmlal_high_s8(sums[1], trits, quad);
            }
        }
    }
    sums
}

impl Int8Sums for Neon {
    #[inline(always)]
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        on_cpu!(int8_sums(lines, xs))
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
    fn lanes_do_what_their_definition_says() {
        crate::lanes::tests::check_lanes(Neon);
    }
}
