//! Integer lanes in two registers.

use std::arch::x86_64::*;

use super::{Avx2, Madd, Vnni, on_cpu};
use crate::arch::x86_64::prefetch_after;
use crate::int_lanes::{COLUMN_LINE_ROWS, ColumnLines, IntLanes, Interleave, QuadBlock};
use crate::line::{Line, STRIP};
use crate::sums::add_columns;

/// The two halves of a line.
type Halves = [__m256i; 2];

/// The products of unsigned codes and signed activations.
pub(super) trait Dot: Copy {
    const CAPACITY: usize;
    const BIASED: bool;

    fn sums_per_row(tokens: usize) -> usize;
    fn dot(self, sums: __m256i, codes: __m256i, activations: __m256i) -> __m256i;
    fn signed(self, bytes: __m256i) -> __m256i;
    fn dot_signed(self, sums: __m256i, weights: __m256i, activations: __m256i) -> __m256i;
    fn widen(self, sums: __m256i, narrow: __m256i) -> __m256i;
}

impl Dot for Madd {
    /// Two products of at most 128 times a code in each lane of 16 bits.
    const CAPACITY: usize = 128;
    const BIASED: bool = false;

    #[inline(always)]
    fn sums_per_row(_tokens: usize) -> usize {
        1
    }

    #[inline(always)]
    fn dot(self, sums: __m256i, codes: __m256i, activations: __m256i) -> __m256i {
        on_cpu!(_mm256_add_epi16(sums, _mm256_maddubs_epi16(codes, activations)))
    }

    #[inline(always)]
    fn signed(self, bytes: __m256i) -> __m256i {
        on_cpu!(_mm256_xor_si256(bytes, _mm256_set1_epi8(-128)))
    }

    /// Pairs of biased bytes would saturate: 2 * 255 * 128 exceeds 16 bits. Without the bias, the
    /// activation gives its sign to the weight and its magnitude is the unsigned side, which has room
    /// for 128; a pair is then at most 2 * 128 * 127 = 32512.
    #[inline(always)]
    fn dot_signed(self, sums: __m256i, weights: __m256i, activations: __m256i) -> __m256i {
        on_cpu!({
            let signed = _mm256_sign_epi8(weights, activations);
            _mm256_add_epi16(sums, _mm256_maddubs_epi16(_mm256_abs_epi8(activations), signed))
        })
    }

    #[inline(always)]
    fn widen(self, sums: __m256i, narrow: __m256i) -> __m256i {
        on_cpu!(_mm256_add_epi32(sums, _mm256_madd_epi16(narrow, _mm256_set1_epi16(1))))
    }
}

/// `vpdpbusd` has two encodings, of AVX-VNNI and of AVX-512 with short registers. The code that runs
/// with the first is tested on CPUs that only have the second.
macro_rules! implement_dot {
    ($dot:ty, $dpbusd:ident) => {
        impl Dot for $dot {
            const CAPACITY: usize = usize::MAX;
            const BIASED: bool = true;

            #[inline(always)]
            fn sums_per_row(tokens: usize) -> usize {
                crate::int_lanes::sums_for_dot_latency(tokens)
            }

            #[inline(always)]
            fn dot(self, sums: __m256i, codes: __m256i, activations: __m256i) -> __m256i {
                on_cpu!($dpbusd(sums, codes, activations))
            }

            #[inline(always)]
            fn signed(self, bytes: __m256i) -> __m256i {
                bytes
            }

            #[inline(always)]
            fn dot_signed(self, sums: __m256i, weights: __m256i, activations: __m256i) -> __m256i {
                self.dot(sums, weights, activations)
            }

            #[inline(always)]
            fn widen(self, sums: __m256i, narrow: __m256i) -> __m256i {
                on_cpu!(_mm256_add_epi32(sums, narrow))
            }
        }
    };
}

implement_dot!(Vnni, _mm256_dpbusd_avx_epi32);

#[inline(always)]
fn broadcast(quad: [i8; 4]) -> __m256i {
    on_cpu!(_mm256_set1_epi32(i32::from_le_bytes(quad.map(i8::cast_unsigned))))
}

impl<D: Dot> IntLanes for Avx2<D> {
    type Bytes = Halves;
    type Narrow = Halves;
    type Sums = Halves;
    type Quads<'a> = &'a QuadBlock;
    type Pairs = Halves;
    type Columns = Halves;

    const CAPACITY: usize = D::CAPACITY;
    const BIASED: bool = D::BIASED;

    #[inline(always)]
    fn sums_per_row(tokens: usize, _short: bool) -> usize {
        D::sums_per_row(tokens)
    }

    #[inline(always)]
    fn prefetch_after(self, line: &Line, bits: usize, _tokens: usize) {
        if bits == 2 {
            prefetch_after(line);
        }
    }

