//! Integer lanes on baseline NEON: products of bytes in 16 bits, four rows per pass.

use std::arch::aarch64::*;

use super::int::{self, add_products, shared_methods};
use super::{Neon, Widening};
use crate::LookupKernel;
use crate::arch::inlined;
use crate::int_lanes::{ColumnQuads, ColumnSums, IntLanes, QuadBlock};
use crate::line::STRIP;

/// Four rows, two lanes each.
type Rows = [int32x4_t; 2];

impl IntLanes for Neon<Widening> {
    type Bytes = int8x16_t;
    type Narrow = [int16x8_t; 2];
    type Sums = Rows;
    type Quads<'a> = &'a QuadBlock;

    const PASSES: usize = 4;

    /// One product of at most 128 times a code in each lane.
    const CAPACITY: usize = 256;

    inlined! {
        fn load_bytes(self, line: &[u8; 64], pass: usize) -> int8x16_t { int::load_16(line, pass) }

        fn load_activations(self, activations: &[i8; 64], pass: usize) -> int8x16_t {
            int::load_16(activations, pass)
        }

        fn field(self, bytes: int8x16_t, shift: usize, mask: u8) -> int8x16_t {
            int::field(bytes, shift, mask)
        }

        fn signed(self, bytes: int8x16_t) -> int8x16_t { int::signed(bytes) }

        fn quads(self, activations: &QuadBlock) -> &QuadBlock { activations }

        fn lookup_kernel(self) -> Option<&'static dyn LookupKernel> { Some(&Neon(Widening)) }

        fn zero(self) -> [int16x8_t; 2] { [vdupq_n_s16(0); 2] }

        fn dot(
            self, sums: [int16x8_t; 2], codes: int8x16_t, activations: int8x16_t,
        ) -> [int16x8_t; 2] {
            add_products(sums, codes, activations)
        }

        fn dot_quad<const QUAD: usize>(
            self, sums: [int16x8_t; 2], codes: int8x16_t, quads: &QuadBlock,
        ) -> [int16x8_t; 2] {
            let quad = i32::from_le_bytes(quads[QUAD].map(i8::cast_unsigned));
            add_products(sums, codes, vreinterpretq_s8_s32(vdupq_n_s32(quad)))
        }

        fn splat_sums(self, value: i32) -> Rows {
            // The two lanes of a row are added when stored.
            [vsetq_lane_s32::<2>(value, vsetq_lane_s32::<0>(value, vdupq_n_s32(0))); 2]
        }

        fn widen(self, sums: Rows, narrow: [int16x8_t; 2], _shift: usize) -> Rows {
            [vpadalq_s16(sums[0], narrow[0]), vpadalq_s16(sums[1], narrow[1])]
        }

        fn store_sums(self, sums: Rows, out: &mut [i32; STRIP], pass: usize) {
            let rows = &mut out.as_chunks_mut::<4>().0[pass];
            vst1q_s32(rows.as_mut_ptr(), vpaddq_s32(sums[0], sums[1]));
        }

        fn total(self, sums: Rows) -> i32 { vaddvq_s32(vaddq_s32(sums[0], sums[1])) }
    }

    shared_methods!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_the_scalar_ones() {
        crate::sums::tests::check_sums(Neon(Widening));
    }
}
