//! Sums with `vpdpbusd` on 256 bits: unsigned bytes times signed bytes, four products added to each of
//! eight 32-bit sums.
//!
//! The instruction has two encodings: one of AVX-VNNI, and one of AVX-512 for short registers. The
//! code is the same for both, so what runs with the first is tested on CPUs with the second too.

use std::arch::x86_64::*;

use super::values::value_sums;
use super::{Avx2, Vnni, load, store};
use crate::QuantRow;
use crate::arch::x86_64::prefetch_after;
use crate::int8::{BIAS, INT8_LINE_COLS, Int8Sums, ValuePages, WeightPair};
use crate::line::{Line, STRIP};
use crate::product::{LineSums, sums_per_row};

/// Implements the sums for `Avx2<$dot>` with the features and the intrinsic of one encoding.
macro_rules! sums_with {
    ($dot:ty, $features:literal, $dpbusd:ident) => {
        impl LineSums for Avx2<$dot> {
            #[inline(always)]
            fn line_sums<const T: usize>(
                self,
                lines: &[Line],
                tokens: [&[i8]; T],
            ) -> [[i32; STRIP]; T] {
                // SAFETY: `self` exists, so the CPU has the features.
                unsafe { line_sums(lines, tokens) }
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn line_sums<const T: usize>(lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T] {
            let tokens = tokens.map(|codes| codes.as_chunks::<4>().0.as_chunks::<4>().0);
            let mask = _mm256_set1_epi8(3);
            let mut sums = [[[_mm256_setzero_si256(); 2]; 4]; T];
            for (i, line) in lines.iter().enumerate() {
                prefetch_after(line);
                let halves = line.0.as_chunks::<32>().0;
                // Rows 0 to 7 of the strip, and rows 8 to 15.
                let (mut low, mut high) = (load(&halves[0]), load(&halves[1]));
                for field in 0..4 {
                    let trits = [_mm256_and_si256(low, mask), _mm256_and_si256(high, mask)];
                    for (sums, quads) in sums.iter_mut().zip(tokens) {
                        let quad = broadcast(quads[i][field]);
                        let [low, high] = &mut sums[field % sums_per_row(T)];
                        *low = $dpbusd(*low, trits[0], quad);
                        *high = $dpbusd(*high, trits[1], quad);
                    }
                    // Shifts of 16-bit words: what comes over from the next byte is masked off.
                    (low, high) = (_mm256_srli_epi16::<2>(low), _mm256_srli_epi16::<2>(high));
                }
            }
            sums.map(|sums| total(sums))
        }

        impl Int8Sums for Avx2<$dot> {
            #[inline(always)]
            fn int8_sums<const T: usize>(
                self,
                lines: &[Line],
                xs: [&QuantRow; T],
            ) -> [[i32; STRIP]; T] {
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

        /// A byte is the weight plus [`BIAS`], so the sum of byte times activation is too much by the
        /// bias times the sum of activations. On the way it may leave 32 bits, but it wraps, and the
        /// result fits.
        #[inline]
        #[target_feature(enable = $features)]
        fn int8_sums<const T: usize>(lines: &[Line], xs: [&QuantRow; T]) -> [[i32; STRIP]; T] {
            let tokens = xs.map(|x| x.codes().as_chunks::<INT8_LINE_COLS>().0.as_chunks::<4>().0);
            let mut sums = [[[_mm256_setzero_si256(); 2]; 4]; T];
            for (i, lines) in lines.as_chunks::<4>().0.iter().enumerate() {
                for (k, line) in lines.iter().enumerate() {
                    let halves = line.0.as_chunks::<32>().0;
                    let bytes = [load(&halves[0]), load(&halves[1])];
                    for (sums, quads) in sums.iter_mut().zip(tokens) {
                        let quad = broadcast(quads[i][k]);
                        let [low, high] = &mut sums[k % sums_per_row(T)];
                        *low = $dpbusd(*low, bytes[0], quad);
                        *high = $dpbusd(*high, bytes[1], quad);
                    }
                }
            }
            let mut results = sums.map(|sums| total(sums));
            for (results, x) in results.iter_mut().zip(xs) {
                let surplus = x.sum().wrapping_mul(i32::from(BIAS));
                *results = results.map(|sum| sum.wrapping_sub(surplus));
            }
            results
        }
    };
}

sums_with!(Vnni, "avx2,avxvnni", _mm256_dpbusd_avx_epi32);

/// Four activations, for eight rows.
#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(quad: [i8; 4]) -> __m256i {
    _mm256_set1_epi32(i32::from_le_bytes(quad.map(i8::cast_unsigned)))
}

/// What the sums of a row add up to.
#[inline]
#[target_feature(enable = "avx2")]
fn total(sums: [[__m256i; 2]; 4]) -> [i32; STRIP] {
    let [low, high] = [0, 1].map(|half| {
        let [a, b, c, d] = sums.map(|halves| halves[half]);
        _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d))
    });
    store(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::check_sums;

    /// The encoding of AVX-512.
    #[derive(Clone, Copy)]
    struct Avx512Vl;

    sums_with!(Avx512Vl, "avx2,avx512vl,avx512vnni", _mm256_dpbusd_epi32);

    #[test]
    fn sums_are_what_scalar_says() {
        if let Some(cpu) = Avx2::<Vnni>::detect() {
            check_sums(*cpu);
        }
    }

    #[test]
    fn sums_are_what_scalar_says_in_the_other_encoding() {
        if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vnni") {
            check_sums(Avx2(Avx512Vl));
        }
    }
}
