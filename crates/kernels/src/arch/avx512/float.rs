//! Float lanes in one register.

use std::arch::x86_64::*;

use super::Avx512;
use crate::arch::inlined;
use crate::arch::x86_64::{prefetch, sum_of_eight};
use crate::lanes::{F32x16, Simd};

/// Sixteen floats in one register.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Lanes(__m512);

impl<Dot: Copy> Simd for Avx512<Dot> {
    type Lanes = Lanes;
    const MANY_REGISTERS: bool = true;

    inlined! {
        fn splat(self, value: f32) -> Lanes { Lanes(_mm512_set1_ps(value)) }
        fn load(self, values: &[f32; 16]) -> Lanes { Lanes(_mm512_loadu_ps(values.as_ptr())) }

        fn load_i32(self, values: &[i32; 16]) -> Lanes {
            Lanes(_mm512_cvtepi32_ps(_mm512_loadu_si512(values.as_ptr().cast())))
        }

        fn load_i8(self, values: &[i8; 16]) -> Lanes {
            let bytes = _mm_loadu_si128(values.as_ptr().cast());
            Lanes(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)))
        }

        fn load_bf16(self, values: &[u16; 16]) -> Lanes {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(values.as_ptr().cast()));
            Lanes(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)))
        }

        fn load_bf16_pairs(self, pairs: &[[u16; 2]; 16]) -> [Lanes; 2] {
            let bits = _mm512_loadu_si512(pairs.as_ptr().cast());
            let upper = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
            let (even, odd) = (_mm512_slli_epi32::<16>(bits), _mm512_and_si512(bits, upper));
            [Lanes(_mm512_castsi512_ps(even)), Lanes(_mm512_castsi512_ps(odd))]
        }

        fn load_f16(self, values: &[u16; 16]) -> Lanes {
            Lanes(_mm512_cvtph_ps(_mm256_loadu_si256(values.as_ptr().cast())))
        }

        fn load_e4m3(self, codes: &[u8; 16]) -> Lanes {
            // Bits 7 to 15 are copies of the sign; after the shift, the one below the top is cleared.
            let wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(codes.as_ptr().cast()));
            let bits = _mm256_and_si256(_mm256_slli_epi16::<7>(wide), _mm256_set1_epi16(!0x4000));
            Lanes(_mm512_cvtph_ps(bits))
        }

        fn load_e5m2(self, codes: &[u8; 16]) -> Lanes {
            let wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(codes.as_ptr().cast()));
            Lanes(_mm512_cvtph_ps(_mm256_slli_epi16::<8>(wide)))
        }

        fn mul_exp2(self, x: Lanes, n: Lanes) -> Lanes { Lanes(_mm512_scalef_ps(x.0, n.0)) }
    }

    #[inline(always)]
    fn prefetch<T>(self, ahead: &[T]) {
        prefetch(ahead);
    }
}

impl F32x16 for Lanes {
    inlined! {
        fn store(self, out: &mut [f32; 16]) { _mm512_storeu_ps(out.as_mut_ptr(), self.0) }
        fn add(self, other: Self) -> Self { Self(_mm512_add_ps(self.0, other.0)) }
        fn sub(self, other: Self) -> Self { Self(_mm512_sub_ps(self.0, other.0)) }
        fn mul(self, other: Self) -> Self { Self(_mm512_mul_ps(self.0, other.0)) }
        fn div(self, other: Self) -> Self { Self(_mm512_div_ps(self.0, other.0)) }
        fn max(self, other: Self) -> Self { Self(_mm512_max_ps(self.0, other.0)) }
        fn min(self, other: Self) -> Self { Self(_mm512_min_ps(self.0, other.0)) }

        fn mul_add(self, factor: Self, addend: Self) -> Self {
            Self(_mm512_fmadd_ps(self.0, factor.0, addend.0))
        }

        fn max_abs(self, other: Self) -> Self {
            // Magnitudes compare like their bits, and a NaN is above infinity.
            let (a, b) = (_mm512_abs_ps(self.0), _mm512_abs_ps(other.0));
            let larger = _mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b));
            Self(_mm512_castsi512_ps(larger))
        }

        fn round(self) -> Self {
            Self(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(self.0))
        }

        fn exp2_of_integer(self) -> Self {
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent)))
        }

        fn sum(self) -> f32 {
            let (low, high) = (_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            sum_of_eight(_mm256_add_ps(low, high))
        }

        fn not_closed(self) -> u16 {
            _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(self.0, _mm512_setzero_ps())
        }

        fn store_i8(self, out: &mut [i8; 16]) {
            let bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(self.0));
            _mm_storeu_si128(out.as_mut_ptr().cast(), bytes);
        }

        fn store_i16(self, out: &mut [i16; 16]) {
            let words = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(self.0));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::Madd;

    #[test]
    fn lanes_follow_their_definition() {
        if super::super::has_avx512() {
            crate::lanes::tests::check_lanes(Avx512::<Madd> {
                dot: std::marker::PhantomData,
                vbmi: false,
            });
        }
    }
}
