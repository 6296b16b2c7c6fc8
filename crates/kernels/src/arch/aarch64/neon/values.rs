//! Weighted sums of int8 values: pairs of positions in 16 bits.

use std::arch::aarch64::*;

use crate::int8::{ValuePages, ValuePairs, WeightPair};
use crate::kv::PAGE_LEN;

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn value_sums<const T: usize, const B: usize>(
    values: &impl ValuePages,
    first: usize,
    weights: [&[WeightPair]; T],
) -> [[[i32; 16]; B]; T] {
    let columns = values.columns();
    let mut results = [[[0; 16]; B]; T];
    for b in 0..B {
        let mut sums = [[vdupq_n_s32(0); 4]; T];
        for start in (0..weights[0].len()).step_by(PAGE_LEN / 2) {
            let rows = values.page(start / (PAGE_LEN / 2)).chunks_exact(columns);
            for (i, row) in rows.take(weights[0].len() - start).enumerate() {
                let quarters = widen_pairs(&row[first + b]);
                for (sums, weights) in sums.iter_mut().zip(weights) {
                    let [even, odd] = weights[start + i];
                    let pair = i32::from(odd) << 16 | i32::from(even.cast_unsigned());
                    let pair = vreinterpretq_s16_s32(vdupq_n_s32(pair));
                    for (sum, pairs) in sums.iter_mut().zip(quarters) {
                        let low = vmull_s16(vget_low_s16(pairs), vget_low_s16(pair));
                        let high = vmull_high_s16(pairs, pair);
                        *sum = vaddq_s32(*sum, vpaddq_s32(low, high));
                    }
                }
            }
        }
        for (results, sums) in results.iter_mut().zip(sums) {
            for (out, sum) in results[b].as_chunks_mut::<4>().0.iter_mut().zip(sums) {
                // SAFETY: writes an array of four integers.
                unsafe { vst1q_s32(out.as_mut_ptr(), sum) };
            }
        }
    }
    results
}

/// Four columns of two positions in each register, as 16 bits.
#[inline]
#[target_feature(enable = "neon")]
fn widen_pairs(bytes: &ValuePairs) -> [int16x8_t; 4] {
    let [low, high] = [0, 1].map(|half| {
        // SAFETY: reads an array of sixteen bytes.
        unsafe { vld1q_s8(bytes.as_chunks::<16>().0[half].as_ptr()) }
    });
    [
        vmovl_s8(vget_low_s8(low)),
        vmovl_high_s8(low),
        vmovl_s8(vget_low_s8(high)),
        vmovl_high_s8(high),
    ]
}
