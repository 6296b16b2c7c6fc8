//! Hidden states as codes: int8, and int8 again for the remainder, 16 bits together.

use wf_kernels::{QuantBatch, QuantRow, VectorBounds};

use super::Depth;
use super::nibbles::Nibbles;
use super::rounding::{MIN_BOUND, SLACK, norm, rounding};
use crate::compute::Compute;

pub(super) struct HiddenCodes {
    cols: usize,
    /// For each state its coarse codes, then the codes of what these leave.
    pairs: QuantBatch,
    /// The codes for nibbles.
    shifted: QuantBatch,
    errors: Vec<f32>,
    states: Vec<State>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct State {
    /// Upper bound of |x|.
    pub(super) norm: f64,
    /// Bounds of scores at the depth of the scan.
    pub(super) bounds: VectorBounds,
}

impl HiddenCodes {
    pub(super) fn new(max: usize, cols: usize) -> Self {
        Self {
            cols,
            pairs: QuantBatch::new(2 * max, cols),
            shifted: QuantBatch::new(max, cols),
            errors: vec![0.0; max * cols],
            states: Vec::with_capacity(max),
        }
    }

    /// Returns the codes that a scan of `depth` multiplies: one row for each state, or two.
    pub(super) fn codes(&self, depth: Depth) -> &QuantBatch {
        match depth {
            Depth::Bytes => &self.pairs,
            Depth::Nibbles => &self.shifted,
        }
    }

    pub(super) fn states(&self) -> &[State] {
        &self.states
    }

    /// Replaces the states by the rows of `hidden`, for scans of bytes.
    pub(super) fn quantize(&mut self, cx: &Compute, hidden: &[f32]) {
        let errors = &mut self.errors[..hidden.len()];
        self.pairs.quantize_twice(cx.kernel, &cx.pool, hidden, errors, self.cols);
        let pairs = self.pairs.rows().as_chunks().0;
        self.states.resize(pairs.len(), State::default());
        cx.pool.rows(&mut self.states, 1, |i, state| {
            let [coarse, fine] = &pairs[i];
            state[0] = State::new(&hidden[i * self.cols..][..self.cols], coarse, fine);
        });
    }

    /// Replaces the states by the rows of `hidden`, for scans of nibbles.
    pub(super) fn quantize_for(&mut self, cx: &Compute, hidden: &[f32], nibbles: &Nibbles) {
        let shifts = nibbles.columns_of_states();
        self.shifted.quantize_shifted(cx.kernel, &cx.pool, hidden, shifts);
        let rows = self.shifted.rows();
        self.states.resize(rows.len(), State::default());
        cx.pool.rows(&mut self.states, 1, |i, state| {
            let norm = norm(&hidden[i * self.cols..][..self.cols]);
            state[0] = State { norm, bounds: nibbles.bounds(&rows[i], norm) };
        });
    }
}

impl State {
    fn new(x: &[f32], coarse: &QuantRow, fine: &QuantRow) -> Self {
        let (coarse_scale, fine_scale) = (f64::from(coarse.scale()), f64::from(fine.scale()));
        let mut squares = 0.0;
        for ((&x, &coarse), &fine) in x.iter().zip(coarse.codes()).zip(fine.codes()) {
            let left =
                f64::from(x) - f64::from(coarse) * coarse_scale - f64::from(fine) * fine_scale;
            squares += left * left;
        }
        let (norm, error) = (norm(x), squares.sqrt() * SLACK);
        let rounding = rounding(x.len());
        let bounds = VectorBounds {
            coarse: coarse.scale(),
            fine: fine.scale(),
            offset: 0.0,
            per_error: ((1.0 + rounding) * norm * SLACK) as f32,
            per_norm: ((error + rounding * norm) * SLACK) as f32,
            base_error: MIN_BOUND,
        };
        Self { norm, bounds }
    }
}
