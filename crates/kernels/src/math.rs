//! `exp`, `ln`, `sin`, `cos` and `pow` with the same bits on every platform.
//!
//! The functions of the standard library differ between platforms, and even between CPUs. These use
//! only `+ - * /` and integers, which IEEE 754 defines to the last bit. They are within two units in the
//! last place over their whole range. They are not fast: they compute tables and log probabilities.
//! (The `exp` of softmax is in `float.rs`.)
//!
//! An intermediate result that needs more than 53 bits is a **pair**: the sum of a float and a much
//! smaller one.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E, SQRT_2};

/// The error of `LN_2`.
const LN_2_REST: f64 = 2.319_046_813_846_299_6e-17;

/// The first 32 bits of ln 2, whose product with any exponent is exact, and the rest.
const LN_2_SHORT: f64 = 0.693_147_180_369_123_8;
const LN_2_SHORT_REST: f64 = 1.908_214_929_270_587_7e-10;

/// The error of `FRAC_PI_2`.
const FRAC_PI_2_REST: f64 = 6.123_233_995_736_766e-17;

/// 1/3 and the error of its float.
const THIRD: f64 = 1.0 / 3.0;
const THIRD_REST: f64 = 1.850_371_707_708_594e-17;

/// 2/π in binary: 64 zeros, the point, and 1216 bits after it, enough for the largest `f64`.
const TWO_OVER_PI: [u64; 20] = [
    0x0000_0000_0000_0000,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// The bits of a float below its exponent.
const FRACTION: u64 = (1 << 52) - 1;

/// `1 / n!`. All factorials up to 18! are exact.
const INVERSE_FACTORIALS: [f64; 19] = {
    let mut inverses = [1.0; 19];
    let mut factorial = 1.0;
    let mut n = 1;
    while n < inverses.len() {
        factorial *= n as f64;
        inverses[n] = 1.0 / factorial;
        n += 1;
    }
    inverses
};

/// Returns `e` to the power of `x`.
pub fn exp(x: f64) -> f64 {
    exp_of_pair(x, 0.0)
}

/// The natural logarithm: -infinity at zero, NaN below.
pub fn ln(x: f64) -> f64 {
    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x.is_nan() || x < 0.0 {
        f64::NAN
    } else if x.is_infinite() {
        x
    } else {
        let (log, rest) = ln_as_pair(x);
        log + rest
    }
}

/// The sine of an angle in radians.
pub fn sin(x: f64) -> f64 {
    sin_cos(x).0
}

/// The cosine of an angle in radians.
pub fn cos(x: f64) -> f64 {
    sin_cos(x).1
}

/// Sine and cosine at once.
pub fn sin_cos(x: f64) -> (f64, f64) {
    if !x.is_finite() {
        return (f64::NAN, f64::NAN);
    }
    let (quarter_turns, angle, rest) = reduce_angle(x.abs());
    let (sin, cos) = (sin_of_pair(angle, rest), cos_of_pair(angle, rest));
    let (sin, cos) = match quarter_turns % 4 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    };
    (if x.is_sign_negative() { -sin } else { sin }, cos)
}

/// `base` to the power of `exponent`, with the special cases of IEEE 754 (and of `f64::powf`).
pub fn pow(base: f64, exponent: f64) -> f64 {
    if exponent == 0.0 || base == 1.0 {
        return 1.0;
    }
    if base.is_nan() || exponent.is_nan() {
        return f64::NAN;
    }
    // From 2^53 on all floats are even, and `%` is exact.
    let is_odd = exponent.is_finite() && (exponent % 2.0).abs() == 1.0;
    let is_integer = exponent.is_infinite() || exponent % 1.0 == 0.0;
    if base < 0.0 && base.is_finite() && !is_integer {
        return f64::NAN;
    }
    let magnitude = pow_of_magnitude(base.abs(), exponent);
    if base.is_sign_negative() && is_odd { -magnitude } else { magnitude }
}

