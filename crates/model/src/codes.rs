//! Norms, quantization, ternary products and residual sums.
//!
//! Each row is quantized by its own largest magnitude, so no row depends on another. A row has eight bits,
//! or sixteen as two rows of eight, the second for what the first leaves; its two products are added.

use wf_core::ActivationCodes;
use wf_kernels::{
    GatedScratch, QuantBatch, TernaryMatrix, multiply_add, multiply_each, multiply_gated,
};

use crate::compute::Compute;
use crate::weights::Norm;

/// The quantized input of ternary products.
pub(crate) struct InputCodes {
    batch: QuantBatch,
    /// Buffers of sixteen bits.
    fine: Option<Fine>,
}

struct Fine {
    normed: Vec<f32>,
    errors: Vec<f32>,
}

impl InputCodes {
    /// Creates a buffer for `max_rows` rows of `max_cols` columns.
    pub(crate) fn new(activations: ActivationCodes, max_rows: usize, max_cols: usize) -> Self {
        let floats = || vec![0.0; max_rows * max_cols];
        match activations {
            ActivationCodes::Int8 => {
                Self { batch: QuantBatch::new(max_rows, max_cols), fine: None }
            }
            ActivationCodes::Int16 => Self {
                batch: QuantBatch::new(2 * max_rows, max_cols),
                fine: Some(Fine { normed: floats(), errors: floats() }),
            },
        }
    }

    /// Rows of codes: one a token, or two.
    pub(crate) fn batch(&self) -> &QuantBatch {
        &self.batch
    }

    /// Replaces the rows by those of `from` with these indices.
    pub(crate) fn gather(&mut self, cx: &Compute, from: &Self, rows: &[usize]) {
        let codes_per_row = if from.fine.is_some() { 2 } else { 1 };
        self.batch.gather(cx.kernel, &cx.pool, &from.batch, (rows, codes_per_row));
    }

    /// Norms every row of `x` and quantizes the result.
    pub(crate) fn norm_and_quantize(&mut self, cx: &Compute, x: &[f32], norm: &Norm) {
        match &mut self.fine {
            None => {
                self.batch.norm_and_quantize(cx.kernel, &cx.pool, x, (&norm.weight, norm.eps));
            }
            Some(Fine { normed, errors }) => {
                let (normed, errors) = (&mut normed[..x.len()], &mut errors[..x.len()]);
                norm_rows(cx, x, norm, normed);
                let cols = norm.weight.len();
                self.batch.quantize_twice(cx.kernel, &cx.pool, normed, errors, cols);
            }
        }
    }

    /// Norms rows of `cols` elements if there is a norm, and quantizes the result.
    pub(crate) fn maybe_norm_and_quantize(
        &mut self,
        cx: &Compute,
        x: &[f32],
        norm: Option<&Norm>,
        cols: usize,
    ) {
        match (norm, &mut self.fine) {
            (Some(norm), _) => self.norm_and_quantize(cx, x, norm),
            (None, None) => self.batch.quantize(cx.kernel, &cx.pool, x, cols),
            (None, Some(Fine { errors, .. })) => {
                let errors = &mut errors[..x.len()];
                self.batch.quantize_twice(cx.kernel, &cx.pool, x, errors, cols);
            }
        }
    }
}

/// Buffers of products.
pub(crate) struct Products {
    /// Products of both rows of sixteen-bit codes, before they are added; empty for eight bits.
    both: Vec<f32>,
    gated: GatedScratch,
}

impl Products {
    /// Creates a buffer for matrices of up to `max_outputs` rows.
    pub(crate) fn new(
        activations: ActivationCodes,
        max_rows: usize,
        max_outputs: usize,
        threads: usize,
    ) -> Self {
        let both = match activations {
            ActivationCodes::Int8 => Vec::new(),
            ActivationCodes::Int16 => vec![0.0; 2 * max_rows * max_outputs],
        };
        Self { both, gated: GatedScratch::new(threads) }
    }

    /// Multiplies matrices by the same rows.
    pub(crate) fn multiply_each<const N: usize>(
        &mut self,
        cx: &Compute,
        products: [(&TernaryMatrix, &mut [f32]); N],
        codes: &InputCodes,
    ) {
        if codes.fine.is_none() {
            return multiply_each(cx.kernel, &cx.pool, products, &codes.batch);
        }
        for (matrix, y) in products {
            self.multiply_both(cx, matrix, codes, y);
        }
    }

    /// Multiplies two matrices by the same rows, and computes `first = activate(first, second)`. `second` is a
    /// buffer, whose contents are undefined afterwards.
    pub(crate) fn multiply_gated(
        &mut self,
        cx: &Compute,
        matrices: (&TernaryMatrix, &TernaryMatrix),
        codes: &InputCodes,
        (first, second): (&mut [f32], &mut [f32]),
        activate: impl Fn(&mut [f32], &mut [f32]) + Sync,
    ) {
        if codes.fine.is_none() {
            let out = (first, &mut self.gated);
            return multiply_gated(cx.kernel, &cx.pool, matrices, &codes.batch, out, activate);
        }
        let len = matrices.0.rows();
        self.multiply_both(cx, matrices.0, codes, first);
        self.multiply_both(cx, matrices.1, codes, second);
        cx.pool.row_pairs((first, len), (second, len), |_, first, second| activate(first, second));
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
        if let (None, None, None) = (norm, &codes.fine, scale) {
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

    /// Multiplies by both rows of each token, and adds the two.
    fn multiply_both(
        &mut self,
        cx: &Compute,
        matrix: &TernaryMatrix,
        codes: &InputCodes,
        y: &mut [f32],
    ) {
        let products = &mut self.both[..2 * y.len()];
        multiply_each(cx.kernel, &cx.pool, [(matrix, &mut *products)], &codes.batch);
        add_pairs(cx, products, matrix.rows(), y);
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

/// Adds rows `2i` and `2i + 1` of `pairs`, which have `len` elements, into row `i` of `out`.
pub(crate) fn add_pairs(cx: &Compute, pairs: &[f32], len: usize, out: &mut [f32]) {
    cx.pool.rows(out, len, |row, out| {
        let (coarse, fine) = pairs[2 * row * len..][..2 * len].split_at(len);
        out.copy_from_slice(coarse);
        cx.kernel.add(out, fine);
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
