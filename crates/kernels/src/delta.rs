//! The recurrent half of gated DeltaNet, written once over [`F32x16`]: convolution and delta rule.
//!
//! Both are defined token by token. A token reads the state that the one before it left, and each column of a
//! state is a chain of its own, summed over the rows in order: no bit depends on how a sequence is cut into
//! steps, nor on which thread computes a head.

use crate::Strip;
use crate::float::{exp, silu};
use crate::lanes::{F32x16, Simd};

/// Strips of sixteen columns in flight, enough to hide the latency of a multiply-add.
const STRIPS_IN_FLIGHT: usize = 4;

/// The inputs of the delta rule of one value head, for some tokens that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct DeltaInputs<'a> {
    /// Rows of queries, keys and values, one per token.
    pub rows: &'a [f32],
    /// Length of a row.
    pub row_len: usize,
    /// Length of the query and of the key.
    pub key_dim: usize,
    /// Columns of a row at which the query, the key and the value of the head begin.
    pub columns: [usize; 3],
    /// Rows of gates, one per token: the strength β of the update for every head, then the decay α of the
    /// state for every head.
    pub gates: &'a [f32],
    /// Number of heads.
    pub heads: usize,
    /// Index of the head.
    pub head: usize,
}

/// The inputs of one token.
struct DeltaToken<'a> {
    query: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
    strength: f32,
    decay: f32,
}

impl<'a> DeltaInputs<'a> {
    #[inline(always)]
    fn token(&self, token: usize, value_dim: usize) -> DeltaToken<'a> {
        let row = &self.rows[token * self.row_len..][..self.row_len];
        let gates = &self.gates[token * 2 * self.heads..][..2 * self.heads];
        let [query, key, value] = self.columns;
        DeltaToken {
            query: &row[query..][..self.key_dim],
            key: &row[key..][..self.key_dim],
            value: &row[value..][..value_dim],
            strength: gates[self.head],
            decay: gates[self.heads + self.head],
        }
    }
}

#[inline(always)]
pub(crate) fn delta_rule<S: Simd>(
    cpu: S,
    inputs: &DeltaInputs<'_>,
    state: &mut [f32],
    out: &mut Strip<'_, f32>,
) {
    let width = out.width();
    assert_eq!(state.len(), inputs.key_dim * width, "a row of state for each element of a key");
    let mut column = 0;
    while column + 16 * STRIPS_IN_FLIGHT <= width {
        whole_strips::<S, STRIPS_IN_FLIGHT>(cpu, inputs, state, out, column);
        column += 16 * STRIPS_IN_FLIGHT;
    }
    while column + 16 <= width {
        whole_strips::<S, 1>(cpu, inputs, state, out, column);
        column += 16;
    }
    if column < width {
        last_columns(cpu, inputs, state, out, column);
    }
}

/// Runs all tokens on `N` strips of sixteen columns from `column` on, whose state stays in the caches.
#[inline(always)]
fn whole_strips<S: Simd, const N: usize>(
    cpu: S,
    inputs: &DeltaInputs<'_>,
    state: &mut [f32],
    out: &mut Strip<'_, f32>,
    column: usize,
) {
    let width = out.width();
    for t in 0..out.rows() {
        let token = inputs.token(t, width);
        let (strength, decay) = (cpu.splat(token.strength), cpu.splat(token.decay));
        let mut remembered = [cpu.splat(0.0); N];
        for (row, &key) in state.chunks_exact(width).zip(token.key) {
            let (key, strips) = (cpu.splat(key), row[column..][..16 * N].as_chunks::<16>().0);
            for (remembered, strip) in remembered.iter_mut().zip(strips) {
                *remembered = cpu.load(strip).mul(decay).mul_add(key, *remembered);
            }
        }
        let mut update = remembered;
        let values = token.value[column..][..16 * N].as_chunks::<16>().0;
        for (update, value) in update.iter_mut().zip(values) {
            *update = cpu.load(value).sub(*update).mul(strength);
        }
        let mut sums = [cpu.splat(0.0); N];
        let rows = state.chunks_exact_mut(width).zip(token.key.iter().zip(token.query));
        for (row, (&key, &query)) in rows {
            let (key, query) = (cpu.splat(key), cpu.splat(query));
            let strips = row[column..][..16 * N].as_chunks_mut::<16>().0;
            for ((sum, update), strip) in sums.iter_mut().zip(&update).zip(strips) {
                let kept = cpu.load(strip).mul(decay);
                let new = key.mul_add(*update, kept);
                new.store(strip);
                *sum = new.mul_add(query, *sum);
            }
        }
        let strips = out.row(t)[column..][..16 * N].as_chunks_mut::<16>().0;
        for (sum, strip) in sums.iter().zip(strips) {
            sum.store(strip);
        }
    }
}

/// As [`whole_strips`], for fewer than sixteen columns at the end of a row.
#[inline(always)]
fn last_columns<S: Simd>(
    cpu: S,
    inputs: &DeltaInputs<'_>,
    state: &mut [f32],
    out: &mut Strip<'_, f32>,
    column: usize,
) {
    let width = out.width();
    for t in 0..out.rows() {
        let token = inputs.token(t, width);
        let (strength, decay) = (cpu.splat(token.strength), cpu.splat(token.decay));
        let mut remembered = cpu.splat(0.0);
        for (row, &key) in state.chunks_exact(width).zip(token.key) {
            let kept = cpu.load_tail(&row[column..], 0.0).mul(decay);
            remembered = kept.mul_add(cpu.splat(key), remembered);
        }
        let value = cpu.load_tail(&token.value[column..], 0.0);
        let update = value.sub(remembered).mul(strength);
        let mut sum = cpu.splat(0.0);
        let rows = state.chunks_exact_mut(width).zip(token.key.iter().zip(token.query));
        for (row, (&key, &query)) in rows {
            let kept = cpu.load_tail(&row[column..], 0.0).mul(decay);
            let new = cpu.splat(key).mul_add(update, kept);
            new.store_tail(&mut row[column..]);
            sum = new.mul_add(cpu.splat(query), sum);
        }
        sum.store_tail(&mut out.row(t)[column..]);
    }
}

