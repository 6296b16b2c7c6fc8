//! Float lanes in two registers.

use std::arch::x86_64::*;

use super::Avx2;
use crate::arch::inlined;
use crate::arch::x86_64::{prefetch, sum_of_eight};
use crate::lanes::{F32x16, Simd};

/// Sixteen floats in two registers.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Lanes([__m256; 2]);

/// Evaluates an expression for each half, `i`. Not a closure: in a large function, it might become a function of
/// its own, compiled without the instruction set, and each intrinsic in it a call.
macro_rules! both {
    ($i:ident => $half:expr) => {
        [
            {
                let $i = 0;
                $half
            },
            {
                let $i = 1;
                $half
            },
        ]
    };
}

/// Returns a pointer to each half of sixteen values.
#[inline(always)]
fn halves<T, U>(values: &[T; 16]) -> [*const U; 2] {
    let halves = values.as_chunks::<8>().0;
    [halves[0].as_ptr().cast(), halves[1].as_ptr().cast()]
}

impl<Dot: Copy> Simd for Avx2<Dot> {
    type Lanes = Lanes;

    inlined! {
        fn splat(self, value: f32) -> Lanes { Lanes([_mm256_set1_ps(value); 2]) }

        fn load(self, values: &[f32; 16]) -> Lanes {
            Lanes(both!(i => _mm256_loadu_ps(halves(values)[i])))
        }

        fn load_i32(self, values: &[i32; 16]) -> Lanes {
            let halves = halves(values);
            Lanes(both!(i => _mm256_cvtepi32_ps(_mm256_loadu_si256(halves[i]))))
        }

        fn load_i8(self, values: &[i8; 16]) -> Lanes {
            let halves = halves(values);
            Lanes(both!(i => {
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(halves[i])))
            }))
        }

        fn load_bf16(self, values: &[u16; 16]) -> Lanes {
            let halves = halves(values);
            Lanes(both!(i => {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(halves[i]));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            }))
        }

        fn load_bf16_pairs(self, pairs: &[[u16; 2]; 16]) -> [Lanes; 2] {
            let halves = halves(pairs);
            let bits: [__m256i; 2] = both!(i => _mm256_loadu_si256(halves[i]));
            let upper = _mm256_set1_epi32(0xffff_0000_u32.cast_signed());
            [
                Lanes(both!(i => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits[i])))),
                Lanes(both!(i => _mm256_castsi256_ps(_mm256_and_si256(bits[i], upper)))),
            ]
        }

        fn load_f16(self, values: &[u16; 16]) -> Lanes {
            let halves = halves(values);
            Lanes(both!(i => _mm256_cvtph_ps(_mm_loadu_si128(halves[i]))))
        }

        fn load_e4m3(self, codes: &[u8; 16]) -> Lanes {
            // Bits 7 to 15 are copies of the sign; after the shift, the one below the top is cleared.
            let wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(codes.as_ptr().cast()));
            widen_f16(_mm256_and_si256(_mm256_slli_epi16::<7>(wide), _mm256_set1_epi16(!0x4000)))
        }

        fn load_e5m2(self, codes: &[u8; 16]) -> Lanes {
            let wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(codes.as_ptr().cast()));
            widen_f16(_mm256_slli_epi16::<8>(wide))
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, ahead: &[T]) {
        prefetch(ahead);
    }
}

impl F32x16 for Lanes {
    inlined! {
        fn store(self, out: &mut [f32; 16]) {
            for (half, out) in self.0.iter().zip(out.as_chunks_mut::<8>().0) {
                _mm256_storeu_ps(out.as_mut_ptr(), *half);
            }
        }

        fn add(self, other: Self) -> Self { Self(both!(i => _mm256_add_ps(self.0[i], other.0[i]))) }
        fn sub(self, other: Self) -> Self { Self(both!(i => _mm256_sub_ps(self.0[i], other.0[i]))) }
        fn mul(self, other: Self) -> Self { Self(both!(i => _mm256_mul_ps(self.0[i], other.0[i]))) }
        fn div(self, other: Self) -> Self { Self(both!(i => _mm256_div_ps(self.0[i], other.0[i]))) }
        fn max(self, other: Self) -> Self { Self(both!(i => _mm256_max_ps(self.0[i], other.0[i]))) }
        fn min(self, other: Self) -> Self { Self(both!(i => _mm256_min_ps(self.0[i], other.0[i]))) }

        fn mul_add(self, factor: Self, addend: Self) -> Self {
            Self(both!(i => _mm256_fmadd_ps(self.0[i], factor.0[i], addend.0[i])))
        }

        fn max_abs(self, other: Self) -> Self {
            // Magnitudes compare like their bits, and a NaN is above infinity.
            let magnitude = _mm256_set1_epi32(0x7fff_ffff);
            Self(both!(i => {
                let a = _mm256_and_si256(_mm256_castps_si256(self.0[i]), magnitude);
                let b = _mm256_and_si256(_mm256_castps_si256(other.0[i]), magnitude);
                _mm256_castsi256_ps(_mm256_max_epi32(a, b))
            }))
        }

        fn round(self) -> Self {
            const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
            Self(both!(i => _mm256_round_ps::<NEAREST>(self.0[i])))
        }

        fn exp2_of_integer(self) -> Self {
            let bias = _mm256_set1_epi32(127);
            Self(both!(i => {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(self.0[i]), bias);
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
            }))
        }

        fn sum(self) -> f32 { sum_of_eight(_mm256_add_ps(self.0[0], self.0[1])) }

        fn not_closed(self) -> u16 {
            let open: [i32; 2] = both!(i => {
                _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(self.0[i], _mm256_setzero_ps()))
            });
            (open[1] << 8 | open[0]) as u16
        }

        fn store_i8(self, out: &mut [i8; 16]) {
            let words = words(self);
            let (low, high) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_packs_epi16(low, high));
        }

        fn store_i16(self, out: &mut [i16; 16]) {
            _mm256_storeu_si256(out.as_mut_ptr().cast(), words(self));
        }
    }
}

inlined! {
    fn widen_f16(bits: __m256i) -> Lanes {
        let (low, high) = (_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits));
        Lanes([_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)])
    }

    /// Returns sixteen lanes as 16-bit integers.
    fn words(lanes: Lanes) -> __m256i {
        let [low, high] = both!(i => _mm256_cvtps_epi32(lanes.0[i]));
        // Packing works within 128-bit halves: [low 0-3, high 0-3 | low 4-7, high 4-7].
        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::Madd;

    #[test]
    fn lanes_follow_their_definition() {
        if super::super::has_avx2() {
            crate::lanes::tests::check_lanes(Avx2::<Madd>(std::marker::PhantomData));
        }
    }
}
