//! Integer lanes in one register.

use std::arch::asm;
use std::arch::x86_64::*;

use super::five_trits::five_trit_sums;
use super::{Avx512, Madd, Vnni, broadcast, on_cpu};
use crate::arch::x86_64::prefetch_after;
use crate::int_lanes::{COLUMN_LINE_ROWS, ColumnLines, IntLanes, Interleave, QuadBlock};
use crate::line::{Line, STRIP};
use crate::sums::add_columns;

/// The products of unsigned codes and signed activations.
pub(super) trait Dot: Copy {
    const CAPACITY: usize;
    /// True with 32-bit sums: codes are not shifted, and weights keep their bias.
    const VNNI: bool;

    fn dot(self, sums: __m512i, codes: __m512i, activations: __m512i) -> __m512i;
    fn dot_signed(self, sums: __m512i, weights: __m512i, activations: __m512i) -> __m512i;
    fn dot_pairs(self, sums: __m512i, pairs: __m512i, weights: __m512i) -> __m512i;
    fn prefetches(bits: usize, tokens: usize) -> bool;

    /// True if five trits per byte are decoded by table lookups.
    #[inline(always)]
    fn has_vbmi(self) -> bool {
        false
    }
}

impl Dot for Madd {
    /// Two products of at most 128 times a code in each lane of 16 bits.
    const CAPACITY: usize = 128;
    const VNNI: bool = false;

    #[inline(always)]
    fn dot(self, sums: __m512i, codes: __m512i, activations: __m512i) -> __m512i {
        on_cpu!(_mm512_add_epi16(sums, _mm512_maddubs_epi16(codes, activations)))
    }

    /// Pairs of biased bytes would saturate: 2 * 255 * 128 exceeds 16 bits. Without the bias, the
    /// activation gives its sign to the weight and its magnitude is the unsigned side, which has room
    /// for 128; a pair is then at most 2 * 128 * 127 = 32512.
    #[inline(always)]
    fn dot_signed(self, sums: __m512i, weights: __m512i, activations: __m512i) -> __m512i {
        on_cpu!({
            let negative = _mm512_movepi8_mask(activations);
            let signed = _mm512_mask_sub_epi8(weights, negative, _mm512_setzero_si512(), weights);
            _mm512_add_epi16(sums, _mm512_maddubs_epi16(_mm512_abs_epi8(activations), signed))
        })
    }

    #[inline(always)]
    fn dot_pairs(self, sums: __m512i, pairs: __m512i, weights: __m512i) -> __m512i {
        on_cpu!(_mm512_add_epi32(sums, _mm512_madd_epi16(pairs, weights)))
    }

    #[inline(always)]
    fn prefetches(bits: usize, _tokens: usize) -> bool {
        bits == 2
    }
}

/// The first operand of `vpdpbusd` may be any byte, so fields are masked where they are: the top field
/// is at most 2 << 6 = 128 and an activation at least -128, on a quarter of the columns, so a sum stays
/// within 2^14 * 2^17 / 4 = 2^29 (`MAX_COLS` is 2^17). Upper nibbles are at most 240, on half of the
/// columns: 240 * 128 * 2^16 is below 2^31.
impl Dot for Vnni {
    const CAPACITY: usize = usize::MAX;
    const VNNI: bool = true;

    #[inline(always)]
    fn dot(self, sums: __m512i, codes: __m512i, activations: __m512i) -> __m512i {
        on_cpu!(_mm512_dpbusd_epi32(sums, codes, activations))
    }

    #[inline(always)]
    fn dot_signed(self, sums: __m512i, weights: __m512i, activations: __m512i) -> __m512i {
        self.dot(sums, weights, activations)
    }

    #[inline(always)]
    fn dot_pairs(self, sums: __m512i, pairs: __m512i, weights: __m512i) -> __m512i {
        on_cpu!(_mm512_dpwssd_epi32(sums, pairs, weights))
    }

