//! Integer lanes in one register.

use std::arch::asm;
use std::arch::x86_64::*;

use super::five_trits::five_trit_sums;
use super::{Avx512, Madd, Vnni};
use crate::ahead::Ahead;
use crate::arch::inlined;
use crate::arch::x86_64::{Dot, MADD_CAPACITY, pair_as_i32, prefetch_after, quad_as_i32};
use crate::int_lanes::{ColumnQuads, ColumnSums, IntLanes, Interleave, QuadBlock};
use crate::line::{Line, STRIP};
use crate::sums::add_columns;

impl Dot<__m512i> for Madd {
    const VNNI: bool = false;

    #[inline(always)]
    unsafe fn dot(sums: __m512i, codes: __m512i, activations: __m512i) -> __m512i {
        // SAFETY: the caller guarantees the instruction.
        unsafe { _mm512_add_epi16(sums, _mm512_maddubs_epi16(codes, activations)) }
    }

    /// As for AVX2, which has an instruction for the sign.
    #[inline(always)]
    unsafe fn dot_signed(sums: __m512i, weights: __m512i, activations: __m512i) -> __m512i {
        // SAFETY: the caller guarantees the instruction.
        unsafe {
            let negative = _mm512_movepi8_mask(activations);
            let signed = _mm512_mask_sub_epi8(weights, negative, _mm512_setzero_si512(), weights);
            _mm512_add_epi16(sums, _mm512_maddubs_epi16(_mm512_abs_epi8(activations), signed))
        }
    }
}

/// The first operand of `vpdpbusd` may be any byte, so fields are masked where they are: the top field
/// is at most 2 << 6 = 128 and an activation at least -128, on a quarter of the columns, so a sum stays
/// within 2^14 * 2^17 / 4 = 2^29 (`MAX_COLS` is 2^17). Upper nibbles are at most 240, on half of the
/// columns: 240 * 128 * 2^16 is below 2^31.
impl Dot<__m512i> for Vnni {
    const VNNI: bool = true;

    #[inline(always)]
    unsafe fn dot(sums: __m512i, codes: __m512i, activations: __m512i) -> __m512i {
        // SAFETY: the caller guarantees the instruction.
        unsafe { _mm512_dpbusd_epi32(sums, codes, activations) }
    }

    #[inline(always)]
    unsafe fn dot_signed(sums: __m512i, weights: __m512i, activations: __m512i) -> __m512i {
        // SAFETY: the caller guarantees the instruction.
        unsafe { _mm512_dpbusd_epi32(sums, weights, activations) }
    }
}

/// An empty instruction that takes both registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn order(a: __m512i, b: __m512i) {
    // SAFETY: there are no instructions.
    unsafe {
        asm!(
            "/* {0} {1} */",
            in(zmm_reg) a,
            in(zmm_reg) b,
            options(nomem, nostack, preserves_flags)
        );
    }
}

impl<D: Dot<__m512i>> IntLanes for Avx512<D> {
    type Bytes = __m512i;
    type Narrow = __m512i;
    type Sums = __m512i;
    type Quads<'a> = &'a QuadBlock;
    type Pairs = __m512i;
    type Columns = __m512i;

    const CAPACITY: usize = if D::VNNI { usize::MAX } else { MADD_CAPACITY };
    const UNSHIFTED: bool = D::VNNI;
    const BIASED: bool = D::VNNI;

    inlined! {
        /// With four sums, one token waits for `vpdpbusd`: 254 GMAC/s from the cache of a Zen 5, 358 with eight.
        fn sums_per_row(tokens: usize, short: bool) -> usize {
            match (D::VNNI, short) {
                (true, false) if tokens == 1 => 8,
                (true, false) => 4,
                (true, true) => 2,
                (false, _) => 1,
            }
        }

        /// The two tokens of int8 codes are the coarse and the fine codes of one hidden state. For nibbles,
        /// prefetching took a third more time.
        fn prefetch_after(self, line: &Line, bits: usize, tokens: usize) {
            let of_trits = bits == 2 && tokens <= 2;
            if of_trits || D::VNNI && (bits, tokens) == (8, 2) {
                prefetch_after(line);
            }
        }

        fn load_bytes(self, line: &[u8; 64], _pass: usize) -> __m512i {
            _mm512_loadu_si512(line.as_ptr().cast())
        }

        fn load_activations(self, activations: &[i8; 64], _pass: usize) -> __m512i {
            _mm512_loadu_si512(activations.as_ptr().cast())
        }

        fn field(self, bytes: __m512i, shift: usize, mask: u8) -> __m512i {
            if Self::UNSHIFTED {
                return _mm512_and_si512(bytes, _mm512_set1_epi8((mask << shift).cast_signed()));
            }
            // Shifts of 16-bit words: bits that come over from the next byte are masked off.
            let bytes = match shift {
                0 => bytes,
                2 => _mm512_srli_epi16::<2>(bytes),
                4 => _mm512_srli_epi16::<4>(bytes),
                _ => _mm512_srli_epi16::<6>(bytes),
            };
            _mm512_and_si512(bytes, _mm512_set1_epi8(mask.cast_signed()))
        }

        fn signed(self, bytes: __m512i) -> __m512i {
            if D::VNNI { bytes } else { _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) }
        }

        /// On Zen 4, one token takes 30 % more time if each `vpdpbusd` directly follows the `vpandq`
        /// that it depends on.
        fn extract_first(self, codes: __m512i, next_codes: __m512i) {
            if D::VNNI {
                order(codes, next_codes);
            }
        }

