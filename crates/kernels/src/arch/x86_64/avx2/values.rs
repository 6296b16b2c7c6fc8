//! Weighted sums of int8 values: pairs of positions in 16 bits, `vpmaddwd`.

use std::arch::x86_64::*;

use super::store;
use crate::int8::{ValuePages, ValuePairs, WeightPair};
use crate::kv::PAGE_LEN;

#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::x86_64) fn value_sums<const T: usize, const B: usize>(
    values: &impl ValuePages,
    first: usize,
    weights: [&[WeightPair]; T],
) -> [[[i32; 16]; B]; T] {
    let columns = values.columns();
    let mut results = [[[0; 16]; B]; T];
    for b in 0..B {
        let mut sums = [[_mm256_setzero_si256(); 2]; T];
        for start in (0..weights[0].len()).step_by(PAGE_LEN / 2) {
            let rows = values.page(start / (PAGE_LEN / 2)).chunks_exact(columns);
            for (i, row) in rows.take(weights[0].len() - start).enumerate() {
                let [low, high] = widen_pairs(&row[first + b]);
                for (sums, weights) in sums.iter_mut().zip(weights) {
                    let [even, odd] = weights[start + i];
                    let pair = i32::from(odd) << 16 | i32::from(even.cast_unsigned());
                    let pair = _mm256_set1_epi32(pair);
                    sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(low, pair));
                    sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(high, pair));
                }
            }
        }
        for (results, [low, high]) in results.iter_mut().zip(sums) {
            results[b] = store(low, high);
        }
    }
    results
}

/// Eight columns of two positions in each register, as 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn widen_pairs(bytes: &ValuePairs) -> [__m256i; 2] {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    let pairs = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    let (low, high) = (_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
    [_mm256_cvtepi8_epi16(low), _mm256_cvtepi8_epi16(high)]
}