    /// With more tokens, arithmetic takes longer than memory. The two tokens of int8 codes are the
    /// coarse and the fine codes of one hidden state. For nibbles, prefetching took a third more time.
    #[inline(always)]
    fn prefetches(bits: usize, tokens: usize) -> bool {
        bits == 2 && tokens <= 2 || bits == 8 && tokens == 2
    }

    #[inline(always)]
    fn has_vbmi(self) -> bool {
        self.vbmi
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

impl<D: Dot> IntLanes for Avx512<D> {
    type Bytes = __m512i;
    type Narrow = __m512i;
    type Sums = __m512i;
    type Quads<'a> = &'a QuadBlock;
    type Pairs = __m512i;
    type Columns = __m512i;

    const CAPACITY: usize = D::CAPACITY;
    const UNSHIFTED: bool = D::VNNI;
    const BIASED: bool = D::VNNI;

    #[inline(always)]
    fn sums_per_row(_tokens: usize, short: bool) -> usize {
        match (D::VNNI, short) {
            (true, false) => 4,
            (true, true) => 2,
            (false, _) => 1,
        }
    }

    #[inline(always)]
    fn prefetch_after(self, line: &Line, bits: usize, tokens: usize) {
        if D::prefetches(bits, tokens) {
            prefetch_after(line);
        }
    }

    #[inline(always)]
    fn load_bytes(self, line: &[u8; 64], _pass: usize) -> __m512i {
        on_cpu!(_mm512_loadu_si512(line.as_ptr().cast()))
    }

    #[inline(always)]
    fn load_activations(self, activations: &[i8; 64], _pass: usize) -> __m512i {
        on_cpu!(_mm512_loadu_si512(activations.as_ptr().cast()))
    }

    #[inline(always)]
    fn field(self, bytes: __m512i, shift: usize, mask: u8) -> __m512i {
        on_cpu!({
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
        })
    }

    #[inline(always)]
    fn signed(self, bytes: __m512i) -> __m512i {
        if Self::BIASED { bytes } else { on_cpu!(_mm512_xor_si512(bytes, _mm512_set1_epi8(-128))) }
    }

    /// On Zen 4, one token takes 30 % more time if each `vpdpbusd` directly follows the `vpandq` that
    /// it depends on.
    #[inline(always)]
    fn extract_first(self, codes: __m512i, next_codes: __m512i) {
        if D::VNNI {
            on_cpu!(order(codes, next_codes));
        }
    }

    #[inline(always)]
    fn quads(self, activations: &QuadBlock) -> &QuadBlock {
        activations
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        on_cpu!(_mm512_setzero_si512())
    }

    #[inline(always)]
    fn dot(self, sums: __m512i, codes: __m512i, activations: __m512i) -> __m512i {
        self.0.dot(sums, codes, activations)
    }

    #[inline(always)]
    fn dot_quad<const QUAD: usize>(
        self,
        sums: __m512i,
        codes: __m512i,
        quads: &QuadBlock,
    ) -> __m512i {
        self.0.dot(sums, codes, broadcast(quads[QUAD]))
    }

    #[inline(always)]
    fn dot_signed<const QUAD: usize>(
        self,
        sums: __m512i,
        weights: __m512i,
        quads: &QuadBlock,
    ) -> __m512i {
        self.0.dot_signed(sums, weights, broadcast(quads[QUAD]))
    }

    #[inline(always)]
    fn splat_sums(self, value: i32) -> __m512i {
        on_cpu!(_mm512_set1_epi32(value))
    }

    #[inline(always)]
    fn widen(self, sums: __m512i, narrow: __m512i, shift: usize) -> __m512i {
        on_cpu!({
            let wide = match shift {
                _ if !D::VNNI => _mm512_madd_epi16(narrow, _mm512_set1_epi16(1)),
                0 => narrow,
                2 => _mm512_srai_epi32::<2>(narrow),
                4 => _mm512_srai_epi32::<4>(narrow),
                _ => _mm512_srai_epi32::<6>(narrow),
            };
            _mm512_add_epi32(sums, wide)
        })
    }

    #[inline(always)]
    fn store_sums(self, sums: __m512i, out: &mut [i32; STRIP], _pass: usize) {
        on_cpu!(_mm512_storeu_si512(out.as_mut_ptr().cast(), sums));
    }

    #[inline(always)]
    fn total(self, sums: __m512i) -> i32 {
        on_cpu!(_mm512_reduce_add_epi32(sums))
    }

    #[inline(always)]
    fn load_pairs(self, values: &[i8; 32]) -> __m512i {
        on_cpu!(_mm512_cvtepi8_epi16(_mm256_loadu_si256(values.as_ptr().cast())))
    }

    #[inline(always)]
    fn zero_columns(self) -> __m512i {
        self.zero()
    }

    #[inline(always)]
    fn dot_pairs(self, sums: __m512i, pairs: __m512i, [even, odd]: [i16; 2]) -> __m512i {
        let weights = i32::from(odd) << 16 | i32::from(even.cast_unsigned());
        self.0.dot_pairs(sums, pairs, self.splat_sums(weights))
    }

    #[inline(always)]
    fn store_columns(self, sums: __m512i, out: &mut [i32; 16]) {
        self.store_sums(sums, out, 0);
    }

    #[inline(always)]
    fn decodes_five_trits(self) -> bool {
        self.0.has_vbmi()
    }

    #[inline(always)]
    fn five_trit_sums<const T: usize>(
        self,
        lines: &[Line],
        tokens: [&[i8]; T],
    ) -> [[i32; STRIP]; T] {
        assert!(self.0.has_vbmi(), "five trits per byte are decoded with VBMI");
        // SAFETY: `self` exists, so the CPU has the features, and VBMI is one of them.
        unsafe { five_trit_sums(lines, tokens) }
    }

    #[inline(always)]
    fn add_columns(
        self,
        lines: ColumnLines<'_>,
        columns: &[[u32; 4]],
        codes: &[[i8; 4]],
        sums: &mut [i32; COLUMN_LINE_ROWS],
    ) {
        add_columns(self, lines, columns, codes, sums);
    }
}

impl<D: Dot> Interleave for Avx512<D> {
    #[inline(always)]
    fn interleave(self, [a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        on_cpu!({
            let (ab_low, ab_high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
            [
                _mm512_unpacklo_epi16(ab_low, cd_low),
                _mm512_unpackhi_epi16(ab_low, cd_low),
                _mm512_unpacklo_epi16(ab_high, cd_high),
                _mm512_unpackhi_epi16(ab_high, cd_high),
            ]
        })
    }

    #[inline(always)]
    fn broadcast(self, quad: [i8; 4]) -> __m512i {
        broadcast(quad)
    }

    #[inline(always)]
    fn resume(self, sums: &[i32; STRIP]) -> __m512i {
        if D::VNNI { self.load_sums(sums) } else { self.zero() }
    }

    #[inline(always)]
    fn flush(self, narrow: __m512i, sums: &mut [i32; STRIP]) {
        let total = if D::VNNI { narrow } else { self.widen(self.load_sums(sums), narrow, 0) };
        self.store_sums(total, sums, 0);
    }

    #[inline(always)]
    fn load_sums(self, sums: &[i32; STRIP]) -> __m512i {
        on_cpu!(_mm512_loadu_si512(sums.as_ptr().cast()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::tests::check_sums;

    #[test]
    fn sums_equal_the_scalar_ones() {
        if super::super::has_avx512() {
            check_sums(Avx512(Madd(())));
        }
    }

    #[test]
    fn sums_of_vnni_equal_the_scalar_ones_with_and_without_vbmi() {
        if let Some(cpu) = Avx512::with_vnni() {
            check_sums(*cpu);
            check_sums(Avx512(Vnni { vbmi: false }));
        }
    }
}
