//! Table lookups: sixteen tokens are two registers.

use std::arch::aarch64::*;
use std::ops::Range;

use super::{Neon, Widening};
use crate::arch::inlined;
use crate::arch::lookup::{BLOCK, Block, LookupLanes, PAIR_OF_CODES, Tokens, with_work};
use crate::line::{Line, STRIP};
use crate::{LookupKernel, QuantRow, Strip, TernaryMatrix};

/// Rows in a job. CPUs without a byte dot product have 512 KiB or 1 MiB of second-level cache for four cores.
const MAX_ROWS: usize = 640;

impl LookupKernel for Neon<Widening> {
    /// Eight tokens take 0.78 of the instructions of products in 16 bits (256 rows: 0.87), six 0.98 (1.08), and 64
    /// tokens a third.
    fn min_shape(&self) -> (usize, usize) {
        (8, 256)
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
        let block = Block::new(w, strips, xs, y);
        with_work(|work| block.multiply(*self, work, y));
    }
}

impl LookupLanes for Neon<Widening> {
    type I16x16 = [int16x8_t; 2];
    type Bytes = int8x16_t;

    inlined! {
        fn zero_tokens(self) -> [int16x8_t; 2] { [vdupq_n_s16(0); 2] }

        fn load_tokens(self, tokens: &Tokens) -> [int16x8_t; 2] {
            let [low, high] = tokens.as_chunks::<8>().0 else { unreachable!("sixteen numbers") };
            [vld1q_s16(low.as_ptr()), vld1q_s16(high.as_ptr())]
        }

        fn store_tokens(self, values: [int16x8_t; 2], tokens: &mut Tokens) {
            for (half, values) in tokens.as_chunks_mut::<8>().0.iter_mut().zip(values) {
                vst1q_s16(half.as_mut_ptr(), values);
            }
        }

        fn add_tokens(self, a: [int16x8_t; 2], b: [int16x8_t; 2]) -> [int16x8_t; 2] {
            [vaddq_s16(a[0], b[0]), vaddq_s16(a[1], b[1])]
        }

        fn sub_tokens(self, a: [int16x8_t; 2], b: [int16x8_t; 2]) -> [int16x8_t; 2] {
            [vsubq_s16(a[0], b[0]), vsubq_s16(a[1], b[1])]
        }

        fn abs_tokens(self, values: [int16x8_t; 2]) -> [int16x8_t; 2] {
            [vabsq_s16(values[0]), vabsq_s16(values[1])]
        }

        fn add_saturating(self, a: [int16x8_t; 2], b: [int16x8_t; 2]) -> [int16x8_t; 2] {
            [vqaddq_s16(a[0], b[0]), vqaddq_s16(a[1], b[1])]
        }

        fn any_is_largest(self, values: [int16x8_t; 2]) -> bool {
            vmaxvq_s16(vmaxq_s16(values[0], values[1])) == i16::MAX
        }

        fn widen_tokens(self, values: [int16x8_t; 2], sums: &mut [i32; 16]) {
            let [a, b] = values;
            let four = [vget_low_s16(a), vget_high_s16(a), vget_low_s16(b), vget_high_s16(b)];
            for (sums, four) in sums.as_chunks_mut::<4>().0.iter_mut().zip(four) {
                vst1q_s32(sums.as_mut_ptr(), vaddw_s16(vld1q_s32(sums.as_ptr()), four));
            }
        }

        fn load_codes(self, codes: &[i8; 16]) -> int8x16_t { vld1q_s8(codes.as_ptr()) }

        fn zip_bytes(self, a: int8x16_t, b: int8x16_t) -> [int8x16_t; 2] {
            [vzip1q_s8(a, b), vzip2q_s8(a, b)]
        }

        fn codes_to_tokens(self, codes: int8x16_t) -> [int16x8_t; 2] {
            [vmovl_s8(vget_low_s8(codes)), vmovl_high_s8(codes)]
        }

        fn entries_of_line(self, line: &Line, out: &mut [u32; STRIP]) {
            let low_pairs = vld1q_u8(PAIR_OF_CODES.as_ptr());
            let high_pairs = vaddq_u8(vshlq_n_u8::<3>(low_pairs), low_pairs);
            let (parts, out) = (line.0.as_chunks::<16>().0, out.as_chunks_mut::<4>().0);
            for (part, out) in parts.iter().zip(out) {
                let bytes = vld1q_u8(part.as_ptr());
                let low = vqtbl1q_u8(low_pairs, vandq_u8(bytes, vdupq_n_u8(0xf)));
                let high = vqtbl1q_u8(high_pairs, vshrq_n_u8::<4>(bytes));
                vst1q_u32(out.as_mut_ptr(), vreinterpretq_u32_u8(vaddq_u8(low, high)));
            }
        }

        fn transpose(self, rows: &[[i32; 16]; 16]) -> [[i32; 16]; 16] {
            let mut out = [[0; 16]; 16];
            for down in [0, 4, 8, 12] {
                for right in [0, 4, 8, 12] {
                    let mut block = [vdupq_n_s32(0); 4];
                    for (i, block) in block.iter_mut().enumerate() {
                        *block = vld1q_s32(rows[down + i][right..right + 4].as_ptr());
                    }
                    for (i, column) in transposed(block).into_iter().enumerate() {
                        vst1q_s32(out[right + i][down..down + 4].as_mut_ptr(), column);
                    }
                }
            }
            out
        }
    }
}

inlined! {
    /// Transposes four rows of four numbers.
    fn transposed([a, b, c, d]: [int32x4_t; 4]) -> [int32x4_t; 4] {
        let (ac_low, ac_high) = (vzip1q_s32(a, c), vzip2q_s32(a, c));
        let (bd_low, bd_high) = (vzip1q_s32(b, d), vzip2q_s32(b, d));
        [
            vzip1q_s32(ac_low, bd_low),
            vzip2q_s32(ac_low, bd_low),
            vzip1q_s32(ac_high, bd_high),
            vzip2q_s32(ac_high, bd_high),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_do_what_lookups_need() {
        crate::arch::lookup::tests::check_lanes(Neon(Widening));
    }
}
