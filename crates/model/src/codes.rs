//! What comes before a ternary product: each row is normed and quantised to int8 by its own largest
//! value, so no row depends on another.

use wf_kernels::QuantBatch;

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
