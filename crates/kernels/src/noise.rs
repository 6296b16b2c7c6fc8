//! Gumbel noise: a random number for each index of a row, from a key alone.
//!
//! Adding Gumbel noise to scaled logits makes the largest sum a sample of their softmax, so sampling is the
//! search for a maximum. The noise of an index is known without that of the others, and a bound of it costs a
//! few integer operations: only indices that could have the largest sum need the logarithms.
//!
//! With `u` uniform in (0, 1), the noise is `-ln(-ln(1 - u))`. It is large where `u` is small, and because
//! `-ln(1 - u) ≥ u`, it is at most `-ln u`.

use std::f64::consts::LN_2;

use crate::bounds::ScoreBounds;
use crate::lanes::Simd;
use crate::line::STRIP;
use crate::math;

/// Number of bits of `u` that the bound of the noise reads: an f32 holds them exactly.
const BOUND_BITS: u32 = 24;

/// More than the rounding errors of a bound that do not grow with the score.
const BASE_SLACK: f32 = 1e-4;

/// More than the rounding errors of a scaled score, relative to it.
const RELATIVE_SLACK: f32 = 1.0 / (1 << 21) as f32;

/// Largest scaled score whose rounding error is covered; also keeps −∞ as it is.
const LARGEST_SCALED: f32 = 1e30;

/// Selects the noise of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoiseKey(pub [u32; 4]);

impl NoiseKey {
    /// Returns the noise of `index`.
    pub fn gumbel(self, index: u32) -> f64 {
        let [a, b, c, d] = self.0;
        let bits = u64::from(mix(index, [a, b])) << 32 | u64::from(mix(index, [c, d]));
        // The middle of the 2^-53 that the upper 53 bits select: never 0 or 1.
        let u = ((bits >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64);
        -math::ln(negated_ln_of_rest(u))
    }

    /// Returns a uniform number in [0, 1) for `index`, a multiple of 2^-24.
    pub fn uniform(self, index: u32) -> f32 {
        let [a, b, ..] = self.0;
        (mix(index, [a, b]) >> 8) as f32 * (1.0 / (1 << 24) as f32)
    }

    /// Returns an upper bound of the noise of `index`: near it if it is large, and no more than 0.53 above it if it is
    /// positive.
    pub fn upper_bound(self, index: u32) -> f32 {
        let [a, b, ..] = self.0;
        upper_bound(mix(index, [a, b]))
    }
}

/// Returns `-ln(1 - u)`.
fn negated_ln_of_rest(u: f64) -> f64 {
    if u > 1.0 / 1024.0 {
        return -math::ln(1.0 - u);
    }
    // The series: 1 - u would lose the lower bits of a small u.
    let mut sum = 0.0;
    for n in (1..=6).rev() {
        sum = sum * u + 1.0 / f64::from(n);
    }
    sum * u
}

/// Mixes an index with two words of a key: two rounds of multiplication and shift.
#[inline(always)]
fn mix(index: u32, [a, b]: [u32; 2]) -> u32 {
    let x = index.wrapping_mul(0x9e37_79b9).wrapping_add(a);
    let x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    let x = (x ^ x >> 15).wrapping_add(b).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

/// Returns an upper bound of `-ln u`, where `u` has these upper bits.
#[inline(always)]
fn upper_bound(bits: u32) -> f32 {
    let u = (bits >> (32 - BOUND_BITS)) as f32;
    // The bits of a float, read as an integer, are its logarithm to base 2, rounded down by less than 0.087.
    // Zero gives -127, far below any other.
    let log = (u.to_bits() as i32 - (127 << 23)) as f32 * (1.0 / (1 << 23) as f32);
    (BOUND_BITS as f32 - log) * LN_2 as f32 + BASE_SLACK
}

/// Replaces the bounds of sixteen scores by those of `score * factor + noise`, where the first score has the
/// index `first`.
#[inline(always)]
pub(crate) fn perturb_bounds<S: Simd>(
    _cpu: S,
    key: NoiseKey,
    first: u32,
    factor: f32,
    bounds: &mut ScoreBounds,
) {
    let [a, b, ..] = key.0;
    let mut noise = [0.0; STRIP];
    for (noise, i) in noise.iter_mut().zip(0..) {
        *noise = upper_bound(mix(first.wrapping_add(i), [a, b]));
    }
    for ((estimate, upper), noise) in bounds.estimate.iter_mut().zip(&mut bounds.upper).zip(&noise)
    {
        *estimate = *estimate * factor + noise;
        let scaled = *upper * factor;
        let size = if scaled.abs() < LARGEST_SCALED { scaled.abs() } else { LARGEST_SCALED };
        *upper = scaled + noise + size * RELATIVE_SLACK;
    }
    bounds.find_best();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = NoiseKey> {
        (1..40_u32).map(|i| NoiseKey([1, 2, 3, 4].map(|j| mix(i, [j, 7]))))
    }

    #[test]
    fn the_bound_is_above_the_noise_and_near_it() {
        for key in keys() {
            for index in 0..20_000 {
                let (noise, bound) = (key.gumbel(index), f64::from(key.upper_bound(index)));
                assert!(noise.is_finite() && noise <= bound, "{noise}, {bound}");
                let near = if noise > 2.0 { 0.14 } else { 0.53 };
                assert!(noise < 0.0 || bound < noise + near, "{noise}, {bound}");
            }
        }
    }

    #[test]
    fn the_noise_has_the_distribution_of_gumbel() {
        let mut buckets = [0_u32; 16];
        for key in keys() {
            for index in 0..20_000 {
                // exp(-exp(-noise)) is uniform.
                let u = math::exp(-math::exp(-key.gumbel(index)));
                buckets[(u * 16.0) as usize] += 1;
            }
        }
        let expected = 39.0 * 20_000.0 / 16.0;
        // Chi-square with 15 degrees of freedom: 45 has a chance of 1e-4.
        let chi: f64 = buckets.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi < 45.0, "{chi}");
    }

    #[test]
    fn the_smallest_numbers_keep_their_precision() {
        for u in [1e-16, 1e-9, 1e-4, 0.9 / 1024.0, 1.1 / 1024.0, 0.5] {
            let (found, expected) = (negated_ln_of_rest(u), -(-u).ln_1p());
            assert!((found / expected - 1.0).abs() < 1e-13, "{u}: {found}, {expected}");
        }
    }

    #[test]
    fn neighbouring_indices_and_keys_are_not_correlated() {
        let n = 100_000_u32;
        let center = |key: NoiseKey, index| key.gumbel(index) - 0.577_215_664_901_532_9;
        let variance = std::f64::consts::PI.powi(2) / 6.0;
        let key = NoiseKey([1, 2, 3, 4]);
        let other = NoiseKey([2, 2, 3, 4]);
        let shifted: f64 = (0..n).map(|i| center(key, i) * center(key, i + 1)).sum();
        let keyed: f64 = (0..n).map(|i| center(key, i) * center(other, i)).sum();
        for sum in [shifted, keyed] {
            // Four standard deviations of the mean of products.
            let correlation = sum / f64::from(n) / variance;
            assert!(correlation.abs() < 4.0 / f64::from(n).sqrt(), "{correlation}");
        }
    }
}
