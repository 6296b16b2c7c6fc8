//! Float lanes in four registers.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{Neon, on_cpu};
use crate::lanes::{F32x16, Simd};

/// Sixteen floats in four registers.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Lanes([float32x4_t; 4]);

impl Lanes {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl<Dot: Copy> Simd for Neon<Dot> {
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
        // Not `vmaxq_f32`, which treats NaN and the sign of zero differently.
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

    #[inline(always)]
    fn store_i16(self, out: &mut [i16; 16]) {
        for (quarter, out) in self.0.iter().zip(out.as_chunks_mut::<4>().0) {
            on_cpu!(vst1_s16(out.as_mut_ptr(), vmovn_s32(vcvtnq_s32_f32(*quarter))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::neon::Widening;

    #[test]
    fn lanes_follow_their_definition() {
        crate::lanes::tests::check_lanes(Neon(Widening));
    }
}
