//! What comes before and after a ternary product: each row is normed and quantised to int8 by its own
//! largest value, so no row depends on another.

use wf_kernels::{QuantBatch, TernaryMatrix, multiply_add, multiply_each};

use crate::compute::Compute;

/// Norms every row of `x` into `normed`, and quantises the result.
pub(crate) fn norm_and_quantize(
    cx: &Compute,
    x: &[f32],
    (weight, eps): (&[f32], f32),
    normed: &mut [f32],
    codes: &mut QuantBatch,
) {
    let len = weight.len();
    codes.make(cx.kernel, &cx.pool, normed, len, |row, normed| {
        cx.kernel.rms_norm(&x[row * len..][..len], weight, eps, normed);
    });
}

/// Norms as above where there is a weight; otherwise quantises `x` as it is.
pub(crate) fn maybe_norm_and_quantize(
    cx: &Compute,
    x: &[f32],
    (weight, eps): (Option<&[f32]>, f32),
    normed: &mut [f32],
    codes: &mut QuantBatch,
    cols: usize,
) {
    match weight {
        Some(weight) => norm_and_quantize(cx, x, (weight, eps), normed, codes),
        None => codes.quantize(cx.kernel, &cx.pool, x, cols),
    }
}

/// Norms every row of `x`, each as long as `weight`, into `normed`.
pub(crate) fn norm_rows(cx: &Compute, x: &[f32], (weight, eps): (&[f32], f32), normed: &mut [f32]) {
    let len = weight.len();
    cx.pool.rows(normed, len, |row, normed| {
        cx.kernel.rms_norm(&x[row * len..][..len], weight, eps, normed);
    });
}

/// `hidden += norm(codes * matrix)`, or without the norm where there is none. `delta` keeps the
/// product.
pub(crate) fn multiply_norm_add(
    cx: &Compute,
    (matrix, norm): (&TernaryMatrix, Option<&[f32]>),
    codes: &QuantBatch,
    eps: f32,
    (delta, normed, hidden): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let Some(weight) = norm else {
        return multiply_add(cx.kernel, &cx.pool, matrix, codes, delta, hidden);
    };
    multiply_each(cx.kernel, &cx.pool, [(matrix, &mut *delta)], codes);
    norm_rows(cx, delta, (weight, eps), normed);
    cx.pool.rows(hidden, weight.len(), |row, hidden| {
        cx.kernel.add(hidden, &normed[row * weight.len()..][..weight.len()]);
    });
}
