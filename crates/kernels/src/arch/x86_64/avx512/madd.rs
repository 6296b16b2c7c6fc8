//! Sums with `vpmaddubsw`: unsigned bytes times signed bytes, two products added up to 16 bits.

use std::arch::x86_64::*;

use super::{Avx512, Madd, broadcast, load, store};
use crate::QuantRow;
use crate::arch::x86_64::avx2::values::value_sums;
use crate::arch::x86_64::prefetch_after;
use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums, ValuePages, WeightPair};
use crate::line::{Line, STRIP};
use crate::product::LineSums;

/// How many lines the 16-bit sums of [`line_sums`] can take before they are widened.
///
/// `maddubs` adds two products of a code (at most 2) and an activation (-128..=127): -512..=508. A
/// line has four fields, so after 16 lines a sum is within 64 * -512 = -32768 and 64 * 508 = 32512,
/// just what 16 bits hold.
const LINES_IN_16_BITS: usize = 16;

impl LineSums for Avx512<Madd> {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { line_sums(lines, tokens) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
    let tokens = tokens.map(|codes| codes.as_chunks::<4>().0.as_chunks::<4>().0);
    let mask = _mm512_set1_epi8(3);
    let ones = _mm512_set1_epi16(1);
    let mut sums = [_mm512_setzero_si512(); T];
    for (chunk, lines) in lines.chunks(LINES_IN_16_BITS).enumerate() {
        let mut narrow = [_mm512_setzero_si512(); T];
        for (i, line) in lines.iter().enumerate() {
            prefetch_after(line);
            let mut packed = load(&line.0);
            for field in 0..4 {
                let trits = _mm512_and_si512(packed, mask);
                for (narrow, quads) in narrow.iter_mut().zip(tokens) {
                    let quad = broadcast(quads[LINES_IN_16_BITS * chunk + i][field]);
                    *narrow = _mm512_add_epi16(*narrow, _mm512_maddubs_epi16(trits, quad));
                }
                // A shift of 16-bit words: what comes over from the next byte is masked off.
                packed = _mm512_srli_epi16::<2>(packed);
            }
        }
        for (sum, narrow) in sums.iter_mut().zip(narrow) {
            *sum = _mm512_add_epi32(*sum, _mm512_madd_epi16(narrow, ones));
        }
    }
    sums.map(|sum| store(sum))
}

impl Int8Sums for Avx512<Madd> {
    #[inline(always)]
    fn int8_sums<const T: usize>(self, lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { int8_sums(lines, xs) }
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

/// `maddubs` of bytes as they are could saturate: 2 * 255 * 128 is more than 16 bits hold. So the
/// bias comes off, and the activation gives its sign to the weight: `|a|` is the unsigned side (where
/// |-128| has room), and a pair sum is within 2 * 128 * 127 = 32512.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn int8_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    let tokens = xs.map(|x| &x.codes().as_chunks::<INT8_LINE_COLS>().0[..lines.len()]);
    let bias = _mm512_set1_epi8(BIAS.cast_signed());
    let (zeros, ones) = (_mm512_setzero_si512(), _mm512_set1_epi16(1));
    let mut sums = [zeros; T];
    for (i, line) in lines.iter().enumerate() {
        let weights = _mm512_xor_si512(load(&line.0), bias);
        for (sum, codes) in sums.iter_mut().zip(tokens) {
            let quad = broadcast(codes[i]);
            let negative = _mm512_movepi8_mask(quad);
            let signed = _mm512_mask_sub_epi8(weights, negative, zeros, weights);
            let pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(quad), signed);
            *sum = _mm512_add_epi32(*sum, _mm512_madd_epi16(pairs, ones));
        }
    }
    sums.map(|sum| store(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_what_scalar_says() {
        if let Some(cpu) = Avx512::<Madd>::detect() {
            crate::product::tests::check_sums(*cpu);
        }
    }
}
