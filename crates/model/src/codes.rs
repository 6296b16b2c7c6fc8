//! Norms, quantization, ternary products and residual sums.
//!
//! Each row is quantized by its own largest magnitudes, so no row depends on another. [`ActivationCodes`]
//! says how; the kernels multiply all of them.

use std::sync::Arc;

use wf_core::ActivationCodes;
use wf_kernels::{
    ColumnScratch, NonZeros, ProductScratch, QuantBatch, TernaryColumns, TernaryMatrix, Zeroing,
    multiply_add, multiply_columns_each, multiply_each, multiply_gated,
};

use crate::compute::Compute;
use crate::hadamard::Rotation;
use crate::weights::Norm;

/// The quantized input of ternary products.
pub(crate) struct InputCodes {
    activations: ActivationCodes,
    batch: QuantBatch,
    /// Normed rows; empty for eight bits, where one operation norms and quantizes, unless they are rotated.
    normed: Vec<f32>,
    /// Transform of the rows before they are quantized.
    rotation: Option<Arc<Rotation>>,
    /// Transformed rows; empty without a transform.
    rotated: Vec<f32>,
    /// Remainders that the first eight of sixteen bits leave.
    errors: Vec<f32>,
}

impl InputCodes {
    /// Creates a buffer for `max_rows` rows of `max_cols` columns.
    pub(crate) fn new(
        activations: ActivationCodes,
        max_rows: usize,
        max_cols: usize,
        rotation: Option<Arc<Rotation>>,
    ) -> Self {
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
            normed: floats(activations != ActivationCodes::Int8 || rotation.is_some()),
            rotated: floats(rotation.is_some()),
            rotation,
            errors: floats(activations == ActivationCodes::Int16),
        }
    }

    /// Codes of the rows: see [`ActivationCodes`].
    pub(crate) fn batch(&self) -> &QuantBatch {
        &self.batch
    }

    /// Returns `true` if products with these rows read columns of `copies`.
    pub(crate) fn skips(&self, copies: &[TernaryColumns]) -> bool {
        !copies.is_empty() && self.batch.tokens() == 1
    }

    /// Sets activations to zero, of rows that are quantized from now on.
    pub(crate) fn set_zeroing(&mut self, zeroing: Zeroing) {
        self.batch.set_zeroing(zeroing);
    }

    /// Replaces the rows by those of `from` with these indices, for products with tiles if `tiled`.
    pub(crate) fn gather(&mut self, cx: &Compute, from: &Self, rows: (&[usize], bool)) {
        self.batch.gather(cx.kernel, &cx.pool, &from.batch, rows);
    }

    /// Quantizes rows of `cols` elements.
    pub(crate) fn quantize(&mut self, cx: &Compute, x: &[f32], cols: usize) {
        let Self { activations, batch, errors, rotation, rotated, .. } = self;
        let errors = errors.get_mut(..x.len()).unwrap_or_default();
        let x = rotate(cx, rotation.as_deref(), x, cols, rotated);
        quantize(cx, *activations, x, cols, batch, errors);
    }

    /// Norms every row of `x` and quantizes the result.
    pub(crate) fn norm_and_quantize(&mut self, cx: &Compute, x: &[f32], norm: &Norm) {
        if self.activations == ActivationCodes::Int8 && self.rotation.is_none() {
            return self.batch.norm_and_quantize(cx.kernel, &cx.pool, x, norm.as_rms());
        }
        let Self { activations, batch, normed, errors, rotation, rotated } = self;
        let (normed, cols) = (&mut normed[..x.len()], norm.weight.len());
        norm_rows(cx, x, norm, normed);
        let errors = errors.get_mut(..x.len()).unwrap_or_default();
        let normed = rotate(cx, rotation.as_deref(), normed, cols, rotated);
        quantize(cx, *activations, normed, cols, batch, errors);
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

/// Returns the rows of `x`, transformed into `rotated` if there is a transform.
fn rotate<'a>(
    cx: &Compute,
    rotation: Option<&Rotation>,
    x: &'a [f32],
    cols: usize,
    rotated: &'a mut [f32],
) -> &'a [f32] {
    let Some(rotation) = rotation else { return x };
    let rotated = &mut rotated[..x.len()];
    rotation.apply(cx, x, cols, rotated);
    rotated
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
    pub(crate) scratch: ProductScratch,
    /// Columns of one token that are not skipped.
    non_zeros: NonZeros,
    columns: ColumnScratch,
}

impl Products {
    pub(crate) fn new(threads: usize) -> Self {
        let (non_zeros, columns) = (NonZeros::with_capacity(0), ColumnScratch::default());
        Self { scratch: ProductScratch::new(threads), non_zeros, columns }
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

    /// As [`multiply_each`](Self::multiply_each). One token reads only the columns it needs of `copies`, if there is one
    /// of each matrix.
    pub(crate) fn multiply_skipping<const N: usize>(
        &mut self,
        cx: &Compute,
        products: [(&TernaryMatrix, &mut [f32]); N],
        codes: &InputCodes,
        copies: &[TernaryColumns],
    ) {
        if !codes.skips(copies) {
            return self.multiply_each(cx, products, codes);
        }
        let mut copies = copies.iter();
        let products = products.map(|(_, y)| (copies.next().expect("a copy of each matrix"), y));
        self.non_zeros.find_token(cx.kernel, codes.batch.rows());
        let Self { non_zeros, columns, .. } = self;
        multiply_columns_each(cx.kernel, &cx.pool, products, non_zeros, columns);
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
        let out = (out, &mut self.scratch);
        multiply_gated(cx.kernel, &cx.pool, matrices, &codes.batch, out, activate);
    }

    /// `hidden += scale * norm(codes * matrix)`, where norm and scale are optional.
    pub(crate) fn multiply_norm_add(
        &mut self,
        cx: &Compute,
        matrix: &TernaryMatrix,
        norm: Option<&Norm>,
        (codes, copies): (&InputCodes, &[TernaryColumns]),
        out: Residual<'_>,
    ) {
        let Residual { delta, normed, hidden, scale } = out;
        if let (None, None, false) = (norm, scale, codes.skips(copies)) {
            let total = (hidden, &mut self.scratch);
            return multiply_add(cx.kernel, &cx.pool, matrix, &codes.batch, total);
        }
        self.multiply_skipping(cx, [(matrix, &mut *delta)], codes, copies);
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
        cx.kernel.rms_norm(&x[row * len..][..len], norm.as_rms(), normed);
    });
}

/// Buffers at the end of a block.
pub(crate) struct Residual<'a> {
    /// Receives the block's product, unless it is added as it is.
    pub(crate) delta: &'a mut [f32],
    /// Receives the normed product, if there is a norm.
    pub(crate) normed: &'a mut [f32],
    /// Hidden states that the result is added to.
    pub(crate) hidden: &'a mut [f32],
    /// Factor of the result.
    pub(crate) scale: Option<f32>,
}
