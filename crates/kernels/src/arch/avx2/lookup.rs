//! Table lookups: sixteen tokens are one register.

use std::arch::x86_64::*;
use std::ops::Range;

use super::Avx2;
use crate::arch::inlined;
use crate::arch::lookup::{
    BLOCK, Block, LookupLanes, MAX_ROWS, PAIR_OF_CODES, Tokens, Work, with_work,
};
use crate::arch::x86_64::Madd;
use crate::line::{Line, STRIP};
use crate::{LookupKernel, QuantRow, Strip, TernaryMatrix};

impl LookupKernel for Avx2<Madd> {
    /// Sixteen tokens take as long as thirteen by multiplication, and tables as long to fill as 150 rows
    /// to read them.
    fn min_shape(&self) -> (usize, usize) {
        (14, 256)
    }

    fn max_shape(&self) -> (usize, usize) {
        (BLOCK, MAX_ROWS)
    }

    fn multiply_strips(
        &self,
        w: &TernaryMatrix,
        strips: Range<usize>,
        xs: &[QuantRow],
        y: &mut Strip<'_, f32>,
    ) {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled(cpu: Avx2<Madd>, block: &Block<'_>, work: &mut Work, y: &mut Strip<'_, f32>) {
            block.multiply(cpu, work, y);
        }
        let block = Block::new(w, strips, xs, y);
        // SAFETY: `self` exists, so the CPU has the features.
        with_work(|work| unsafe { compiled(*self, &block, work, y) });
    }
}

impl LookupLanes for Avx2<Madd> {
    type I16x16 = __m256i;
    type Bytes = __m128i;

    inlined! {
        fn zero_tokens(self) -> __m256i { _mm256_setzero_si256() }

        fn load_tokens(self, tokens: &Tokens) -> __m256i {
            _mm256_loadu_si256(tokens.as_ptr().cast())
        }

        fn store_tokens(self, values: __m256i, tokens: &mut Tokens) {
            _mm256_storeu_si256(tokens.as_mut_ptr().cast(), values);
        }

        fn add_tokens(self, a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi16(a, b) }

        fn sub_tokens(self, a: __m256i, b: __m256i) -> __m256i { _mm256_sub_epi16(a, b) }

        fn abs_tokens(self, values: __m256i) -> __m256i { _mm256_abs_epi16(values) }

        fn add_saturating(self, a: __m256i, b: __m256i) -> __m256i { _mm256_adds_epi16(a, b) }

        fn any_is_largest(self, values: __m256i) -> bool {
            let largest = _mm256_cmpeq_epi16(values, _mm256_set1_epi16(i16::MAX));
            _mm256_movemask_epi8(largest) != 0
        }

        fn widen_tokens(self, values: __m256i, sums: &mut [i32; 16]) {
            let halves = sums.as_mut_ptr().cast::<__m256i>();
            let low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(values));
            let high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256::<1>(values));
            _mm256_storeu_si256(halves, _mm256_add_epi32(_mm256_loadu_si256(halves), low));
            let halves = halves.add(1);
            _mm256_storeu_si256(halves, _mm256_add_epi32(_mm256_loadu_si256(halves), high));
        }

        fn load_codes(self, codes: &[i8; 16]) -> __m128i { _mm_loadu_si128(codes.as_ptr().cast()) }

        fn zip_bytes(self, a: __m128i, b: __m128i) -> [__m128i; 2] {
            [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)]
        }

        fn codes_to_tokens(self, codes: __m128i) -> __m256i { _mm256_cvtepi8_epi16(codes) }

        fn entries_of_line(self, line: &Line, out: &mut [u32; STRIP]) {
            let pairs = _mm_loadu_si128(PAIR_OF_CODES.as_ptr().cast());
            let low_pairs = _mm256_broadcastsi128_si256(pairs);
            let high_pairs = _mm256_add_epi8(_mm256_slli_epi16::<3>(low_pairs), low_pairs);
            let nibble = _mm256_set1_epi8(0xf);
            let (halves, out) = (line.0.as_chunks::<32>().0, out.as_chunks_mut::<8>().0);
            for (half, out) in halves.iter().zip(out) {
                let bytes = _mm256_loadu_si256(half.as_ptr().cast());
                let low = _mm256_and_si256(bytes, nibble);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble);
                let entries = _mm256_add_epi8(
                    _mm256_shuffle_epi8(low_pairs, low),
                    _mm256_shuffle_epi8(high_pairs, high),
                );
                _mm256_storeu_si256(out.as_mut_ptr().cast(), entries);
            }
        }

        fn transpose(self, rows: &[[i32; 16]; 16]) -> [[i32; 16]; 16] {
            let mut out = [[0; 16]; 16];
            for down in [0, 8] {
                for right in [0, 8] {
                    let mut block = [_mm256_setzero_si256(); 8];
                    for (i, block) in block.iter_mut().enumerate() {
                        *block = _mm256_loadu_si256(rows[down + i][right..].as_ptr().cast());
                    }
                    for (i, column) in transposed(block).into_iter().enumerate() {
                        _mm256_storeu_si256(out[right + i][down..].as_mut_ptr().cast(), column);
                    }
                }
            }
            out
        }
    }
}

inlined! {
    /// Transposes eight rows of eight numbers.
    fn transposed(rows: [__m256i; 8]) -> [__m256i; 8] {
        let mut pairs = rows;
        for i in [0, 2, 4, 6] {
            pairs[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
            pairs[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
        }
        let mut quads = pairs;
        for i in [0, 4] {
            quads[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
            quads[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
            quads[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
            quads[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
        }
        let mut columns = quads;
        for i in 0..4 {
            columns[i] = _mm256_permute2x128_si256::<0x20>(quads[i], quads[i + 4]);
            columns[i + 4] = _mm256_permute2x128_si256::<0x31>(quads[i], quads[i + 4]);
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_do_what_lookups_need() {
        if super::super::has_avx2() {
            crate::arch::lookup::tests::check_lanes(Avx2::<Madd>(std::marker::PhantomData));
        }
    }
}
