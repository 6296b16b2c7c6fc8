//! Products with activations in floats, without codes: the reference for all others.
//!
//! Weights become floats, a few rows at a time, and are multiplied like the rows of a table. That takes
//! many times longer than a product of codes, and has the rounding errors of single precision only.

use std::ops::Range;

use crate::{FloatRows, Kernel, Strip, TernaryMatrix};

/// Rows of weights that are floats at the same time.
pub(super) const WEIGHT_ROWS: usize = 4;

/// Multiplies some rows of `w` by every vector of `xs`. `weights` is room for [`WEIGHT_ROWS`] rows.
pub(super) fn multiply_floats(
    kernel: &dyn Kernel,
    w: &TernaryMatrix,
    rows: Range<usize>,
    xs: &[f32],
    y: &mut Strip<'_, f32>,
    weights: &mut [f32],
) {
    for first in rows.clone().step_by(WEIGHT_ROWS) {
        let some = first..rows.end.min(first + WEIGHT_ROWS);
        let weights = &mut weights[..some.len() * w.cols()];
        for (row, weights) in some.clone().zip(weights.chunks_exact_mut(w.cols())) {
            w.weights(row, weights);
        }
        let mut y = y.columns(first - rows.start, some.len());
        kernel.dots_many(FloatRows::F32(weights), xs, &mut y);
    }
}