    #[inline(always)]
    fn load_bytes(self, line: &[u8; 64], _pass: usize) -> Halves {
        let start = line.as_ptr().cast::<__m256i>();
        on_cpu!([_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))])
    }

    #[inline(always)]
    fn load_activations(self, activations: &[i8; 64], _pass: usize) -> Halves {
        let start = activations.as_ptr().cast::<__m256i>();
        on_cpu!([_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))])
    }

    #[inline(always)]
    fn field(self, [low, high]: Halves, shift: usize, mask: u8) -> Halves {
        // Shifts of 16-bit words: bits that come over from the next byte are masked off.
        on_cpu!({
            let mask = _mm256_set1_epi8(mask.cast_signed());
            let [low, high] = match shift {
                0 => [low, high],
                2 => [_mm256_srli_epi16::<2>(low), _mm256_srli_epi16::<2>(high)],
                4 => [_mm256_srli_epi16::<4>(low), _mm256_srli_epi16::<4>(high)],
                _ => [_mm256_srli_epi16::<6>(low), _mm256_srli_epi16::<6>(high)],
            };
            [_mm256_and_si256(low, mask), _mm256_and_si256(high, mask)]
        })
    }

    #[inline(always)]
    fn signed(self, [low, high]: Halves) -> Halves {
        [self.0.signed(low), self.0.signed(high)]
    }

    #[inline(always)]
    fn quads(self, activations: &QuadBlock) -> &QuadBlock {
        activations
    }

    #[inline(always)]
    fn zero(self) -> Halves {
        self.splat_sums(0)
    }

    #[inline(always)]
    fn dot(self, sums: Halves, codes: Halves, activations: Halves) -> Halves {
        [
            self.0.dot(sums[0], codes[0], activations[0]),
            self.0.dot(sums[1], codes[1], activations[1]),
        ]
    }

    #[inline(always)]
    fn dot_quad<const QUAD: usize>(self, sums: Halves, codes: Halves, quads: &QuadBlock) -> Halves {
        let activations = broadcast(quads[QUAD]);
        self.dot(sums, codes, [activations; 2])
    }

    #[inline(always)]
    fn dot_signed<const QUAD: usize>(
        self,
        sums: Halves,
        weights: Halves,
        quads: &QuadBlock,
    ) -> Halves {
        let activations = broadcast(quads[QUAD]);
        [
            self.0.dot_signed(sums[0], weights[0], activations),
            self.0.dot_signed(sums[1], weights[1], activations),
        ]
    }

    #[inline(always)]
    fn splat_sums(self, value: i32) -> Halves {
        [on_cpu!(_mm256_set1_epi32(value)); 2]
    }

    #[inline(always)]
    fn widen(self, sums: Halves, narrow: Halves, _shift: usize) -> Halves {
        [self.0.widen(sums[0], narrow[0]), self.0.widen(sums[1], narrow[1])]
    }

    #[inline(always)]
    fn store_sums(self, [low, high]: Halves, out: &mut [i32; STRIP], _pass: usize) {
        let start = out.as_mut_ptr().cast::<__m256i>();
        on_cpu!({
            _mm256_storeu_si256(start, low);
            _mm256_storeu_si256(start.add(1), high);
        });
    }

    #[inline(always)]
    fn total(self, [low, high]: Halves) -> i32 {
        on_cpu!({
            let eight = _mm256_add_epi32(low, high);
            let four =
                _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
            let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b11_10>(four));
            _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b01>(two)))
        })
    }

    #[inline(always)]
    fn load_pairs(self, values: &[i8; 32]) -> Halves {
        on_cpu!({
            let pairs = _mm256_loadu_si256(values.as_ptr().cast());
            let (low, high) = (_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
            [_mm256_cvtepi8_epi16(low), _mm256_cvtepi8_epi16(high)]
        })
    }

    #[inline(always)]
    fn zero_columns(self) -> Halves {
        self.splat_sums(0)
    }

    #[inline(always)]
    fn dot_pairs(self, sums: Halves, pairs: Halves, [even, odd]: [i16; 2]) -> Halves {
        on_cpu!({
            let weights = _mm256_set1_epi32(i32::from(odd) << 16 | i32::from(even.cast_unsigned()));
            [
                _mm256_add_epi32(sums[0], _mm256_madd_epi16(pairs[0], weights)),
                _mm256_add_epi32(sums[1], _mm256_madd_epi16(pairs[1], weights)),
            ]
        })
    }

    #[inline(always)]
    fn store_columns(self, sums: Halves, out: &mut [i32; 16]) {
        self.store_sums(sums, out, 0);
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

impl<D: Dot> Interleave for Avx2<D> {
    #[inline(always)]
    fn interleave(self, [a, b, c, d]: [Halves; 4]) -> [Halves; 4] {
        let [low, high] =
            [interleave([a[0], b[0], c[0], d[0]]), interleave([a[1], b[1], c[1], d[1]])];
        [[low[0], high[0]], [low[1], high[1]], [low[2], high[2]], [low[3], high[3]]]
    }

    #[inline(always)]
    fn broadcast(self, quad: [i8; 4]) -> Halves {
        [broadcast(quad); 2]
    }

    #[inline(always)]
    fn load_sums(self, sums: &[i32; STRIP]) -> Halves {
        let start = sums.as_ptr().cast::<__m256i>();
        on_cpu!([_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))])
    }
}

#[inline(always)]
fn interleave([a, b, c, d]: Halves4) -> Halves4 {
    on_cpu!({
        let (ab_low, ab_high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
        [
            _mm256_unpacklo_epi16(ab_low, cd_low),
            _mm256_unpackhi_epi16(ab_low, cd_low),
            _mm256_unpacklo_epi16(ab_high, cd_high),
            _mm256_unpackhi_epi16(ab_high, cd_high),
        ]
    })
}

/// One half of four lines.
type Halves4 = [__m256i; 4];

#[cfg(test)]
mod tests {
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
            check_sums(Avx2(Madd(())));
        }
    }

    #[test]
    fn sums_of_vnni_equal_the_scalar_ones_in_either_encoding() {
        if super::super::detect_vnni().is_some() {
            check_sums(Avx2(Vnni(())));
        }
        if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vnni") {
            check_sums(Avx2(Avx512Vl));
        }
    }
}
