//! Sums over single rows and columns of trits, with `vpdpbusd`. As in `vnni.rs`, fields are not
//! shifted down: field `j` adds up `4^j` times too much, in a sum of its own, and is divided at the
//! end, exactly. For columns that is done by the caller.

use std::arch::x86_64::*;

use super::{Avx512, Madd, Vnni, broadcast, load, store};
use crate::arch::x86_64::avx2::sparse as halves;
use crate::line::{Line, STRIP};
use crate::quant::RUN;
use crate::sparse::{COLUMN_LINE_ROWS, SparseSums, TernaryColumns};

impl SparseSums for Avx512<Vnni> {
    #[inline(always)]
    fn row_sums<const R: usize>(self, rows: [&[Line]; R], codes: &[i8]) -> [i32; R] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { row_sums(rows, codes) }
    }

    const UNSHIFTED: bool = true;

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

/// Without VNNI, half a line at a time: what is skipped counts for more than how the rest is added.
impl SparseSums for Avx512<Madd> {
    #[inline(always)]
    fn row_sums<const R: usize>(self, rows: [&[Line]; R], codes: &[i8]) -> [i32; R] {
        // SAFETY: `self` exists, so the CPU has AVX2.
        unsafe { halves::row_sums(rows, codes) }
    }

    #[inline(always)]
    fn add_columns(
        self,
        w: &TernaryColumns,
        line: usize,
        quads: (&[[u32; 4]], &[[i8; 4]]),
        sums: &mut [i32; COLUMN_LINE_ROWS],
    ) {
        // SAFETY: `self` exists, so the CPU has AVX2.
        unsafe { halves::add_columns(w, line, quads, sums) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn masks() -> [__m512i; 4] {
    std::array::from_fn(|field| _mm512_set1_epi8((3 << (2 * field)) as i8))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn row_sums<const R: usize>(rows: [&[Line]; R], codes: &[i8]) -> [i32; R] {
    let masks = masks();
    let runs = codes.as_chunks::<RUN>().0;
    let (whole, rest) = runs.as_chunks::<4>();
    let mut sums = [[_mm512_setzero_si512(); 4]; R];
    for (i, runs) in whole.iter().enumerate() {
        let mut codes = [_mm512_setzero_si512(); 4];
        for (codes, run) in codes.iter_mut().zip(runs) {
            *codes = load_codes(run);
        }
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let packed = load(&row[i].0);
            for field in 0..4 {
                let trits = _mm512_and_si512(packed, masks[field]);
                sums[field] = _mm512_dpbusd_epi32(sums[field], trits, codes[field]);
            }
        }
    }
    for (field, run) in rest.iter().enumerate() {
        let codes = load_codes(run);
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let trits = _mm512_and_si512(load(&row[whole.len()].0), masks[field]);
            sums[field] = _mm512_dpbusd_epi32(sums[field], trits, codes);
        }
    }
    // Room for four, which are summed up together.
    let mut quarters = [_mm_setzero_si128(); 4];
    for (quarter, [a, b, c, d]) in quarters.iter_mut().zip(sums) {
        let b = _mm512_srai_epi32::<2>(b);
        let c = _mm512_srai_epi32::<4>(c);
        let d = _mm512_srai_epi32::<6>(d);
        let sum = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
        let half =
            _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
        *quarter = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    }
    let [a, b, c, d] = quarters;
    let together = _mm_hadd_epi32(_mm_hadd_epi32(a, b), _mm_hadd_epi32(c, d));
    let mut results = [0; 4];
    // SAFETY: 16 writable bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(results.as_mut_ptr().cast(), together) };
    std::array::from_fn(|row| results[row])
}

/// Four columns are interleaved byte by byte, so that each 32-bit lane holds the same row of all
/// four, and their codes are broadcast to all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn add_columns(
    w: &TernaryColumns,
    line: usize,
    (columns, codes): (&[[u32; 4]], &[[i8; 4]]),
    sums: &mut [i32; COLUMN_LINE_ROWS],
) {
    let masks = masks();
    let strips = sums.as_chunks_mut::<STRIP>().0;
    // By field, and within a field by strip.
    let mut lanes = [[_mm512_setzero_si512(); 4]; 4];
    for (lanes, sums) in lanes.as_flattened_mut().iter_mut().zip(strips.iter()) {
        *lanes = load_sums(sums);
    }
    for (&[a, b, c, d], codes) in columns.iter().zip(codes) {
        let quad = broadcast(*codes);
        let (a, b) = (load(&w.line(a, line).0), load(&w.line(b, line).0));
        let (c, d) = (load(&w.line(c, line).0), load(&w.line(d, line).0));
        let (ab_low, ab_high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
        let packed = [
            _mm512_unpacklo_epi16(ab_low, cd_low),
            _mm512_unpackhi_epi16(ab_low, cd_low),
            _mm512_unpacklo_epi16(ab_high, cd_high),
            _mm512_unpackhi_epi16(ab_high, cd_high),
        ];
        for (lanes, mask) in lanes.iter_mut().zip(masks) {
            for (lanes, packed) in lanes.iter_mut().zip(packed) {
                let trits = _mm512_and_si512(packed, mask);
                *lanes = _mm512_dpbusd_epi32(*lanes, trits, quad);
            }
        }
    }
    for (sums, lanes) in strips.iter_mut().zip(lanes.as_flattened()) {
        *sums = store(*lanes);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_codes(codes: &[i8; RUN]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_sums(sums: &[i32; STRIP]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) }
}
