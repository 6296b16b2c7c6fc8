//! Float operations, written once over [`F32x16`]: dot products, norms, activations, softmax.
//!
//! Sums follow one rule: lane `i` takes elements `i`, `i + 16`, ..., the last lanes are filled up
//! with +0 (-inf for a maximum), and [`F32x16::sum`] folds. Loops without a sum are plain Rust:
//! the compiler may vectorise them but may not change their bits.

use crate::lanes::{AsBf16, AsF16, AsF32, F32x16, Simd, Stored};
use crate::{FloatRows, RotaryPairs, Strip};

/// Rows in flight, enough to hide the latency of a multiply-add.
const ROWS_IN_FLIGHT: usize = 4;

/// Vectors that share one load of rows on CPUs with many registers.
const VECTORS_AT_ONCE: usize = 4;

#[inline(always)]
pub(crate) fn dots<S: Simd>(cpu: S, rows: FloatRows<'_>, x: &[f32], y: &mut [f32]) {
    let rows_len = y.len();
    if rows_len > 0 {
        dots_many(cpu, rows, x, &mut Strip::new(y, rows_len, rows_len, 0));
    }
}

#[inline(always)]
pub(crate) fn dots_many<S: Simd>(cpu: S, rows: FloatRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>) {
    match rows {
        FloatRows::F32(rows) => dots_stored::<S, AsF32>(cpu, rows, xs, y),
        FloatRows::Bf16(rows) => dots_stored::<S, AsBf16>(cpu, rows, xs, y),
        FloatRows::F16(rows) => dots_stored::<S, AsF16>(cpu, rows, xs, y),
    }
}

#[inline(always)]
pub(crate) fn dots_stored<S: Simd, F: Stored>(
    cpu: S,
    rows: &[F::Bits],
    xs: &[f32],
    y: &mut Strip<'_, f32>,
) {
    let len = xs.len().checked_div(y.rows()).unwrap_or(0);
    assert_eq!(xs.len(), len * y.rows(), "as many vectors as rows of results, all of one length");
    assert_eq!(rows.len(), len * y.width(), "as many rows as results, as long as a vector");
    let blocks = y.width() / ROWS_IN_FLIGHT;
    for block in 0..blocks {
        let first = block * ROWS_IN_FLIGHT;
        let (rows, ahead) = rows[first * len..].split_at(ROWS_IN_FLIGHT * len);
        dots_of_rows::<S, F, ROWS_IN_FLIGHT>(cpu, rows, ahead, xs, first, y);
    }
    for row in blocks * ROWS_IN_FLIGHT..y.width() {
        dots_of_rows::<S, F, 1>(cpu, &rows[row * len..][..len], &[], xs, row, y);
    }
}

/// Computes the dot products of `N` rows from `first` on with every vector.
#[inline(always)]
fn dots_of_rows<S: Simd, F: Stored, const N: usize>(
    cpu: S,
    rows: &[F::Bits],
    ahead: &[F::Bits],
    xs: &[f32],
    first: usize,
    y: &mut Strip<'_, f32>,
) {
    let len = rows.len() / N;
    let x = |t: usize| &xs[t * len..][..len];
    // The following rows are prefetched only once.
    let ahead_of = |t| if t == 0 { ahead } else { &[] };
    let mut t = 0;
    while S::MANY_REGISTERS && t + VECTORS_AT_ONCE <= y.rows() {
        let vectors = [x(t), x(t + 1), x(t + 2), x(t + 3)];
        for dots in dots_block::<S, F, N, VECTORS_AT_ONCE>(cpu, rows, ahead_of(t), vectors) {
            y.row(t)[first..][..N].copy_from_slice(&dots);
            t += 1;
        }
    }
    while t < y.rows() {
        let [dots] = dots_block::<S, F, N, 1>(cpu, rows, ahead_of(t), [x(t)]);
        y.row(t)[first..][..N].copy_from_slice(&dots);
        t += 1;
    }
}

