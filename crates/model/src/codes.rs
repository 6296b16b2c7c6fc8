//! Norms, quantization, ternary products and residual sums.
//!
//! Each row is quantized by its own largest magnitudes, so no row depends on another. [`ActivationCodes`]
//! says how; the kernels multiply all of them.

use wf_core::ActivationCodes;
use wf_kernels::{
    GatedScratch, QuantBatch, TernaryMatrix, multiply_add, multiply_each, multiply_gated,
};

use crate::compute::Compute;
use crate::weights::Norm;

/// The quantized input of ternary products.
pub(crate) struct InputCodes {
    activations: ActivationCodes,
    batch: QuantBatch,
    /// Normed rows; empty for eight bits, where one operation norms and quantizes.
    normed: Vec<f32>,
    /// Remainders that the first eight of sixteen bits leave.
    errors: Vec<f32>,
}

impl InputCodes {
    /// Creates a buffer for `max_rows` rows of `max_cols` columns.
    pub(crate) fn new(activations: ActivationCodes, max_rows: usize, max_cols: usize) -> Self {
        let floats = |used: bool| if used { vec![0.0; max_rows * max_cols] } else { Vec::new() };
        Self {
            activations,
            batch: match activations {
                ActivationCodes::Int8 | ActivationCodes::Int8Group => {
                    QuantBatch::new(max_rows, max_cols)
                }
                ActivationCodes::Int16 => QuantBatch::new(2 * max_rows, max_cols),
                ActivationCodes::F32 => QuantBatch::of_floats(max_rows, max_cols),
            },
            normed: floats(activations != ActivationCodes::Int8),
            errors: floats(activations == ActivationCodes::Int16),
        }
    }

    /// Codes of the rows: see [`ActivationCodes`].
    pub(crate) fn batch(&self) -> &QuantBatch {
        &self.batch
    }

    /// Replaces the rows by those of `from` with these indices, for products with tiles if `tiled`.
    pub(crate) fn gather(&mut self, cx: &Compute, from: &Self, rows: (&[usize], bool)) {
        self.batch.gather(cx.kernel, &cx.pool, &from.batch, rows);
    }

    /// Quantizes rows of `cols` elements.
    pub(crate) fn quantize(&mut self, cx: &Compute, x: &[f32], cols: usize) {
        let errors = self.errors.get_mut(..x.len()).unwrap_or_default();
        quantize(cx, self.activations, x, cols, &mut self.batch, errors);
    }

    /// Norms every row of `x` and quantizes the result.
    pub(crate) fn norm_and_quantize(&mut self, cx: &Compute, x: &[f32], norm: &Norm) {
        if self.activations == ActivationCodes::Int8 {
            let norm = (&norm.weight[..], norm.eps);
            return self.batch.norm_and_quantize(cx.kernel, &cx.pool, x, norm);
        }
        let Self { activations, batch, normed, errors } = self;
        let normed = &mut normed[..x.len()];
        norm_rows(cx, x, norm, normed);
        let errors = errors.get_mut(..x.len()).unwrap_or_default();
        quantize(cx, *activations, normed, norm.weight.len(), batch, errors);
    }

    /// Norms rows of `cols` elements if there is a norm, and quantizes the result.
    pub(crate) fn maybe_norm_and_quantize(
        &mut self,
        cx: &Compute,
        x: &[f32],
        norm: Option<&Norm>,
        cols: usize,
    ) {
        match norm {
            Some(norm) => self.norm_and_quantize(cx, x, norm),
            None => self.quantize(cx, x, cols),
        }
    }
}

/// Quantizes rows of `cols` elements into `batch`. Sixteen bits need room for `errors`.
fn quantize(
    cx: &Compute,
    activations: ActivationCodes,
    x: &[f32],
    cols: usize,
    batch: &mut QuantBatch,
    errors: &mut [f32],
) {
    match activations {
        ActivationCodes::Int8 => batch.quantize(cx.kernel, &cx.pool, x, cols),
        ActivationCodes::Int8Group => batch.quantize_groups(cx.kernel, &cx.pool, x, cols),
        ActivationCodes::Int16 => batch.quantize_twice(cx.kernel, &cx.pool, x, errors, cols),
        ActivationCodes::F32 => batch.copy_floats(x, cols),
    }
}

/// Products with their buffers.
pub(crate) struct Products {
    pub(crate) gated: GatedScratch,
}

impl Products {
    pub(crate) fn new(threads: usize) -> Self {
        Self { gated: GatedScratch::new(threads) }
    }

    /// Multiplies matrices by the same rows.
    pub(crate) fn multiply_each<const N: usize>(
        &mut self,
        cx: &Compute,
        products: [(&TernaryMatrix, &mut [f32]); N],
        codes: &InputCodes,
    ) {
        multiply_each(cx.kernel, &cx.pool, products, &codes.batch);
    }

    /// Multiplies two matrices by the same rows, and computes `out = activate(first, second)`.
    pub(crate) fn multiply_gated(
        &mut self,
        cx: &Compute,
        matrices: (&TernaryMatrix, &TernaryMatrix),
        codes: &InputCodes,
        out: &mut [f32],
        activate: impl Fn(&mut [f32], &mut [f32]) + Sync,
    ) {
        let out = (out, &mut self.gated);
        multiply_gated(cx.kernel, &cx.pool, matrices, &codes.batch, out, activate);
    }

    /// `hidden += scale * norm(codes * matrix)`, where norm and scale are optional.
    pub(crate) fn multiply_norm_add(
        &mut self,
        cx: &Compute,
        matrix: &TernaryMatrix,
        norm: Option<&Norm>,
        codes: &InputCodes,
        out: Residual<'_>,
    ) {
        let Residual { delta, normed, hidden, scale } = out;
        if let (None, None) = (norm, scale) {
            return multiply_add(cx.kernel, &cx.pool, matrix, &codes.batch, delta, hidden);
        }
        self.multiply_each(cx, [(matrix, &mut *delta)], codes);
        let added = match norm {
            None => &*delta,
            Some(norm) => {
                norm_rows(cx, delta, norm, normed);
                &*normed
            }
        };
        add_rows(cx, hidden, added, matrix.rows(), scale);
    }
}

/// Adds `scale` times each row of `added`, or without a scale the row itself, to that of `hidden`. Rows have
/// `len` elements.
pub(crate) fn add_rows(
    cx: &Compute,
    hidden: &mut [f32],
    added: &[f32],
    len: usize,
    scale: Option<f32>,
) {
    cx.pool.rows(hidden, len, |row, hidden| {
        let added = &added[row * len..][..len];
        match scale {
            None => cx.kernel.add(hidden, added),
            Some(scale) => {
                hidden.iter_mut().zip(added).for_each(|(hidden, added)| *hidden += scale * added);
            }
        }
    });
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
    /// Factor of the result.
    pub(crate) scale: Option<f32>,
}
