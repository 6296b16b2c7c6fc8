//! Hidden states as codes: int8, and int8 again for the remainder, 16 bits together.

use wf_kernels::{QuantBatch, QuantRow, VectorBounds};

use super::Depth;
use crate::compute::Compute;

/// Factor that covers the error of norms, computed in f64 over at most 2^17 products (2^-36), and the
/// five roundings to f32 on the way to a bound.
pub(super) const SLACK: f64 = 1.0 + 1e-6;

/// More than the error of subnormal results in all roundings of a score.
const MIN_BOUND: f32 = f32::MIN_POSITIVE;

/// Mean of the lower codes 0 to 15, where code + 128 = 16 upper + lower.
const MIDDLE_OF_LOWER: f64 = 7.5;

/// Number of standard deviations in the statistical bound of upper codes.
const TRUSTED_SIGMAS: f64 = 8.0;

pub(super) struct HiddenCodes {
    cols: usize,
    /// For each state its coarse codes, then the codes of what these leave.
    pairs: QuantBatch,
    /// The coarse codes alone, for scans that need no others.
    coarse: QuantBatch,
    errors: Vec<f32>,
    states: Vec<State>,
}

#[derive(Clone, Copy, Default)]
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
            pairs: QuantBatch::new(2 * max, cols),
            coarse: QuantBatch::new(max, cols),
            errors: vec![0.0; max * cols],
            states: Vec::with_capacity(max),
        }
    }

    /// Returns the codes that a scan of `depth` multiplies: one row for each state, or two.
    pub(super) fn codes(&self, depth: Depth) -> &QuantBatch {
        match depth {
            Depth::Bytes => &self.pairs,
            Depth::Nibbles => &self.coarse,
        }
    }

    pub(super) fn states(&self) -> &[State] {
        &self.states
    }

    /// Replaces the states by the rows of `hidden`, for scans of `depth`.
    pub(super) fn quantize(&mut self, cx: &Compute, hidden: &[f32], depth: Depth) {
        let errors = &mut self.errors[..hidden.len()];
        self.pairs.quantize_twice(cx.kernel, &cx.pool, hidden, errors, self.cols);
        if depth == Depth::Nibbles {
            self.coarse.quantize(cx.kernel, &cx.pool, hidden, self.cols);
        }
        let pairs = self.pairs.rows().as_chunks().0;
        self.states.resize(pairs.len(), State::default());
        cx.pool.rows(&mut self.states, 1, |i, state| {
            let [coarse, fine] = &pairs[i];
            state[0] = State::new(&hidden[i * self.cols..][..self.cols], coarse, fine);
        });
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
        // The table's own score sums sixteen lanes of fused products: each of at most cols / 16 + 5
        // roundings has an error of 2^-24 of at most |w| |x|. As many again cover the six roundings of
        // the estimate, whose parts are at most |w'| |x| times 1 + √cols / 127.
        let rounding = (cols / 16 + 16) as f64 / f64::from(1 << 23);
        // `trust` is the share of the proven bound to use.
        let bounds = |trust: f64, error: f64| VectorBounds {
            coarse: coarse.scale(),
            fine: fine.scale(),
            offset: 0.0,
            per_error: ((trust + rounding) * norm * SLACK) as f32,
            per_norm: ((trust * error + rounding * norm) * SLACK) as f32,
            base_error: MIN_BOUND,
        };
        // For short rows, the proven bound is smaller than the statistical one.
        let trust = (TRUSTED_SIGMAS / (cols as f64).sqrt()).min(1.0);
        let by_upper = VectorBounds {
            coarse: 16.0 * coarse.scale(),
            fine: 0.0,
            offset: (MIDDLE_OF_LOWER - 128.0) as f32 * coarse.sum() as f32 * coarse.scale(),
            ..bounds(trust, coarse_error)
        };
        Self { norm, by_all: bounds(1.0, error), by_upper }
    }
}

/// Returns the value of an upper code, in units of the row's scale.
pub(super) fn value_of_upper(code: i8) -> f64 {
    16.0 * f64::from(code) + MIDDLE_OF_LOWER - 128.0
}
