//! The float operations, written once over [`F32x16`]: dot products, norms, activations, softmax.
//!
//! Sums follow one rule: lane `i` takes elements `i`, `i + 16`, ..., the last lanes are filled up
//! with +0 (-inf for a maximum), and [`F32x16::sum`] folds. Loops without a sum are plain Rust:
//! the compiler may vectorise them but may not change their bits.

use crate::lanes::{AsBf16, AsF16, AsF32, F32x16, Simd, Stored};
use crate::{FloatRows, RotaryPairs};

/// How many rows a dot product keeps in flight: enough to hide the latency of a multiply-add.
const ROWS_IN_FLIGHT: usize = 4;

#[inline(always)]
pub(crate) fn dots<S: Simd>(cpu: S, rows: FloatRows<'_>, x: &[f32], y: &mut [f32]) {
    match rows {
        FloatRows::F32(rows) => dots_stored::<S, AsF32>(cpu, rows, x, y),
        FloatRows::Bf16(rows) => dots_stored::<S, AsBf16>(cpu, rows, x, y),
        FloatRows::F16(rows) => dots_stored::<S, AsF16>(cpu, rows, x, y),
    }
}

#[inline(always)]
pub(crate) fn dots_stored<S: Simd, F: Stored>(cpu: S, rows: &[F::Bits], x: &[f32], y: &mut [f32]) {
    assert_eq!(rows.len(), x.len() * y.len(), "as many rows as results, as long as x");
    let (blocks, rest) = y.as_chunks_mut::<ROWS_IN_FLIGHT>();
    let (block_rows, rest_rows) = rows.split_at(blocks.len() * ROWS_IN_FLIGHT * x.len());
    for (i, block) in blocks.iter_mut().enumerate() {
        let (rows, ahead) =
            block_rows[i * ROWS_IN_FLIGHT * x.len()..].split_at(ROWS_IN_FLIGHT * x.len());
        *block = dots_block::<S, F, ROWS_IN_FLIGHT>(cpu, rows, ahead, x);
    }
    for (i, result) in rest.iter_mut().enumerate() {
        [*result] = dots_block::<S, F, 1>(cpu, &rest_rows[i * x.len()..][..x.len()], &[], x);
    }
}

/// `N` rows at once. Short rows side by side are too many streams for the prefetching of CPUs, so
/// what comes after them in memory is asked for along the way.
#[inline(always)]
fn dots_block<S: Simd, F: Stored, const N: usize>(
    cpu: S,
    rows: &[F::Bits],
    ahead: &[F::Bits],
    x: &[f32],
) -> [f32; N] {
    let (x_chunks, x_tail) = x.as_chunks::<16>();
    let rows: [_; N] = std::array::from_fn(|r| rows[r * x.len()..][..x.len()].as_chunks::<16>());
    let mut sums = [cpu.splat(0.0); N];
    for (i, x) in x_chunks.iter().enumerate() {
        if let Some(ahead) = ahead.get(16 * N * i..16 * N * (i + 1)) {
            cpu.prefetch(ahead);
        }
        let x = cpu.load(x);
        for (sum, (chunks, _)) in sums.iter_mut().zip(&rows) {
            *sum = F::load(cpu, &chunks[i]).mul_add(x, *sum);
        }
    }
    if !x_tail.is_empty() {
        let x = cpu.load_tail(x_tail, 0.0);
        for (sum, (_, tail)) in sums.iter_mut().zip(&rows) {
            *sum = F::load_tail(cpu, tail).mul_add(x, *sum);
        }
    }
    sums.map(F32x16::sum)
}

#[inline(always)]
pub(crate) fn rms_norm<S: Simd>(cpu: S, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    assert!(x.len() == weight.len() && x.len() == out.len(), "x, weight and out of one length");
    let [squares] = dots_block::<S, AsF32, 1>(cpu, x, &[], x);
    let factor = 1.0 / (squares / x.len() as f32 + eps).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * factor * weight;
    }
}