        fn quads(self, activations: &QuadBlock) -> &QuadBlock { activations }

        fn zero(self) -> __m512i { _mm512_setzero_si512() }

        fn dot(self, sums: __m512i, codes: __m512i, activations: __m512i) -> __m512i {
            D::dot(sums, codes, activations)
        }

        fn dot_quad<const QUAD: usize>(
            self, sums: __m512i, codes: __m512i, quads: &QuadBlock,
        ) -> __m512i {
            D::dot(sums, codes, self.broadcast(quads[QUAD]))
        }

        fn dot_signed<const QUAD: usize>(
            self, sums: __m512i, weights: __m512i, quads: &QuadBlock,
        ) -> __m512i {
            D::dot_signed(sums, weights, self.broadcast(quads[QUAD]))
        }

        fn splat_sums(self, value: i32) -> __m512i { _mm512_set1_epi32(value) }

        fn widen(self, sums: __m512i, narrow: __m512i, shift: usize) -> __m512i {
            let wide = match shift {
                _ if !D::VNNI => _mm512_madd_epi16(narrow, _mm512_set1_epi16(1)),
                0 => narrow,
                2 => _mm512_srai_epi32::<2>(narrow),
                4 => _mm512_srai_epi32::<4>(narrow),
                _ => _mm512_srai_epi32::<6>(narrow),
            };
            _mm512_add_epi32(sums, wide)
        }

        fn store_sums(self, sums: __m512i, out: &mut [i32; STRIP], _pass: usize) {
            _mm512_storeu_si512(out.as_mut_ptr().cast(), sums);
        }

        fn total(self, sums: __m512i) -> i32 { _mm512_reduce_add_epi32(sums) }

        fn load_pairs(self, values: &[i8; 32]) -> __m512i {
            _mm512_cvtepi8_epi16(_mm256_loadu_si256(values.as_ptr().cast()))
        }

        fn zero_columns(self) -> __m512i { self.zero() }

        fn dot_pairs(self, sums: __m512i, pairs: __m512i, weights: [i16; 2]) -> __m512i {
            let weights = _mm512_set1_epi32(pair_as_i32(weights));
            if D::VNNI {
                _mm512_dpwssd_epi32(sums, pairs, weights)
            } else {
                _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, weights))
            }
        }

        fn store_columns(self, sums: __m512i, out: &mut [i32; 16]) { self.store_sums(sums, out, 0) }

        fn decodes_five_trits(self) -> bool { self.vbmi }

        fn decode_five_trits<const T: usize>(
            self, lines: &[Line], tokens: [&[i8]; T], ahead: Ahead,
        ) -> [[i32; STRIP]; T] {
            assert!(self.vbmi, "five trits per byte are decoded with VBMI");
            five_trit_sums(lines, tokens, ahead)
        }

        fn store_non_zeros(self, codes: &[i8; 64], first: u32, out: &mut [u32; 64]) -> usize {
            let codes = _mm512_loadu_si512(codes.as_ptr().cast());
            let mut found = _mm512_test_epi8_mask(codes, codes);
            let mut indices = _mm512_add_epi32(
                _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                _mm512_set1_epi32(first.cast_signed()),
            );
            let mut len = 0;
            for _ in 0..4 {
                let of_sixteen = found as u16;
                let packed = _mm512_maskz_compress_epi32(of_sixteen, indices);
                _mm512_storeu_si512(out[len..len + 16].as_mut_ptr().cast(), packed);
                len += of_sixteen.count_ones() as usize;
                found >>= 16;
                indices = _mm512_add_epi32(indices, _mm512_set1_epi32(16));
            }
            len
        }

        fn accumulate_columns(self, quads: ColumnQuads<'_>, sums: &mut ColumnSums) {
            add_columns(self, quads, sums);
        }
    }
}

impl<D: Dot<__m512i>> Interleave for Avx512<D> {
    inlined! {
        fn interleave(self, [a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
            let (ab_low, ab_high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
            [
                _mm512_unpacklo_epi16(ab_low, cd_low),
                _mm512_unpackhi_epi16(ab_low, cd_low),
                _mm512_unpacklo_epi16(ab_high, cd_high),
                _mm512_unpackhi_epi16(ab_high, cd_high),
            ]
        }

        fn broadcast(self, quad: [i8; 4]) -> __m512i { _mm512_set1_epi32(quad_as_i32(quad)) }

        fn resume(self, sums: &[i32; STRIP]) -> __m512i {
            if D::VNNI { self.load_sums(sums) } else { self.zero() }
        }

        fn flush(self, narrow: __m512i, sums: &mut [i32; STRIP]) {
            let total = if D::VNNI { narrow } else { self.widen(self.load_sums(sums), narrow, 0) };
            self.store_sums(total, sums, 0);
        }

        fn load_sums(self, sums: &[i32; STRIP]) -> __m512i {
            _mm512_loadu_si512(sums.as_ptr().cast())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use super::*;
    use crate::sums::tests::check_sums;

    #[test]
    fn sums_equal_the_scalar_ones() {
        if super::super::has_avx512() {
            check_sums(Avx512::<Madd> { dot: PhantomData, vbmi: false });
        }
    }

    #[test]
    fn sums_of_vnni_equal_the_scalar_ones_with_and_without_vbmi() {
        if let Some(cpu) = Avx512::with_vnni() {
            check_sums(*cpu);
            check_sums(Avx512::<Vnni> { dot: PhantomData, vbmi: false });
        }
    }
}