#[inline(always)]
pub(crate) fn convolve<S: Simd>(cpu: S, inputs: &[&[f32]], weights: &[f32], out: &mut [f32]) {
    let channels = out.len();
    assert_eq!(weights.len(), inputs.len() * channels, "a weight for each input of each channel");
    let whole = channels - channels % 16;
    for at in (0..whole).step_by(16) {
        let mut sum = cpu.splat(0.0);
        for (tap, input) in inputs.iter().enumerate() {
            let input = cpu.load(sixteen(&input[..channels], at));
            sum = input.mul_add(cpu.load(sixteen(&weights[tap * channels..], at)), sum);
        }
        silu(cpu, sum).store(sixteen_mut(out, at));
    }
    if whole < channels {
        let mut sum = cpu.splat(0.0);
        for (tap, input) in inputs.iter().enumerate() {
            let weights = &weights[tap * channels..][..channels];
            let input = cpu.load_tail(&input[whole..channels], 0.0);
            sum = input.mul_add(cpu.load_tail(&weights[whole..], 0.0), sum);
        }
        silu(cpu, sum).store_tail(&mut out[whole..]);
    }
}

#[inline(always)]
fn sixteen(values: &[f32], at: usize) -> &[f32; 16] {
    values[at..].first_chunk().expect("sixteen values")
}

#[inline(always)]
fn sixteen_mut(values: &mut [f32], at: usize) -> &mut [f32; 16] {
    values[at..].first_chunk_mut().expect("sixteen values")
}

#[inline(always)]
pub(crate) fn sigmoid_mul<S: Simd>(cpu: S, x: &mut [f32], gate: &[f32]) {
    assert_eq!(x.len(), gate.len(), "x and gate of one length");
    let (chunks, tail) = x.as_chunks_mut::<16>();
    let (gates, gate_tail) = gate.as_chunks::<16>();
    for (x, gate) in chunks.iter_mut().zip(gates) {
        cpu.load(x).mul(sigmoid(cpu, cpu.load(gate))).store(x);
    }
    let gate = sigmoid(cpu, cpu.load_tail(gate_tail, 0.0));
    cpu.load_tail(tail, 0.0).mul(gate).store_tail(tail);
}

#[inline(always)]
fn sigmoid<S: Simd>(cpu: S, x: S::Lanes) -> S::Lanes {
    let e = exp(cpu, cpu.splat(0.0).sub(x));
    cpu.splat(1.0).div(cpu.splat(1.0).add(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Scalar;

    /// Three tokens with keys of 2 and values of 3 elements, against sums written out by hand.
    #[test]
    fn the_delta_rule_replaces_what_a_key_remembers() {
        let query_key_value = [
            [1.0, 0.0, 1.0, 0.0, 5.0, 6.0, 7.0],
            [1.0, 1.0, 0.0, 1.0, 1.0, 2.0, 3.0],
            [1.0, 0.0, 1.0, 0.0, 9.0, 9.0, 9.0],
        ];
        // Full strength without decay, then half the strength, then a decay to a half.
        let gates = [[1.0, 1.0], [0.5, 1.0], [1.0, 0.5]];
        let inputs = DeltaInputs {
            rows: query_key_value.as_flattened(),
            row_len: 7,
            key_dim: 2,
            columns: [0, 2, 4],
            gates: gates.as_flattened(),
            heads: 1,
            head: 0,
        };
        let (mut state, mut out) = (vec![0.0; 6], vec![0.0; 9]);
        delta_rule(Scalar, &inputs, &mut state, &mut Strip::new(&mut out, 3, 3, 0));
        assert_eq!(out[..3], [5.0, 6.0, 7.0], "the first key finds its value");
        assert_eq!(out[3..6], [5.5, 7.0, 8.5], "and half of the second");
        assert_eq!(out[6..], [9.0, 9.0, 9.0], "the first key has a new value");
        assert_eq!(state, [9.0, 9.0, 9.0, 0.25, 0.5, 0.75], "the second has decayed");
    }

    #[test]
    fn a_convolution_weighs_its_inputs_and_ends_in_silu() {
        let (old, new) = ([1.0; 17], [2.0; 17]);
        let weights = [[3.0; 17], [-1.0; 17]];
        let mut out = [0.0; 17];
        convolve(Scalar, &[&old, &new], weights.as_flattened(), &mut out);
        let silu = (1.0 / (1.0 + crate::math::exp(-1.0))) as f32;
        assert!(out.iter().all(|out| (out - silu).abs() < 1e-6), "{out:?}");
    }

    #[test]
    fn a_sigmoid_opens_with_its_gate() {
        let mut x = [8.0; 3];
        sigmoid_mul(Scalar, &mut x, &[0.0, 100.0, -100.0]);
        assert_eq!((x[0], x[1]), (4.0, 8.0));
        assert!(x[2] < 1e-40);
    }
}
