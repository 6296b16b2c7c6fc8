//! The ternary product: quantise each row to int8, multiply by trits, scale back.

use wf_kernels::{QuantBatch, TernaryMatrix};

use crate::compute::Compute;

/// Norms every row of `x` into `out`.
pub(crate) fn norm(cx: &Compute, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let len = weight.len();
    cx.pool.rows(out, len, |row, out| {
        cx.kernel.rms_norm(&x[row * len..][..len], weight, eps, out);
    });
}

/// Quantises every row of `x` by its own largest value, so no row depends on another.
pub(crate) fn quantize(cx: &Compute, x: &[f32], cols: usize, codes: &mut QuantBatch) {
    codes.quantize(cx.kernel, &cx.pool, x, cols);
}

/// `y = w · x` for every quantised row.
pub(crate) fn multiply(cx: &Compute, w: &TernaryMatrix, x: &QuantBatch, y: &mut [f32]) {
    wf_kernels::multiply(cx.kernel, &cx.pool, w, x, y);
}

/// Adds `delta` to the residual stream.
pub(crate) fn add(cx: &Compute, hidden: &mut [f32], delta: &[f32], cols: usize) {
    cx.pool.rows(hidden, cols, |row, hidden| cx.kernel.add(hidden, &delta[row * cols..][..cols]));
}
