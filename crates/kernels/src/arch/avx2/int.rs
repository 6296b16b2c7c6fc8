//! Integer lanes in two registers.

use std::arch::x86_64::*;

use super::{Avx2, Madd, Vnni};
use crate::LookupKernel;
use crate::arch::inlined;
use crate::arch::x86_64::{Dot, MADD_CAPACITY, pair_as_i32, prefetch_after, quad_as_i32};
use crate::int_lanes::{
    ColumnQuads, ColumnSums, IntLanes, Interleave, QuadBlock, sums_for_dot_latency,
};
use crate::line::{Line, STRIP};
use crate::sums::add_columns;

/// The two halves of a line.
type Halves = [__m256i; 2];

impl Dot<__m256i> for Madd {
    const VNNI: bool = false;

    #[inline(always)]
    unsafe fn dot(sums: __m256i, codes: __m256i, activations: __m256i) -> __m256i {
        // SAFETY: the caller guarantees the instruction.
        unsafe { _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes, activations)) }
    }

    /// Pairs of biased bytes would saturate: 2 * 255 * 128 exceeds 16 bits. Without the bias, the
    /// activation gives its sign to the weight and its magnitude is the unsigned side, which has room
    /// for 128; a pair is then at most 2 * 128 * 127 = 32512.
    #[inline(always)]
    unsafe fn dot_signed(sums: __m256i, weights: __m256i, activations: __m256i) -> __m256i {
        // SAFETY: the caller guarantees the instruction.
        unsafe {
            let signed = _mm256_sign_epi8(weights, activations);
            _mm256_add_epi16(sums, _mm256_maddubs_epi16(_mm256_abs_epi8(activations), signed))
        }
    }
}

/// `vpdpbusd` has two encodings, of AVX-VNNI and of AVX-512 with short registers. The code that runs
/// with the first is tested on CPUs that only have the second.
macro_rules! implement_dot {
    ($dot:ty, $dpbusd:ident) => {
        impl Dot<__m256i> for $dot {
            const VNNI: bool = true;

            #[inline(always)]
            unsafe fn dot(sums: __m256i, codes: __m256i, activations: __m256i) -> __m256i {
                // SAFETY: the caller guarantees the instruction.
                unsafe { $dpbusd(sums, codes, activations) }
            }

            #[inline(always)]
            unsafe fn dot_signed(sums: __m256i, weights: __m256i, activations: __m256i) -> __m256i {
                // SAFETY: the caller guarantees the instruction.
                unsafe { $dpbusd(sums, weights, activations) }
            }
        }
    };
}

implement_dot!(Vnni, _mm256_dpbusd_avx_epi32);

impl<D: Dot<__m256i>> IntLanes for Avx2<D> {
    type Bytes = Halves;
    type Narrow = Halves;
    type Sums = Halves;
    type Quads<'a> = &'a QuadBlock;
    type Pairs = Halves;
    type Columns = Halves;

    const CAPACITY: usize = if D::VNNI { usize::MAX } else { MADD_CAPACITY };
    const BIASED: bool = D::VNNI;

    inlined! {
        fn sums_per_row(tokens: usize, _short: bool) -> usize {
            if D::VNNI { sums_for_dot_latency(tokens) } else { 1 }
        }

        fn prefetch_after(self, line: &Line, bits: usize, tokens: usize) {
            if bits == 2 && tokens <= 2 {
                prefetch_after(line);
            }
        }

        fn load_bytes(self, line: &[u8; 64], _pass: usize) -> Halves { load(line.as_ptr().cast()) }

        fn load_activations(self, activations: &[i8; 64], _pass: usize) -> Halves {
            load(activations.as_ptr().cast())
        }

        fn field(self, [low, high]: Halves, shift: usize, mask: u8) -> Halves {
            // Shifts of 16-bit words: bits that come over from the next byte are masked off.
            let mask = _mm256_set1_epi8(mask.cast_signed());
            let [low, high] = match shift {
                0 => [low, high],
                2 => [_mm256_srli_epi16::<2>(low), _mm256_srli_epi16::<2>(high)],
                4 => [_mm256_srli_epi16::<4>(low), _mm256_srli_epi16::<4>(high)],
                _ => [_mm256_srli_epi16::<6>(low), _mm256_srli_epi16::<6>(high)],
            };
            [_mm256_and_si256(low, mask), _mm256_and_si256(high, mask)]
        }

        fn signed(self, bytes: Halves) -> Halves {
            if D::VNNI {
                return bytes;
            }
            let bias = _mm256_set1_epi8(-128);
            [_mm256_xor_si256(bytes[0], bias), _mm256_xor_si256(bytes[1], bias)]
        }

        fn quads(self, activations: &QuadBlock) -> &QuadBlock { activations }

        fn lookup_kernel(self) -> Option<&'static dyn LookupKernel> {
            if D::VNNI { None } else { super::lookup_kernel() }
        }

        fn zero(self) -> Halves { [_mm256_setzero_si256(); 2] }

