//! Sums over single rows and columns of trits, with multiplications of bytes that add to 16-bit sums.

use std::arch::aarch64::*;

use super::{Neon, fields, load};
use crate::line::Line;
use crate::quant::RUN;
use crate::sparse::{COLUMN_LINE_ROWS, SparseSums, TernaryColumns};

impl<Dot: Copy> SparseSums for Neon<Dot> {
    #[inline(always)]
    fn row_sums<const R: usize>(self, rows: [&[Line]; R], codes: &[i8]) -> [i32; R] {
        // SAFETY: every CPU of this target has NEON.
        unsafe { row_sums(rows, codes) }
    }

    #[inline(always)]
    fn add_columns(
        self,
        w: &TernaryColumns,
        line: usize,
        quads: (&[[u32; 4]], &[[i8; 4]]),
        sums: &mut [i32; COLUMN_LINE_ROWS],
    ) {
        // SAFETY: every CPU of this target has NEON.
        unsafe { add_columns(w, line, quads, sums) }
    }
}

/// A product is within 2 * 128 = 256, and a line adds sixteen of them to a 16-bit sum.
#[inline]
#[target_feature(enable = "neon")]
fn row_sums<const R: usize>(rows: [&[Line]; R], codes: &[i8]) -> [i32; R] {
    let mut sums = [vdupq_n_s32(0); R];
    for (i, runs) in codes.as_chunks::<RUN>().0.chunks(4).enumerate() {
        for (sum, row) in sums.iter_mut().zip(&rows) {
            let mut narrow = [vdupq_n_s16(0); 2];
            for (quarter, bytes) in row[i].0.as_chunks::<16>().0.iter().enumerate() {
                let fields = fields(bytes);
                for (trits, run) in fields.into_iter().zip(runs) {
                    let codes = load(&run.as_chunks::<16>().0[quarter]);
                    narrow = add_products(narrow, trits, codes);
                }
            }
            *sum = vpadalq_s16(vpadalq_s16(*sum, narrow[0]), narrow[1]);
        }
    }
    sums.map(|sum| vaddvq_s32(sum))
}

/// A product is within 256, so 16 bits hold the sums of 127 columns, more than come at once. Of a
/// part of sixteen bytes, four neighbouring bytes are four neighbouring rows.
#[inline]
#[target_feature(enable = "neon")]
fn add_columns(
    w: &TernaryColumns,
    line: usize,
    (columns, codes): (&[[u32; 4]], &[[i8; 4]]),
    sums: &mut [i32; COLUMN_LINE_ROWS],
) {
    for part in 0..4 {
        let mut narrow = [[vdupq_n_s16(0); 2]; 4];
        for (&column, &code) in columns.as_flattened().iter().zip(codes.as_flattened()) {
            let fields = fields(&w.line(column, line).0.as_chunks::<16>().0[part]);
            for (narrow, trits) in narrow.iter_mut().zip(fields) {
                *narrow = add_products(*narrow, trits, vdupq_n_s8(code));
            }
        }
        for (field, [low, high]) in narrow.into_iter().enumerate() {
            let fours =
                [vget_low_s16(low), vget_high_s16(low), vget_low_s16(high), vget_high_s16(high)];
            for (k, four) in fours.into_iter().enumerate() {
                let sums = &mut sums.as_chunks_mut::<4>().0[16 * field + 4 * k + part];
                // SAFETY: reads and writes an array of four integers.
                unsafe {
                    let before = vld1q_s32(sums.as_ptr());
                    vst1q_s32(sums.as_mut_ptr(), vaddw_s16(before, four));
                }
            }
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn add_products(sums: [int16x8_t; 2], trits: int8x16_t, codes: int8x16_t) -> [int16x8_t; 2] {
    [
        vmlal_s8(sums[0], vget_low_s8(trits), vget_low_s8(codes)),
        vmlal_high_s8(sums[1], trits, codes),
    ]
}
