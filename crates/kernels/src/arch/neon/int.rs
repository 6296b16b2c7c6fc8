//! The integer operations that all NEON kernels share.

use std::arch::aarch64::*;

use crate::arch::inlined;
use crate::int_lanes::{ColumnQuads, ColumnSums};

inlined! {
    /// Extracts a field of sixteen bytes.
    pub(super) fn field(bytes: int8x16_t, shift: usize, mask: u8) -> int8x16_t {
        let bytes = vreinterpretq_u8_s8(bytes);
        let shifted = match shift {
            0 => bytes,
            2 => vshrq_n_u8::<2>(bytes),
            4 => vshrq_n_u8::<4>(bytes),
            _ => vshrq_n_u8::<6>(bytes),
        };
        let is_top = u32::from(mask) << shift >= 0x80;
        vreinterpretq_s8_u8(if is_top { shifted } else { vandq_u8(shifted, vdupq_n_u8(mask)) })
    }

    /// Removes the bias of sixteen weights.
    pub(super) fn signed(bytes: int8x16_t) -> int8x16_t { veorq_s8(bytes, vdupq_n_s8(-128)) }

    /// Four columns of two positions in each register, as 16 bits.
    pub(super) fn load_pairs(values: &[i8; 32]) -> [int16x8_t; 4] {
        let [low, high] = [0, 1].map(|half| vld1q_s8(values.as_chunks::<16>().0[half].as_ptr()));
        [
            vmovl_s8(vget_low_s8(low)),
            vmovl_high_s8(low),
            vmovl_s8(vget_low_s8(high)),
            vmovl_high_s8(high),
        ]
    }

    /// Adds the products of pairs of positions and pairs of weights.
    pub(super) fn dot_pairs(
        mut sums: [int32x4_t; 4], pairs: [int16x8_t; 4], [even, odd]: [i16; 2],
    ) -> [int32x4_t; 4] {
        let weights = i32::from(odd) << 16 | i32::from(even.cast_unsigned());
        let weights = vreinterpretq_s16_s32(vdupq_n_s32(weights));
        for (sum, pairs) in sums.iter_mut().zip(pairs) {
            let low = vmull_s16(vget_low_s16(pairs), vget_low_s16(weights));
            let high = vmull_high_s16(pairs, weights);
            *sum = vaddq_s32(*sum, vpaddq_s32(low, high));
        }
        sums
    }

    pub(super) fn store_columns(sums: [int32x4_t; 4], out: &mut [i32; 16]) {
        for (out, sum) in out.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
            vst1q_s32(out.as_mut_ptr(), sum);
        }
    }

    /// Adds columns one by one, without interleaving them: rows stay in lanes of 16 bits, which hold
    /// the sums of 127 products of at most 256, more than there are columns at once. Of a part of
    /// sixteen bytes, four neighbouring bytes are four neighbouring rows.
    pub(super) fn add_columns(quads: ColumnQuads<'_>, sums: &mut ColumnSums) {
        for part in 0..4 {
            let mut narrow = [[vdupq_n_s16(0); 2]; 4];
            let columns = quads.columns.as_flattened().iter();
            for (&column, &code) in columns.zip(quads.codes.as_flattened()) {
                let bytes = load_16(&quads.line(column).0, part);
                let code = vdupq_n_s8(code);
                for (j, narrow) in narrow.iter_mut().enumerate() {
                    *narrow = add_products(*narrow, field(bytes, 2 * j, 3), code);
                }
            }
            for (field, [low, high]) in narrow.into_iter().enumerate() {
                let (a, b) = (vget_low_s16(low), vget_high_s16(low));
                let (c, d) = (vget_low_s16(high), vget_high_s16(high));
                for (k, four) in [a, b, c, d].into_iter().enumerate() {
                    let sums = &mut sums.as_chunks_mut::<4>().0[16 * field + 4 * k + part];
                    vst1q_s32(sums.as_mut_ptr(), vaddw_s16(vld1q_s32(sums.as_ptr()), four));
                }
            }
        }
    }

    /// Adds sixteen products to sums of 16 bits.
    pub(super) fn add_products(
        sums: [int16x8_t; 2], codes: int8x16_t, activations: int8x16_t,
    ) -> [int16x8_t; 2] {
        [
            vmlal_s8(sums[0], vget_low_s8(codes), vget_low_s8(activations)),
            vmlal_high_s8(sums[1], codes, activations),
        ]
    }
}

#[inline(always)]
pub(super) fn load_16<T>(bytes: &[T; 64], part: usize) -> int8x16_t {
    const { assert!(size_of::<T>() == 1) };
    // SAFETY: every CPU of this target has NEON, and these are sixteen bytes.
    unsafe { vld1q_s8(bytes.as_chunks::<16>().0[part].as_ptr().cast()) }
}

/// Implements the types and methods of [`IntLanes`](crate::int_lanes::IntLanes) that all NEON kernels share.
macro_rules! shared_methods {
    () => {
        type Pairs = [int16x8_t; 4];
        type Columns = [int32x4_t; 4];

        inlined! {
            fn load_pairs(self, values: &[i8; 32]) -> [int16x8_t; 4] { int::load_pairs(values) }

            fn zero_columns(self) -> [int32x4_t; 4] { [vdupq_n_s32(0); 4] }

            fn dot_pairs(
                self, sums: [int32x4_t; 4], pairs: [int16x8_t; 4], weights: [i16; 2],
            ) -> [int32x4_t; 4] {
                int::dot_pairs(sums, pairs, weights)
            }

            fn store_columns(self, sums: [int32x4_t; 4], out: &mut [i32; 16]) {
                int::store_columns(sums, out);
            }

            fn accumulate_columns(self, quads: ColumnQuads<'_>, sums: &mut ColumnSums) {
                int::add_columns(quads, sums);
            }
        }
    };
}
pub(super) use shared_methods;
