//! Hidden states as codes: int8, and int8 again for the remainder, 16 bits together.

use wf_kernels::{QuantBatch, QuantRow, VectorBounds};

use super::bounds::{Factors, SLACK, vector_bounds};
use crate::compute::Compute;

/// Mean of the lower codes 0 to 15, where code + 128 = 16 upper + lower.
const MIDDLE_OF_LOWER: f64 = 7.5;

/// Number of standard deviations in the statistical bound of upper codes.
const TRUSTED_SIGMAS: f64 = 8.0;

/// Quantized hidden states.
pub(super) struct HiddenCodes {
    cols: usize,
    /// Codes of each state, then codes of each state's remainder.
    codes: QuantBatch,
    values: Vec<f32>,
    states: Vec<State>,
}

/// Bounds of one hidden state.
#[derive(Clone, Copy)]
pub(super) struct State {
    /// Upper bound of |x|.
    pub(super) norm: f64,
    /// Proven bounds of scores by all bits.
    pub(super) by_all: VectorBounds,
    /// Statistical bounds of scores by upper codes.
    pub(super) by_upper: VectorBounds,
}

impl HiddenCodes {
    pub(super) fn new(max: usize, cols: usize) -> Self {
        Self {
            cols,
            codes: QuantBatch::new(2 * max, cols),
            values: vec![0.0; 2 * max * cols],
            states: Vec::with_capacity(max),
        }
    }

    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the coarse codes of every state, then the fine ones.
    pub(super) fn codes(&self) -> &[QuantRow] {
        self.codes.rows()
    }

    pub(super) fn states(&self) -> &[State] {
        &self.states
    }

    /// Replaces the states by the rows of `hidden`.
    pub(super) fn quantize(&mut self, cx: &Compute, hidden: &[f32], cols: usize) {
        let values = &mut self.values[..2 * hidden.len()];
        let (coarse, fine) = values.split_at_mut(hidden.len());
        coarse.copy_from_slice(hidden);
        self.codes.quantize(cx.kernel, &cx.pool, coarse, cols);
        let rows = fine.chunks_exact_mut(cols).zip(coarse.chunks_exact(cols));
        for ((fine, x), codes) in rows.zip(self.codes.rows()) {
            for ((fine, x), &code) in fine.iter_mut().zip(x).zip(codes.codes()) {
                *fine = *x - f32::from(code) * codes.scale();
            }
        }
        self.codes.quantize(cx.kernel, &cx.pool, values, cols);
        let (coarse, fine) = self.codes.rows().split_at(hidden.len() / cols);
        let rows = hidden.chunks_exact(cols).zip(coarse.iter().zip(fine));
        self.states.clear();
        self.states.extend(rows.map(|(x, (coarse, fine))| State::new(x, coarse, fine)));
    }
}

impl State {
    fn new(x: &[f32], coarse: &QuantRow, fine: &QuantRow) -> Self {
        let (coarse_scale, fine_scale) = (f64::from(coarse.scale()), f64::from(fine.scale()));
        let mut squares = [0.0; 3];
        for ((&x, &coarse), &fine) in x.iter().zip(coarse.codes()).zip(fine.codes()) {
            let x = f64::from(x);
            let left = x - f64::from(coarse) * coarse_scale;
            let left_over = left - f64::from(fine) * fine_scale;
            for (square, value) in squares.iter_mut().zip([x, left, left_over]) {
                *square += value * value;
            }
        }
        let [norm, coarse_error, error] = squares.map(|square| square.sqrt() * SLACK);
        let cols = x.len();
        let factors = Factors { coarse: coarse.scale(), fine: fine.scale(), offset: 0.0 };
        let by_all = vector_bounds(cols, 1.0, norm, error, factors);
        // For short rows, the proven bound is smaller than the statistical one.
        let trust = (TRUSTED_SIGMAS / (cols as f64).sqrt()).min(1.0);
        let factors = Factors {
            coarse: 16.0 * coarse.scale(),
            fine: 0.0,
            offset: (MIDDLE_OF_LOWER - 128.0) as f32 * coarse.sum() as f32 * coarse.scale(),
        };
        let by_upper = vector_bounds(cols, trust, norm, coarse_error, factors);
        Self { norm, by_all, by_upper }
    }
}

/// Returns the value of an upper code, in units of the row's scale.
pub(super) fn value_of_upper(code: i8) -> f64 {
    16.0 * f64::from(code) + MIDDLE_OF_LOWER - 128.0
}
