//! Sums of products of small integers, with `vpdpbusd`: unsigned bytes times signed bytes, four
//! products added to each of sixteen 32-bit sums.

use std::arch::x86_64::*;

use super::Avx512;
use crate::QuantRow;
use crate::arch::x86_64::prefetch_after;
use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums};
use crate::line::{Line, STRIP};
use crate::product::LineSums;
use crate::quant::RUN;
use crate::ternary::LINE_COLS;

impl LineSums for Avx512 {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { line_sums(lines, tokens) }
    }
}

/// Fields are not shifted down, only masked, because the first operand of `vpdpbusd` may be any byte.
/// Field `j` so adds up `4^j` times too much, in a sum of its own, and is divided at the end, exactly.
///
/// The top field is at most 2 << 6 = 128 and a code at least -128, on a quarter of the columns, so a
/// sum stays within 2^14 * 2^17 / 4 = 2^29 (`MAX_COLS` is 2^17).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
    let masks: [__m512i; 4] =
        std::array::from_fn(|field| _mm512_set1_epi8((3 << (2 * field)) as i8));
    let runs = lines.as_chunks::<{ RUN / LINE_COLS }>().0;
    let tokens = tokens.map(quads_in_runs);
    let mut sums = [[_mm512_setzero_si512(); 4]; T];
    for (i, lines) in runs.iter().enumerate() {
        let quads = run_of_each(&tokens, i);
        for (k, line) in lines.iter().enumerate() {
            if T <= 2 {
                // With more tokens it is the loads that take the time, not the memory.
                prefetch_after(line);
            }
            let packed = load(&line.0);
            for (field, mask) in masks.iter().enumerate() {
                let trits = _mm512_and_si512(packed, *mask);
                for (sums, quads) in sums.iter_mut().zip(quads) {
                    let quad = broadcast(quads[4 * k + field]);
                    sums[field] = _mm512_dpbusd_epi32(sums[field], trits, quad);
                }
            }
        }
    }
    let mut results = [[0; STRIP]; T];
    for (result, [a, b, c, d]) in results.iter_mut().zip(sums) {
        let b = _mm512_srai_epi32::<2>(b);
        let c = _mm512_srai_epi32::<4>(c);
        let d = _mm512_srai_epi32::<6>(d);
        *result = store(_mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d)));
    }
    results
}

impl Int8Sums for Avx512 {
    #[inline(always)]
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { int8_sums(lines, xs) }
    }
}

/// A byte is the weight plus [`BIAS`], so the sum of byte times activation is too much by the bias
/// times the sum of activations. On the way it may leave 32 bits, but it wraps, and the result fits.
///
/// Neighbouring lines go to sums of their own, because a `vpdpbusd` takes four cycles.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn int8_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    let runs = lines.as_chunks::<{ RUN / INT8_LINE_COLS }>().0;
    let tokens = xs.map(|x| quads_in_runs(x.codes()));
    let mut sums = [[_mm512_setzero_si512(); 4]; T];
    for (i, lines) in runs.iter().enumerate() {
        let quads = run_of_each(&tokens, i);
        for (k, line) in lines.iter().enumerate() {
            let bytes = load(&line.0);
            for (sums, quads) in sums.iter_mut().zip(quads) {
                sums[k % 4] = _mm512_dpbusd_epi32(sums[k % 4], bytes, broadcast(quads[k]));
            }
        }
    }
    std::array::from_fn(|t| {
        let surplus = xs[t].sum().wrapping_mul(i32::from(BIAS));
        let [a, b, c, d] = sums[t];
        let sum = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
        store(_mm512_sub_epi32(sum, _mm512_set1_epi32(surplus)))
    })
}

/// A run of activations, by four.
type Quads = [[i8; 4]; RUN / 4];

/// Activations run by run. The loops over lines do a run at a time: the fewer instructions a line
/// takes, the more of the lines to come the CPU has in sight and asks the memory for.
fn quads_in_runs(codes: &[i8]) -> &[Quads] {
    codes.as_chunks::<4>().0.as_chunks().0
}

/// Run `i` of each token. A loop, because a closure would not become part of the function around it.
#[inline(always)]
fn run_of_each<'a, const T: usize>(tokens: &[&'a [Quads]; T], i: usize) -> [&'a Quads; T] {
    let mut runs = [&[[0; 4]; RUN / 4]; T];
    for (run, quads) in runs.iter_mut().zip(tokens) {
        *run = &quads[i];
    }
    runs
}

/// Four activations, for all rows.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn broadcast(quad: [i8; 4]) -> __m512i {
    _mm512_set1_epi32(i32::from_le_bytes(quad.map(i8::cast_unsigned)))
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(lanes: __m512i) -> [i32; 16] {
    let mut out = [0; 16];
    // SAFETY: 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), lanes) };
    out
}
