//! Sums over single rows and columns of trits, with `maddubs`: unsigned bytes times signed bytes,
//! pairs of products added to 16-bit sums.

use std::arch::x86_64::*;

use super::{Avx2, load};
use crate::line::Line;
use crate::quant::RUN;
use crate::sparse::{COLUMN_LINE_ROWS, COLUMNS_AT_ONCE, SparseSums, TernaryColumns};

impl<Dot: Copy> SparseSums for Avx2<Dot> {
    #[inline(always)]
    fn row_sums<const R: usize>(self, rows: [&[Line]; R], codes: &[i8]) -> [i32; R] {
        // SAFETY: `self` exists, so the CPU has the features.
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
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { add_columns(w, line, quads, sums) }
    }
}

/// A pair of products is within 2 * 2 * 128 = 512, and a line adds eight of them to a 16-bit sum.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::x86_64) fn row_sums<const R: usize>(
    rows: [&[Line]; R],
    codes: &[i8],
) -> [i32; R] {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); R];
    for (i, runs) in codes.as_chunks::<RUN>().0.chunks(4).enumerate() {
        for (sum, row) in sums.iter_mut().zip(&rows) {
            let halves = row[i].0.as_chunks::<32>().0;
            let mut packed = [load(&halves[0]), load(&halves[1])];
            let mut pairs = _mm256_setzero_si256();
            for run in runs {
                for (packed, codes) in packed.iter_mut().zip(run.as_chunks::<32>().0) {
                    let products = _mm256_maddubs_epi16(trits(*packed), load_codes(codes));
                    pairs = _mm256_add_epi16(pairs, products);
                    *packed = _mm256_srli_epi16::<2>(*packed);
                }
            }
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
        }
    }
    let mut results = [0; R];
    for (result, sum) in results.iter_mut().zip(sums) {
        let mut lanes = [0; 8];
        store(sum, &mut lanes);
        *result = lanes.iter().sum();
    }
    results
}

/// Four columns are interleaved byte by byte, so that each 32-bit lane holds the same row of all
/// four. A pair of products is within 512, so 16 bits hold the sums of [`COLUMNS_AT_ONCE`] columns.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::x86_64) fn add_columns(
    w: &TernaryColumns,
    line: usize,
    (columns, codes): (&[[u32; 4]], &[[i8; 4]]),
    sums: &mut [i32; COLUMN_LINE_ROWS],
) {
    let ones = _mm256_set1_epi16(1);
    let lines: [[&Line; 4]; COLUMNS_AT_ONCE / 4] = std::array::from_fn(|quad| {
        columns.get(quad).unwrap_or(&columns[0]).map(|column| w.line(column, line))
    });
    for half in 0..2 {
        let mut packed = [[_mm256_setzero_si256(); COLUMNS_AT_ONCE / 4]; 4];
        for (quad, lines) in lines[..columns.len()].iter().enumerate() {
            let [a, b, c, d] = lines.map(|line| &line.0.as_chunks::<32>().0[half]);
            let interleaved = interleave(load(a), load(b), load(c), load(d));
            for (packed, interleaved) in packed.iter_mut().zip(interleaved) {
                packed[quad] = interleaved;
            }
        }
        for (k, packed) in packed.iter_mut().enumerate() {
            for field in 0..4 {
                let mut pairs = _mm256_setzero_si256();
                for (packed, codes) in packed.iter_mut().zip(codes) {
                    let quad = i32::from_le_bytes(codes.map(i8::cast_unsigned));
                    let products = _mm256_maddubs_epi16(trits(*packed), _mm256_set1_epi32(quad));
                    pairs = _mm256_add_epi16(pairs, products);
                    *packed = _mm256_srli_epi16::<2>(*packed);
                }
                let sums = &mut sums.as_chunks_mut::<8>().0[8 * field + 2 * k + half];
                let before = load_sums(sums);
                store(_mm256_add_epi32(before, _mm256_madd_epi16(pairs, ones)), sums);
            }
        }
    }
}

/// Bytes 4k to 4k + 3 of each half of four registers, for each k, by fours.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> [__m256i; 4] {
    let (ab_low, ab_high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
    [
        _mm256_unpacklo_epi16(ab_low, cd_low),
        _mm256_unpackhi_epi16(ab_low, cd_low),
        _mm256_unpacklo_epi16(ab_high, cd_high),
        _mm256_unpackhi_epi16(ab_high, cd_high),
    ]
}

/// The lowest field of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn trits(packed: __m256i) -> __m256i {
    _mm256_and_si256(packed, _mm256_set1_epi8(3))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_codes(codes: &[i8; 32]) -> __m256i {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_sums(sums: &[i32; 8]) -> __m256i {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(lanes: __m256i, sums: &mut [i32; 8]) {
    // SAFETY: 32 writable bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), lanes) };
}