/// Computes the dot products of `N` rows with `T` vectors. Short rows side by side are too many streams
/// for hardware prefetching, so the rows after them are prefetched along the way.
#[inline(always)]
fn dots_block<S: Simd, F: Stored, const N: usize, const T: usize>(
    cpu: S,
    rows: &[F::Bits],
    ahead: &[F::Bits],
    xs: [&[f32]; T],
) -> [[f32; N]; T] {
    let len = rows.len() / N;
    // Loops, because the closure of a `map` would remain a call in a function as large as this becomes,
    // and so would each instruction in it.
    let mut row_chunks = [rows.as_chunks::<16>(); N];
    for (r, chunks) in row_chunks.iter_mut().enumerate() {
        *chunks = rows[r * len..][..len].as_chunks();
    }
    let mut x_chunks = [xs[0].as_chunks::<16>(); T];
    for (chunks, x) in x_chunks.iter_mut().zip(xs) {
        *chunks = x[..len].as_chunks();
    }
    let mut sums = [[cpu.splat(0.0); N]; T];
    for i in 0..len / 16 {
        if let Some(ahead) = ahead.get(16 * N * i..16 * N * (i + 1)) {
            cpu.prefetch(ahead);
        }
        let mut values = [cpu.splat(0.0); N];
        for (values, (chunks, _)) in values.iter_mut().zip(&row_chunks) {
            *values = F::load(cpu, &chunks[i]);
        }
        for (sums, (chunks, _)) in sums.iter_mut().zip(&x_chunks) {
            add_products(sums, values, cpu.load(&chunks[i]));
        }
    }
    if !len.is_multiple_of(16) {
        let mut values = [cpu.splat(0.0); N];
        for (values, (_, tail)) in values.iter_mut().zip(&row_chunks) {
            *values = F::load_tail(cpu, tail);
        }
        for (sums, (_, tail)) in sums.iter_mut().zip(&x_chunks) {
            add_products(sums, values, cpu.load_tail(tail, 0.0));
        }
    }
    let mut dots = [[0.0; N]; T];
    for (dots, sums) in dots.iter_mut().zip(sums) {
        for (dot, sum) in dots.iter_mut().zip(sums) {
            *dot = sum.sum();
        }
    }
    dots
}

#[inline(always)]
pub(crate) fn add_products<L: F32x16, const N: usize>(
    sums: &mut [L; N],
    values: [L; N],
    factor: L,
) {
    for (sum, values) in sums.iter_mut().zip(&values) {
        *sum = values.mul_add(factor, *sum);
    }
}

/// A root-mean-square norm.
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm<'a> {
    /// One factor per element.
    pub weight: &'a [f32],
    /// Added to the mean square.
    pub eps: f32,
    /// Number of elements that the mean is over: more than there are factors if elements that are always zero are
    /// left out.
    pub mean_len: usize,
}

impl<'a> RmsNorm<'a> {
    /// Creates a norm of all elements.
    pub fn new(weight: &'a [f32], eps: f32) -> Self {
        Self { weight, eps, mean_len: weight.len() }
    }

    /// Returns the inverse of the root of the mean square.
    #[inline(always)]
    pub(crate) fn factor<S: Simd>(self, cpu: S, x: &[f32]) -> f32 {
        let [[squares]] = dots_block::<S, AsF32, 1, 1>(cpu, x, &[], [x]);
        1.0 / (squares / self.mean_len as f32 + self.eps).sqrt()
    }
}

#[inline(always)]
pub(crate) fn rms_norm<S: Simd>(cpu: S, x: &[f32], norm: RmsNorm<'_>, out: &mut [f32]) {
    let len = norm.weight.len();
    assert!(x.len() == len && len == out.len(), "x, weight and out of one length");
    let factor = norm.factor(cpu, x);
    for ((out, x), weight) in out.iter_mut().zip(x).zip(norm.weight) {
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
        *gate = if *gate <= 0.0 { 0.0 } else { *gate * *gate * up };
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
pub(crate) fn silu<S: Simd>(cpu: S, x: S::Lanes) -> S::Lanes {
    let e = exp(cpu, cpu.splat(0.0).sub(x));
    x.div(cpu.splat(1.0).add(e))
}

#[inline(always)]
pub(crate) fn gelu_mul<S: Simd>(cpu: S, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up of one length");
    let (gates, gate_tail) = gate.as_chunks_mut::<16>();
    let (ups, up_tail) = up.as_chunks::<16>();
    for (gate, up) in gates.iter_mut().zip(ups) {
        gelu(cpu, cpu.load(gate)).mul(cpu.load(up)).store(gate);
    }
    let last = gelu(cpu, cpu.load_tail(gate_tail, 0.0)).mul(cpu.load_tail(up_tail, 0.0));
    last.store_tail(gate_tail);
}

/// `(1 + tanh(y)) / 2` is `1 / (1 + exp(-2y))`, so no tanh is needed.
#[inline(always)]
fn gelu<S: Simd>(cpu: S, x: S::Lanes) -> S::Lanes {
    // 2 · √(2/π), and 0.044715 of it for the cube.
    let (linear, cubic) = (cpu.splat(1.595_769), cpu.splat(0.071_354_82));
    let y = x.mul(x.mul(x).mul_add(cubic, linear));
    let e = exp(cpu, cpu.splat(0.0).sub(y));
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
    cpu.mul_exp2(p, n)
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