fn pow_of_magnitude(base: f64, exponent: f64) -> f64 {
    if base == 1.0 {
        return 1.0;
    }
    if base == 0.0 || base.is_infinite() || exponent.is_infinite() {
        return if (base > 1.0) == (exponent > 0.0) { f64::INFINITY } else { 0.0 };
    }
    let (log, rest) = ln_as_pair(base);
    let estimate = log * exponent;
    if estimate.abs() > 1000.0 {
        return if estimate > 0.0 { f64::INFINITY } else { 0.0 };
    }
    let (product, error) = product_as_pair(log, exponent);
    exp_of_pair(product, error + rest * exponent)
}

/// `e^(x + rest)`, where `rest` is much smaller than `x` or zero.
///
/// `x = n ln 2 + r` with a whole `n` and `|r| <= ln 2 / 2`; there the Taylor series of degree 13 is
/// off by less than 0.35^14 / 14! = 5e-18.
fn exp_of_pair(x: f64, rest: f64) -> f64 {
    // Beyond these the result is 0 or infinity; inside, |n| is at most 1077.
    if x > 710.0 {
        return f64::INFINITY;
    }
    if x < -746.0 {
        return 0.0;
    }
    let n = (x * LOG2_E).round_ties_even();
    let long = x - n * LN_2_SHORT;
    let short = n * LN_2_SHORT_REST - rest;
    let r = long - short;
    let r_rest = (long - r) - short;
    let series = polynomial(r, &INVERSE_FACTORIALS[2..14]);
    let result = 1.0 + (r + (r_rest + r * r * series));
    // 2^n in two steps, because neither 2^1024 nor 2^-1075 is a float. The first step is exact. (A
    // NaN has n = 0 and is one already.)
    let half = n as i64 / 2;
    result * exp2(half) * exp2(n as i64 - half)
}

/// The natural logarithm of a positive, finite number, to some 64 bits.
///
/// `x = 2^k m` with `m` in [√½, √2), and `ln m = 2 atanh(s) = 2 (s + s³/3 + s⁵/5 + ...)` with
/// `s = (m - 1) / (m + 1)`, so |s| < 0.172. The first two terms are pairs, the rest need not be.
fn ln_as_pair(x: f64) -> (f64, f64) {
    const TERMS: [f64; 12] = [
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
        1.0 / 19.0,
        1.0 / 21.0,
        1.0 / 23.0,
        1.0 / 25.0,
        1.0 / 27.0,
    ];
    let (m, k) = split_exponent(x);
    let f = m - 1.0;
    let (divisor, divisor_rest) = sum_as_pair(2.0, f);
    let s = f / divisor;
    let (back, back_rest) = product_as_pair(s, divisor);
    let s_rest = (((f - back) - back_rest) - s * divisor_rest) / divisor;

    let (square, square_rest) = product_as_pair(s, s);
    let square_rest = square_rest + 2.0 * s * s_rest;
    // u = s²/3 + s⁴/5 + ..., so that ln m = 2 (s + s u).
    let (third, third_rest) = product_as_pair(square, THIRD);
    let third_rest = third_rest + (square * THIRD_REST + square_rest * THIRD);
    let (u, u_rest) = sum_as_pair(third, square * square * polynomial(square, &TERMS));
    let u_rest = u_rest + third_rest;
    let (su, su_rest) = product_as_pair(s, u);
    let su_rest = su_rest + (s * u_rest + s_rest * u);
    let (half_log, half_rest) = sum_as_pair(s, su);
    let half_rest = half_rest + (s_rest + su_rest);

    let (whole, whole_rest) = product_as_pair(k, LN_2);
    let (log, rest) = sum_as_pair(whole, 2.0 * half_log);
    sum_as_pair(log, rest + (whole_rest + k * LN_2_REST + 2.0 * half_rest))
}

/// `(m, k)` with `x = m * 2^k` and `m` in [√½, √2).
fn split_exponent(x: f64) -> (f64, f64) {
    let (normal, shift) = if x < f64::MIN_POSITIVE { (x * exp2(54), 54) } else { (x, 0) };
    let bits = normal.to_bits();
    let k = (bits >> 52) as i32 - 1023 - shift;
    let m = f64::from_bits(bits & FRACTION | 1023 << 52);
    if m >= SQRT_2 { (m / 2.0, f64::from(k + 1)) } else { (m, f64::from(k)) }
}

