//! Float lanes in four registers.

use std::arch::aarch64::*;
use std::arch::asm;

use super::Neon;
use crate::arch::inlined;
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

/// Returns the four quarters of sixteen values.
#[inline(always)]
fn quarters<T>(values: &[T; 16]) -> [*const T; 4] {
    let quarters = values.as_chunks::<4>().0;
    std::array::from_fn(|i| quarters[i].as_ptr())
}

impl<Dot: Copy> Simd for Neon<Dot> {
    type Lanes = Lanes;

    inlined! {
        fn splat(self, value: f32) -> Lanes { Lanes([vdupq_n_f32(value); 4]) }

        fn load(self, values: &[f32; 16]) -> Lanes {
            Lanes(quarters(values).map(|quarter| vld1q_f32(quarter)))
        }

        fn load_i32(self, values: &[i32; 16]) -> Lanes {
            Lanes(quarters(values).map(|quarter| vcvtq_f32_s32(vld1q_s32(quarter))))
        }

        fn load_bf16(self, values: &[u16; 16]) -> Lanes {
            let widen = |bits| vreinterpretq_f32_u32(vshll_n_u16::<16>(bits));
            Lanes(quarters(values).map(|quarter| widen(vld1_u16(quarter))))
        }

        fn load_bf16_pairs(self, pairs: &[[u16; 2]; 16]) -> [Lanes; 2] {
            let bits = quarters(pairs).map(|quarter| vld1q_u32(quarter.cast()));
            let upper = vdupq_n_u32(0xffff_0000);
            [
                Lanes(bits.map(|bits| vreinterpretq_f32_u32(vshlq_n_u32::<16>(bits)))),
                Lanes(bits.map(|bits| vreinterpretq_f32_u32(vandq_u32(bits, upper)))),
            ]
        }

        fn load_f16(self, values: &[u16; 16]) -> Lanes {
            Lanes(quarters(values).map(|quarter| widen_f16(vld1_u16(quarter))))
        }
    }
}

inlined! {
    /// `fcvtl`, whose intrinsic takes a type that is not stable yet.
    fn widen_f16(bits: uint16x4_t) -> float32x4_t {
        let wide: float32x4_t;
        asm!(
            "fcvtl {0:v}.4s, {1:v}.4h",
            out(vreg) wide,
            in(vreg) bits,
            options(pure, nomem, nostack, preserves_flags)
        );
        wide
    }
}

impl F32x16 for Lanes {
    inlined! {
        fn store(self, out: &mut [f32; 16]) {
            for (quarter, out) in self.0.iter().zip(out.as_chunks_mut::<4>().0) {
                vst1q_f32(out.as_mut_ptr(), *quarter);
            }
        }

        fn add(self, other: Self) -> Self { self.zip(other, |a, b| vaddq_f32(a, b)) }
        fn sub(self, other: Self) -> Self { self.zip(other, |a, b| vsubq_f32(a, b)) }
        fn mul(self, other: Self) -> Self { self.zip(other, |a, b| vmulq_f32(a, b)) }
        fn div(self, other: Self) -> Self { self.zip(other, |a, b| vdivq_f32(a, b)) }

        fn mul_add(self, factor: Self, addend: Self) -> Self {
            Self(std::array::from_fn(|i| vfmaq_f32(addend.0[i], self.0[i], factor.0[i])))
        }

        // Not `vmaxq_f32` and `vminq_f32`, which treat NaN and the sign of zero differently.
        fn max(self, other: Self) -> Self {
            self.zip(other, |a, b| vbslq_f32(vcgtq_f32(a, b), a, b))
        }

        fn min(self, other: Self) -> Self {
            self.zip(other, |a, b| vbslq_f32(vcltq_f32(a, b), a, b))
        }

        fn max_abs(self, other: Self) -> Self {
            // Magnitudes compare like their bits, and a NaN is above infinity.
            let magnitude = |x| vreinterpretq_u32_f32(vabsq_f32(x));
            self.zip(other, |a, b| vreinterpretq_f32_u32(vmaxq_u32(magnitude(a), magnitude(b))))
        }

        fn round(self) -> Self { Self(self.0.map(|x| vrndnq_f32(x))) }

        fn exp2_of_integer(self) -> Self {
            Self(self.0.map(|x| {
                let exponent = vaddq_s32(vcvtnq_s32_f32(x), vdupq_n_s32(127));
                vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent))
            }))
        }

        fn store_i8(self, out: &mut [i8; 16]) {
            let [a, b, c, d] = self.0.map(|x| vmovn_s32(vcvtnq_s32_f32(x)));
            let low = vmovn_s16(vcombine_s16(a, b));
            let high = vmovn_s16(vcombine_s16(c, d));
            vst1q_s8(out.as_mut_ptr(), vcombine_s8(low, high));
        }

        fn store_i16(self, out: &mut [i16; 16]) {
            for (quarter, out) in self.0.iter().zip(out.as_chunks_mut::<4>().0) {
                vst1_s16(out.as_mut_ptr(), vmovn_s32(vcvtnq_s32_f32(*quarter)));
            }
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
