//! An output head of trits, multiplied by the kernels of the projections.
//!
//! No copy of the table is made. A hidden state is quantized twice, as in the scan of a float table:
//! its int8 codes, and those of what they leave of it. The two products are added, so the codes cost a
//! logit about 2^-15 of its size, and a step of one token still reads the table once.

use wf_kernels::{QuantBatch, TernaryMatrix, multiply};

use crate::codes::add_pairs;
use crate::compute::Compute;

/// Maximum number of hidden states multiplied at once, which bounds the size of the buffers.
const STATES_AT_ONCE: usize = 16;

/// The buffers of a ternary output head.
pub(crate) struct TernaryHead {
    codes: QuantBatch,
    errors: Vec<f32>,
    /// Products of the codes of each state, and of those of the rest.
    products: Vec<f32>,
}

impl TernaryHead {
    pub(crate) fn new(table: &TernaryMatrix) -> Self {
        Self {
            codes: QuantBatch::new(2 * STATES_AT_ONCE, table.cols()),
            errors: vec![0.0; STATES_AT_ONCE * table.cols()],
            products: vec![0.0; 2 * STATES_AT_ONCE * table.rows()],
        }
    }

    /// Computes the logits of the rows of `hidden`.
    pub(crate) fn score(
        &mut self,
        cx: &Compute,
        table: &TernaryMatrix,
        hidden: &[f32],
        out: &mut [f32],
    ) {
        let (rows, cols) = (table.rows(), table.cols());
        let parts = hidden.chunks(STATES_AT_ONCE * cols).zip(out.chunks_mut(STATES_AT_ONCE * rows));
        for (hidden, out) in parts {
            let errors = &mut self.errors[..hidden.len()];
            self.codes.quantize_twice(cx.kernel, &cx.pool, hidden, errors, cols);
            let products = &mut self.products[..2 * out.len()];
            multiply(cx.kernel, &cx.pool, table, &self.codes, products);
            add_pairs(cx, products, rows, out);
        }
    }
}