/// `(q, r, rest)` with `x = q π/2 + r + rest` and `|r| <= π/4`; `q` counts modulo 4.
///
/// With `x = m 2^e`, the quarter turns in it are `m * (2/π * 2^e)`. Bits of 2/π that stand for whole
/// turns can be left out, since `m` is an integer. The 192 bits after them, times `m`, have two bits of
/// quarter turns and 190 of fraction, wrong only in the last 53. No float comes closer to a multiple
/// of π/2 than about 2^-62, so at least 64 bits are right.
fn reduce_angle(x: f64) -> (u64, f64, f64) {
    if x < FRAC_PI_4 {
        return (0, x, 0.0);
    }
    let bits = x.to_bits();
    let m = u128::from(bits & FRACTION | 1 << 52);
    // x >= π/4 makes e at least -53, so this is not negative. The bit for weight 2 comes first.
    let e = (bits >> 52) as i64 - 1075;
    let first_bit = (64 + e - 2) as usize;
    let words = &TWO_OVER_PI[first_bit / 64..];
    let window = |i: usize| {
        let pair = u128::from(words[i]) << 64 | u128::from(words[i + 1]);
        pair << (first_bit % 64) >> 64
    };
    let low = m * window(2);
    let middle = m * window(1) + (low >> 64);
    let high = (m * window(0) + (middle >> 64)) as u64;

    // The fraction, in units of 2^-128; seen as signed, one half and more becomes less than zero.
    let fraction = (u128::from(high) << 66
        | u128::from(middle as u64) << 2
        | u128::from(low as u64 >> 62)) as i128;
    let quarter_turns = (high >> 62) + u64::from(fraction < 0);
    let turn = fraction as f64;
    let turn_rest = (fraction - turn as i128) as f64;
    let (angle, rest) = product_as_pair(turn * exp2(-128), FRAC_PI_2);
    let rest = rest + exp2(-128) * (turn * FRAC_PI_2_REST + turn_rest * FRAC_PI_2);
    let (angle, rest) = sum_as_pair(angle, rest);
    (quarter_turns, angle, rest)
}

/// The Taylor series up to `x^17`; what follows is below 0.79^19 / 19! = 1e-19.
fn sin_of_pair(x: f64, rest: f64) -> f64 {
    const TERMS: [f64; 8] = alternating(3);
    let square = x * x;
    x + (x * square * -polynomial(square, &TERMS) + rest * (1.0 - square / 2.0))
}

/// The Taylor series up to `x^18`; what follows is below 0.79^20 / 20! = 4e-21.
fn cos_of_pair(x: f64, rest: f64) -> f64 {
    const TERMS: [f64; 8] = alternating(4);
    let square = x * x;
    let half = square / 2.0;
    let most = 1.0 - half;
    most + (((1.0 - most) - half) + (square * square * polynomial(square, &TERMS) - x * rest))
}

/// `1/n!, -1/(n+2)!, 1/(n+4)!, ...`
const fn alternating(n: usize) -> [f64; 8] {
    let mut terms = [0.0; 8];
    let mut i = 0;
    while i < terms.len() {
        let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
        terms[i] = sign * INVERSE_FACTORIALS[n + 2 * i];
        i += 1;
    }
    terms
}

/// `c[0] + c[1] x + c[2] x² + ...`
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// 2 to the power of `n`, which must be in -1022..=1023.
fn exp2(n: i64) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// `a + b` exactly, as a pair (Knuth).
fn sum_as_pair(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_seen = sum - a;
    (sum, (a - (sum - b_seen)) + (b - b_seen))
}

/// `a * b` exactly, as a pair (Dekker), unless something near the limits of the range occurs.
fn product_as_pair(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (halves(a), halves(b));
    let error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    (product, error)
}