        fn dot(self, sums: Halves, codes: Halves, activations: Halves) -> Halves {
            [D::dot(sums[0], codes[0], activations[0]), D::dot(sums[1], codes[1], activations[1])]
        }

        fn dot_quad<const QUAD: usize>(
            self, sums: Halves, codes: Halves, quads: &QuadBlock,
        ) -> Halves {
            self.dot(sums, codes, self.broadcast(quads[QUAD]))
        }

        fn dot_signed<const QUAD: usize>(
            self, sums: Halves, weights: Halves, quads: &QuadBlock,
        ) -> Halves {
            let [quad, _] = self.broadcast(quads[QUAD]);
            [D::dot_signed(sums[0], weights[0], quad), D::dot_signed(sums[1], weights[1], quad)]
        }

        fn splat_sums(self, value: i32) -> Halves { [_mm256_set1_epi32(value); 2] }

        fn widen(self, sums: Halves, mut narrow: Halves, _shift: usize) -> Halves {
            if !D::VNNI {
                let ones = _mm256_set1_epi16(1);
                narrow = [_mm256_madd_epi16(narrow[0], ones), _mm256_madd_epi16(narrow[1], ones)];
            }
            [_mm256_add_epi32(sums[0], narrow[0]), _mm256_add_epi32(sums[1], narrow[1])]
        }

        fn store_sums(self, [low, high]: Halves, out: &mut [i32; STRIP], _pass: usize) {
            let start = out.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(start, low);
            _mm256_storeu_si256(start.add(1), high);
        }

        fn total(self, [low, high]: Halves) -> i32 {
            let eight = _mm256_add_epi32(low, high);
            let four =
                _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
            let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b11_10>(four));
            _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b01>(two)))
        }

        fn load_pairs(self, values: &[i8; 32]) -> Halves {
            let pairs = _mm256_loadu_si256(values.as_ptr().cast());
            let (low, high) = (_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
            [_mm256_cvtepi8_epi16(low), _mm256_cvtepi8_epi16(high)]
        }

        fn zero_columns(self) -> Halves { self.zero() }

        fn dot_pairs(self, sums: Halves, pairs: Halves, weights: [i16; 2]) -> Halves {
            let weights = _mm256_set1_epi32(pair_as_i32(weights));
            [
                _mm256_add_epi32(sums[0], _mm256_madd_epi16(pairs[0], weights)),
                _mm256_add_epi32(sums[1], _mm256_madd_epi16(pairs[1], weights)),
            ]
        }

        fn store_columns(self, sums: Halves, out: &mut [i32; 16]) { self.store_sums(sums, out, 0) }

        fn accumulate_columns(self, quads: ColumnQuads<'_>, sums: &mut ColumnSums) {
            add_columns(self, quads, sums);
        }
    }
}

impl<D: Dot<__m256i>> Interleave for Avx2<D> {
    inlined! {
        fn interleave(self, [a, b, c, d]: [Halves; 4]) -> [Halves; 4] {
            let low = interleave([a[0], b[0], c[0], d[0]]);
            let high = interleave([a[1], b[1], c[1], d[1]]);
            [[low[0], high[0]], [low[1], high[1]], [low[2], high[2]], [low[3], high[3]]]
        }

        fn broadcast(self, quad: [i8; 4]) -> Halves { [_mm256_set1_epi32(quad_as_i32(quad)); 2] }

        fn load_sums(self, sums: &[i32; STRIP]) -> Halves { load(sums.as_ptr().cast()) }
    }
}

inlined! {
    fn interleave([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
        let (ab_low, ab_high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
        [
            _mm256_unpacklo_epi16(ab_low, cd_low),
            _mm256_unpackhi_epi16(ab_low, cd_low),
            _mm256_unpacklo_epi16(ab_high, cd_high),
            _mm256_unpackhi_epi16(ab_high, cd_high),
        ]
    }
}

/// # Safety
///
/// There are 64 readable bytes.
#[inline(always)]
unsafe fn load(start: *const __m256i) -> Halves {
    // SAFETY: the caller guarantees the bytes, and a proof exists that the CPU has AVX2.
    unsafe { [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))] }
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use super::*;
    use crate::sums::tests::check_sums;

    /// The encoding of AVX-512.
    #[derive(Clone, Copy)]
    struct Avx512Vl;

    implement_dot!(Avx512Vl, _mm256_dpbusd_epi32);
    crate::arch::implement_sums!(
        Avx2<Avx512Vl>,
        compiled "avx2,fma,f16c,avx512vl,avx512vnni"
    );

    #[test]
    fn sums_equal_the_scalar_ones() {
        if super::super::has_avx2() {
            check_sums(Avx2::<Madd>(PhantomData));
        }
    }

    #[test]
    fn sums_of_vnni_equal_the_scalar_ones_in_either_encoding() {
        if super::super::detect_vnni().is_some() {
            check_sums(Avx2::<Vnni>(PhantomData));
        }
        if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vnni") {
            check_sums(Avx2::<Avx512Vl>(PhantomData));
        }
    }
}
