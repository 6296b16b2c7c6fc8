//! AVX-512 with VNNI: sixteen lanes are one register, and so is a line.

mod sparse;
mod sums;

use std::arch::x86_64::*;

use crate::Isa;
use crate::lanes::{F32x16, Simd};

/// Proof that this CPU has what the kernel needs; only [`Avx512::detect`] makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<&'static Self> {
        let has_all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vnni");
        has_all.then_some(&Self(()))
    }
}

crate::arch::implement_kernel!(
    Avx512,
    Isa::Avx512Vnni,
    "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"
);

/// An intrinsic on lanes or by their maker.
macro_rules! on_cpu {
    ($call:expr) => {{
        // SAFETY: an `Avx512` is at hand, or lanes that only an `Avx512` makes, so the CPU has AVX-512;
        // pointers are to arrays of the size of the access, which needs no alignment.
        unsafe { $call }
    }};
}

/// Sixteen floats in one register.
#[derive(Clone, Copy)]
pub(super) struct Lanes(__m512);

impl Simd for Avx512 {
    type Lanes = Lanes;
    const MANY_REGISTERS: bool = true;

    #[inline(always)]
    fn splat(self, value: f32) -> Lanes {
        Lanes(on_cpu!(_mm512_set1_ps(value)))
    }

    #[inline(always)]
    fn load(self, values: &[f32; 16]) -> Lanes {
        Lanes(on_cpu!(_mm512_loadu_ps(values.as_ptr())))
    }

    #[inline(always)]
    fn load_i32(self, values: &[i32; 16]) -> Lanes {
        Lanes(on_cpu!(_mm512_cvtepi32_ps(_mm512_loadu_si512(values.as_ptr().cast()))))
    }

    #[inline(always)]
    fn load_bf16(self, values: &[u16; 16]) -> Lanes {
        Lanes(on_cpu!({
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(values.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }))
    }

    #[inline(always)]
    fn load_f16(self, values: &[u16; 16]) -> Lanes {
        Lanes(on_cpu!(_mm512_cvtph_ps(_mm256_loadu_si256(values.as_ptr().cast()))))
    }

    #[inline(always)]
    fn prefetch<T>(self, ahead: &[T]) {
        super::prefetch(ahead);
    }
}

impl F32x16 for Lanes {
    #[inline(always)]
    fn store(self, out: &mut [f32; 16]) {
        on_cpu!(_mm512_storeu_ps(out.as_mut_ptr(), self.0));
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(on_cpu!(_mm512_add_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(on_cpu!(_mm512_sub_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(on_cpu!(_mm512_mul_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(on_cpu!(_mm512_div_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(on_cpu!(_mm512_fmadd_ps(self.0, factor.0, addend.0)))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(on_cpu!(_mm512_max_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(on_cpu!(_mm512_min_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn max_abs(self, other: Self) -> Self {
        // Magnitudes compare like their bits, and a NaN is above infinity.
        Self(on_cpu!({
            let (a, b) = (_mm512_abs_ps(self.0), _mm512_abs_ps(other.0));
            _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)))
        }))
    }

    #[inline(always)]
    fn round(self) -> Self {
        Self(on_cpu!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(self.0)))
    }

    #[inline(always)]
    fn exp2_of_integer(self) -> Self {
        Self(on_cpu!({
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent))
        }))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        on_cpu!({
            let (low, high) = (_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            super::sum_of_eight(_mm256_add_ps(low, high))
        })
    }

    #[inline(always)]
    fn store_i8(self, out: &mut [i8; 16]) {
        on_cpu!({
            let bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(self.0));
            _mm_storeu_si128(out.as_mut_ptr().cast(), bytes);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_do_what_their_definition_says() {
        if let Some(cpu) = Avx512::detect() {
            crate::lanes::tests::check_lanes(*cpu);
        }
    }
}
