//! Sums with `vpmaddubsw`: unsigned bytes times signed bytes, two products added up to 16 bits.

use std::arch::x86_64::*;

use super::values::value_sums;
use super::{Avx2, Madd, load, store};
use crate::QuantRow;
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

impl LineSums for Avx2<Madd> {
    #[inline(always)]
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
        // SAFETY: `self` exists, so the CPU has the features.
        unsafe { line_sums(lines, tokens) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
    let tokens = tokens.map(|codes| codes.as_chunks::<4>().0.as_chunks::<4>().0);
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    for (i, lines) in lines.chunks(LINES_IN_16_BITS).enumerate() {
        let narrow = narrow_sums(lines, LINES_IN_16_BITS * i, &tokens);
        for (sums, narrow) in sums.iter_mut().zip(narrow) {
            for (sum, narrow) in sums.iter_mut().zip(narrow) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(narrow, ones));
            }
        }
    }
    sums.map(|[low, high]| store(low, high))
}

/// The 16-bit sums, two for each of sixteen rows, over at most [`LINES_IN_16_BITS`] lines, the first
/// of which is line `first` of the tokens.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow_sums<const T: usize>(
    lines: &[Line],
    first: usize,
    tokens: &[&[[[i8; 4]; 4]]; T],
) -> [[__m256i; 2]; T] {
    let mask = _mm256_set1_epi8(3);
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    for (i, line) in lines.iter().enumerate() {
        prefetch_after(line);
        let halves = line.0.as_chunks::<32>().0;
        // Rows 0 to 7 of the strip, and rows 8 to 15.
        let (mut low, mut high) = (load(&halves[0]), load(&halves[1]));
        for field in 0..4 {
            let (low_trits, high_trits) =
                (_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
            for (sums, quads) in sums.iter_mut().zip(tokens) {
                let quad = i32::from_le_bytes(quads[first + i][field].map(i8::cast_unsigned));
                let quad = _mm256_set1_epi32(quad);
                sums[0] = _mm256_add_epi16(sums[0], _mm256_maddubs_epi16(low_trits, quad));
                sums[1] = _mm256_add_epi16(sums[1], _mm256_maddubs_epi16(high_trits, quad));
            }
            // Shifts of 16-bit words: what comes over from the neighbouring byte is masked off.
            (low, high) = (_mm256_srli_epi16::<2>(low), _mm256_srli_epi16::<2>(high));
        }
    }
    sums
}

impl Int8Sums for Avx2<Madd> {
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
#[target_feature(enable = "avx2")]
fn int8_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    let tokens = xs.map(|x| &x.codes().as_chunks::<INT8_LINE_COLS>().0[..lines.len()]);
    let bias = _mm256_set1_epi8(BIAS.cast_signed());
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    for (i, line) in lines.iter().enumerate() {
        for (half, bytes) in line.0.as_chunks::<32>().0.iter().enumerate() {
            let weights = _mm256_xor_si256(load(bytes), bias);
            for (sums, codes) in sums.iter_mut().zip(tokens) {
                let quad = i32::from_le_bytes(codes[i].map(i8::cast_unsigned));
                let quad = _mm256_set1_epi32(quad);
                let signed = _mm256_sign_epi8(weights, quad);
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(quad), signed);
                sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    sums.map(|[low, high]| store(low, high))
}

/// Lines whose pair sums fit 16 bits together: two codes a byte, and 2 * 15 * 128 each, is 30720.
const NIBBLE_LINES: usize = 4;

#[inline]
#[target_feature(enable = "avx2")]
fn nibble_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
    let tokens = xs.map(|x| x.codes().as_chunks::<4>().0.as_chunks::<2>().0);
    let (mask, ones) = (_mm256_set1_epi8(15), _mm256_set1_epi16(1));
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    for (group, lines) in lines.as_chunks::<NIBBLE_LINES>().0.iter().enumerate() {
        let mut pairs = [[_mm256_setzero_si256(); 2]; T];
        for (i, line) in lines.iter().enumerate() {
            for (half, bytes) in line.0.as_chunks::<32>().0.iter().enumerate() {
                let packed = load(bytes);
                let low = _mm256_and_si256(packed, mask);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(packed), mask);
                for (pairs, codes) in pairs.iter_mut().zip(tokens) {
                    for (weights, quad) in [low, high].into_iter().zip(codes[4 * group + i]) {
                        let quad = i32::from_le_bytes(quad.map(i8::cast_unsigned));
                        let products = _mm256_maddubs_epi16(weights, _mm256_set1_epi32(quad));
                        pairs[half] = _mm256_add_epi16(pairs[half], products);
                    }
                }
            }
        }
        for (sums, pairs) in sums.iter_mut().zip(pairs) {
            for (sum, pairs) in sums.iter_mut().zip(pairs) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    sums.map(|[low, high]| store(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_what_scalar_says() {
        if let Some(cpu) = Avx2::<Madd>::detect() {
            crate::product::tests::check_sums(*cpu);
        }
    }
}