/// A float as the sum of two with at most 26 bits each (Veltkamp), so that products are exact.
fn halves(a: f64) -> (f64, f64) {
    let shifted = a * 134_217_729.0; // 2^27 + 1
    let high = shifted - (shifted - a);
    (high, a - high)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the platform's functions are the reference")]

    use super::*;

    /// Distance in floats.
    fn ulps(a: f64, b: f64) -> u64 {
        let order = |x: f64| {
            let bits = x.to_bits() as i64;
            if bits < 0 { i64::MIN - bits } else { bits }
        };
        if a.is_nan() && b.is_nan() { 0 } else { order(a).abs_diff(order(b)) }
    }

    fn worst(points: impl Iterator<Item = f64>, ours: fn(f64) -> f64, std: fn(f64) -> f64) {
        for x in points {
            assert!(ulps(ours(x), std(x)) <= 2, "at {x:e}: {:e}, not {:e}", ours(x), std(x));
        }
    }

    /// `n` points spread evenly, none of them round.
    fn between(low: f64, high: f64, n: u32) -> impl Iterator<Item = f64> {
        let n = if cfg!(target_arch = "aarch64") { n / 10 } else { n };
        (0..n).map(move |i| low + (high - low) * (f64::from(i) + 0.376_1) / f64::from(n))
    }

    /// Floats of every magnitude: all bit patterns, many steps apart.
    fn every_magnitude(n: u64) -> impl Iterator<Item = f64> {
        let n = if cfg!(target_arch = "aarch64") { n / 10 } else { n };
        (0..n).map(move |i| f64::from_bits(i * (0x7ff0_0000_0000_0000 / n) + i * 7919 % 4096))
    }

    #[test]
    fn exp_is_close_everywhere() {
        worst(between(-746.0, 710.0, 1_000_000), exp, f64::exp);
        worst(between(-1.0, 1.0, 1_000_000), exp, f64::exp);
        worst(
            [0.0, -0.0, 1e-300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN].into_iter(),
            exp,
            f64::exp,
        );
    }

    #[test]
    fn ln_is_close_everywhere() {
        worst(every_magnitude(1_000_000), ln, f64::ln);
        worst(between(0.4, 2.5, 1_000_000), ln, f64::ln);
        worst(between(0.999_999, 1.000_001, 100_000), ln, f64::ln);
        worst([0.0, -0.0, -1.0, 1.0, f64::INFINITY, f64::NAN].into_iter(), ln, f64::ln);
    }

    #[test]
    fn sin_and_cos_are_close_everywhere() {
        for (ours, std) in [(sin as fn(f64) -> f64, f64::sin as fn(f64) -> f64), (cos, f64::cos)] {
            worst(between(-10.0, 10.0, 500_000), ours, std);
            worst(between(0.0, 1e6, 500_000), ours, std);
            worst(every_magnitude(500_000), ours, std);
            worst([0.0, -0.0, f64::INFINITY, f64::NAN, f64::MAX].into_iter(), ours, std);
        }
    }

    #[test]
    fn sin_survives_the_float_nearest_to_a_multiple_of_half_pi() {
        // 6381956970095103 * 2^797 is the hardest f64 to reduce; its cosine is -4.687e-19.
        let x = 6_381_956_970_095_103.0 * 2.0_f64.powi(797);
        assert_eq!(cos(x), -4.687_165_924_254_628e-19);
        worst((1..100_000).map(|n| f64::from(n) * FRAC_PI_2), sin, f64::sin);
        worst((1..100_000).map(|n| f64::from(n) * FRAC_PI_2), cos, f64::cos);
    }

    #[test]
    fn pow_is_close_everywhere() {
        for exponent in between(-30.0, 30.0, 60) {
            for base in every_magnitude(10_000).chain(between(0.5, 2.0, 1_000)) {
                let (ours, std) = (pow(base, exponent), base.powf(exponent));
                assert!(ulps(ours, std) <= 2, "{base:e}^{exponent}: {ours:e}, not {std:e}");
            }
        }
    }

    #[test]
    fn pow_has_the_special_cases_of_ieee() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            -2.0,
            3.0,
            -3.0,
            0.5,
            -0.5,
            1e300,
            -1e300,
            1e-320,
            9_007_199_254_740_993.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        for base in special {
            for exponent in special {
                let (ours, std) = (pow(base, exponent), base.powf(exponent));
                assert!(ulps(ours, std) <= 2, "{base:e}^{exponent:e}: {ours:e}, not {std:e}");
                assert!(ours.is_nan() || ours.is_sign_negative() == std.is_sign_negative());
            }
        }
    }

    #[test]
    fn exact_powers_are_exact() {
        assert_eq!(pow(2.0, 10.0), 1024.0);
        assert_eq!(pow(10.0, 22.0), 1e22);
        assert_eq!(pow(500_000.0, 1.0), 500_000.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(sin_cos(0.0), (0.0, 1.0));
    }
}