#[inline(always)]
pub(crate) fn rotate<S: Simd>(
    _: S,
    head: &mut [f32],
    cos: &[f32],
    sin: &[f32],
    pairs: RotaryPairs,
) {
    assert!(head.len() == 2 * cos.len() && head.len() == 2 * sin.len(), "one angle a pair");
    let angles = cos.iter().zip(sin);
    match pairs {
        RotaryPairs::Halves => {
            let (first, second) = head.split_at_mut(cos.len());
            for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(angles) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
        RotaryPairs::Adjacent => {
            for ([a, b], (cos, sin)) in head.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}

#[inline(always)]
pub(crate) fn relu2_mul<S: Simd>(_: S, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up of one length");
    for (gate, up) in gate.iter_mut().zip(up) {
        // Written so that a NaN stays one.
        let positive = if *gate < 0.0 { 0.0 } else { *gate };
        *gate = positive * positive * up;
    }
}

#[inline(always)]
pub(crate) fn silu_mul<S: Simd>(cpu: S, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up of one length");
    let (gates, gate_tail) = gate.as_chunks_mut::<16>();
    let (ups, up_tail) = up.as_chunks::<16>();
    for (gate, up) in gates.iter_mut().zip(ups) {
        silu(cpu, cpu.load(gate)).mul(cpu.load(up)).store(gate);
    }
    let last = silu(cpu, cpu.load_tail(gate_tail, 0.0)).mul(cpu.load_tail(up_tail, 0.0));
    last.store_tail(gate_tail);
}

#[inline(always)]
fn silu<S: Simd>(cpu: S, x: S::Lanes) -> S::Lanes {
    let e = exp(cpu, cpu.splat(0.0).sub(x));
    x.div(cpu.splat(1.0).add(e))
}

#[inline(always)]
pub(crate) fn add<S: Simd>(_: S, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "x and y of one length");
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

#[inline(always)]
pub(crate) fn softmax<S: Simd>(cpu: S, x: &mut [f32]) {
    let max = cpu.splat(maximum(cpu, x));
    let (chunks, tail) = x.as_chunks_mut::<16>();
    let mut sums = cpu.splat(0.0);
    for chunk in chunks.iter_mut() {
        let e = exp(cpu, cpu.load(chunk).sub(max));
        e.store(chunk);
        sums = sums.add(e);
    }
    if !tail.is_empty() {
        exp(cpu, cpu.load_tail(tail, 0.0).sub(max)).store_tail(tail);
        sums = sums.add(cpu.load_tail(tail, 0.0));
    }
    let sum = sums.sum();
    for x in x.iter_mut() {
        *x /= sum;
    }
}

#[inline(always)]
fn maximum<S: Simd>(cpu: S, x: &[f32]) -> f32 {
    let (chunks, tail) = x.as_chunks::<16>();
    let mut max = cpu.load_tail(tail, f32::NEG_INFINITY);
    for chunk in chunks {
        max = cpu.load(chunk).max(max);
    }
    let mut lanes = [0.0; 16];
    max.store(&mut lanes);
    lanes.into_iter().fold(f32::NEG_INFINITY, |max, x| if x > max { x } else { max })
}

/// `e^x`, within two units in the last place; 0 and infinity where they belong, NaN stays NaN.
///
/// `x = n ln 2 + r` with a whole `n` and `|r| <= ln 2 / 2`; there the Taylor series of degree 7 is
/// off by less than 0.3466^8 / 8! = 6e-9, a tenth of what rounding costs.
#[inline(always)]
pub(crate) fn exp<S: Simd>(cpu: S, x: S::Lanes) -> S::Lanes {
    // Beyond these the result is 0 or infinity anyway; NaN falls through as the second operand.
    let x = cpu.splat(-104.0).max(cpu.splat(89.0).min(x));
    let n = x.mul(cpu.splat(std::f32::consts::LOG2_E)).round();
    // ln 2 in two floats: the first product is exact inside the fused operation.
    let r = n.mul_add(cpu.splat(-std::f32::consts::LN_2), x);
    let r = n.mul_add(cpu.splat(1.904_654_2e-9), r);
    let mut p = cpu.splat(1.0 / 5040.0);
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p.mul_add(r, cpu.splat(coefficient));
    }
    // 2^n in two steps, because n reaches 128 and -150. The first step is exact.
    let half = n.mul(cpu.splat(0.5)).round();
    p.mul(half.exp2_of_integer()).mul(n.sub(half).exp2_of_integer())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Scalar;
    use crate::math;

    fn exp_of(x: f32) -> f32 {
        let mut lanes = [0.0; 16];
        exp(Scalar, Scalar.splat(x)).store(&mut lanes);
        lanes[0]
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let steps = if cfg!(target_arch = "aarch64") { 20_000 } else { 1_000_000 };
        for i in 0..=steps {
            let x = -105.0 + 195.0 * (i as f32 / steps as f32);
            let (found, expected) = (exp_of(x), math::exp(x.into()) as f32);
            let distance = found.to_bits().abs_diff(expected.to_bits());
            assert!(distance <= 2, "e^{x} is {expected:e}, not {found:e}");
        }
    }

    #[test]
    fn exp_has_the_right_limits() {
        assert_eq!(exp_of(0.0), 1.0);
        assert_eq!(exp_of(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_of(-1e30), 0.0);
        assert_eq!(exp_of(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp_of(88.8), f32::INFINITY);
        assert!(exp_of(f32::NAN).is_nan());
    }
}
