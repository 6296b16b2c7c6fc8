//! Norms, int8 quantization and residual sums around the ternary products.
//!
//! Each row is quantized by its own largest magnitude, so no row depends on another.

use wf_kernels::{QuantBatch, TernaryMatrix, multiply_add, multiply_each};

use crate::compute::Compute;
use crate::weights::Norm;

/// Norms every row of `x` and quantizes the result.
pub(crate) fn norm_and_quantize(cx: &Compute, x: &[f32], norm: &Norm, codes: &mut QuantBatch) {
    codes.norm_and_quantize(cx.kernel, &cx.pool, x, (&norm.weight, norm.eps));
}

/// Norms rows of `cols` elements if there is a norm, and quantizes the result.
pub(crate) fn maybe_norm_and_quantize(
    cx: &Compute,
    x: &[f32],
    norm: Option<&Norm>,
    codes: &mut QuantBatch,
    cols: usize,
) {
    match norm {
        Some(norm) => norm_and_quantize(cx, x, norm, codes),
        None => codes.quantize(cx.kernel, &cx.pool, x, cols),
    }
}

/// Norms every row of `x`, each as long as the norm's weights, into `normed`.
pub(crate) fn norm_rows(cx: &Compute, x: &[f32], norm: &Norm, normed: &mut [f32]) {
    let len = norm.weight.len();
    cx.pool.rows(normed, len, |row, normed| {
        cx.kernel.rms_norm(&x[row * len..][..len], &norm.weight, norm.eps, normed);
    });
}

/// Buffers at the end of a block.
pub(crate) struct Residual<'a> {
    /// Receives the block's product.
    pub(crate) delta: &'a mut [f32],
    /// Receives the normed product, if there is a norm.
    pub(crate) normed: &'a mut [f32],
    /// Hidden states that the result is added to.
    pub(crate) hidden: &'a mut [f32],
}

/// `hidden += norm(codes * matrix)`, where the norm is optional.
pub(crate) fn multiply_norm_add(
    cx: &Compute,
    matrix: &TernaryMatrix,
    norm: Option<&Norm>,
    codes: &QuantBatch,
    out: Residual<'_>,
) {
    let Residual { delta, normed, hidden } = out;
    let Some(norm) = norm else {
        return multiply_add(cx.kernel, &cx.pool, matrix, codes, delta, hidden);
    };
    multiply_each(cx.kernel, &cx.pool, [(matrix, &mut *delta)], codes);
    norm_rows(cx, delta, norm, normed);
    let len = norm.weight.len();
    cx.pool.rows(hidden, len, |row, hidden| {
        cx.kernel.add(hidden, &normed[row * len..][..len]);
    });
}
