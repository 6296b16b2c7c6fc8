//! Sums of products of small integers, with `vpdpbusd`: unsigned bytes times signed bytes, four
//! products added to each of sixteen 32-bit sums.

use std::arch::x86_64::*;

use super::five_trits::five_trit_sums;
use super::{Avx512, Vnni, broadcast, load, store};
use crate::QuantRow;
use crate::arch::x86_64::prefetch_after;
use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums, ValuePages, WeightPair};
use crate::kv::PAGE_LEN;
use crate::layout::five_trits::sums_by_quad_lines;
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::nibble::NIBBLE_LINE_COLS;
use crate::product::LineSums;
use crate::quant::RUN;

impl LineSums for Avx512<Vnni> {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { line_sums(lines, tokens) }
    }

    #[inline(always)]
    fn decodes_five_trits(self) -> bool {
        self.0.vbmi
    }

    #[inline(always)]
    fn five_trit_sums<const T: usize>(
        self,
        lines: &[Line],
        tokens: [&[i8]; T],
    ) -> [[i32; STRIP]; T] {
        if self.0.vbmi {
            // SAFETY: `self` exists, so the CPU has the features, and it says that VBMI is one.
            unsafe { five_trit_sums(lines, tokens) }
        } else {
            sums_by_quad_lines(self, lines, tokens)
        }
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

impl Int8Sums for Avx512<Vnni> {
    #[inline(always)]
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { int8_sums(lines, xs) }
    }

    #[inline(always)]
    fn nibble_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { nibble_sums(lines, xs) }
    }

    #[inline(always)]
    fn key_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { key_sums(lines, xs) }
    }

    #[inline(always)]
    fn value_sums<const T: usize, const B: usize>(
        self,
        values: &impl ValuePages,
        first: usize,
        weights: [&[WeightPair]; T],
    ) -> [[[i32; 16]; B]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { value_sums(values, first, weights) }
    }
}

/// As [`int8_sums`], with fewer sums to add up at the end: for a short strip that is what counts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn key_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    let lines = lines.as_chunks::<2>().0;
    let mut tokens = [xs[0].codes().as_chunks::<4>().0.as_chunks::<2>().0; T];
    for (quads, x) in tokens.iter_mut().zip(xs) {
        *quads = &x.codes().as_chunks::<4>().0.as_chunks::<2>().0[..lines.len()];
    }
    let mut sums = [[_mm512_setzero_si512(); 2]; T];
    for (i, pair) in lines.iter().enumerate() {
        let (first, second) = (load(&pair[0].0), load(&pair[1].0));
        for (sums, quads) in sums.iter_mut().zip(tokens) {
            sums[0] = _mm512_dpbusd_epi32(sums[0], first, broadcast(quads[i][0]));
            sums[1] = _mm512_dpbusd_epi32(sums[1], second, broadcast(quads[i][1]));
        }
    }
    let mut results = [[0; STRIP]; T];
    for ((result, sums), x) in results.iter_mut().zip(sums).zip(xs) {
        let surplus = _mm512_set1_epi32(x.sum().wrapping_mul(i32::from(BIAS)));
        *result = store(_mm512_sub_epi32(_mm512_add_epi32(sums[0], sums[1]), surplus));
    }
    results
}

/// `vpdpwssd`: two products of 16 bits added to each of sixteen sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn value_sums<const T: usize, const B: usize>(
    values: &impl ValuePages,
    first: usize,
    weights: [&[WeightPair]; T],
) -> [[[i32; 16]; B]; T] {
    let columns = values.columns();
    let len = weights[0].len();
    let mut sums = [[_mm512_setzero_si512(); B]; T];
    for start in (0..len).step_by(PAGE_LEN / 2) {
        let rows = values.page(start / (PAGE_LEN / 2)).chunks_exact(columns);
        let mut weights_of_page = weights;
        for weights in &mut weights_of_page {
            *weights = &weights[start..len.min(start + PAGE_LEN / 2)];
        }
        for (i, row) in rows.take(weights_of_page[0].len()).enumerate() {
            let row = &row[first..][..B];
            for b in 0..B {
                let pairs = _mm512_cvtepi8_epi16(load_half(&row[b]));
                for (sums, weights) in sums.iter_mut().zip(weights_of_page) {
                    sums[b] = _mm512_dpwssd_epi32(sums[b], pairs, broadcast_pair(weights[i]));
                }
            }
        }
    }
    let mut results = [[[0; 16]; B]; T];
    for (results, sums) in results.iter_mut().zip(sums) {
        for (result, sum) in results.iter_mut().zip(sums) {
            *result = store(sum);
        }
    }
    results
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
            if T == 2 {
                // The two rows of codes of one hidden state. With more, it is not the memory that
                // takes the time.
                prefetch_after(line);
            }
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

/// Nothing is asked for ahead: that was seen to take a third more time.
///
/// The upper codes of bytes are masked, not shifted, and so add up sixteen times too much, in sums of
/// their own that are divided at the end, exactly: 240 * 128 on half of 2^17 columns is below 2^31.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn nibble_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    let (lower, upper) = (_mm512_set1_epi8(0x0f), _mm512_set1_epi8(0xf0_u8.cast_signed()));
    let runs = lines.as_chunks::<{ RUN / NIBBLE_LINE_COLS }>().0;
    let tokens = xs.map(|x| quads_in_runs(x.codes()));
    let mut lower_sums = [[_mm512_setzero_si512(); 2]; T];
    let mut upper_sums = [[_mm512_setzero_si512(); 2]; T];
    for (i, lines) in runs.iter().enumerate() {
        let quads = run_of_each(&tokens, i);
        for (k, line) in lines.iter().enumerate() {
            let packed = load(&line.0);
            let (low, high) = (_mm512_and_si512(packed, lower), _mm512_and_si512(packed, upper));
            for t in 0..T {
                let (low_sum, high_sum) = (&mut lower_sums[t][k % 2], &mut upper_sums[t][k % 2]);
                *low_sum = _mm512_dpbusd_epi32(*low_sum, low, broadcast(quads[t][2 * k]));
                *high_sum = _mm512_dpbusd_epi32(*high_sum, high, broadcast(quads[t][2 * k + 1]));
            }
        }
    }
    std::array::from_fn(|t| {
        let [a, b] = lower_sums[t];
        let [c, d] = upper_sums[t];
        let high = _mm512_srai_epi32::<4>(_mm512_add_epi32(c, d));
        store(_mm512_add_epi32(_mm512_add_epi32(a, b), high))
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

/// Two weights, for all columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast_pair([even, odd]: WeightPair) -> __m512i {
    _mm512_set1_epi32(i32::from(odd) << 16 | i32::from(even.cast_unsigned()))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_half(bytes: &[i8; 32]) -> __m256i {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::check_sums;

    #[test]
    fn sums_are_what_scalar_says_with_and_without_vbmi() {
        if let Some(cpu) = Avx512::<Vnni>::detect() {
            check_sums(*cpu);
            check_sums(Avx512(Vnni { vbmi: false }));
        }
    }
}
