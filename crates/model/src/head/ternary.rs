//! An output head of trits, multiplied by the kernels of the projections.
//!
//! No copy of the table is made. A hidden state is quantized to sixteen bits, two rows of int8 codes whose
//! products are added, so the codes cost a logit about 2^-15 of its size, and a step of one token still reads
//! the table once. In a model without codes, the head has none either.

use wf_core::ActivationCodes;
use wf_kernels::{TernaryMatrix, multiply};

use crate::codes::InputCodes;
use crate::compute::Compute;

/// Maximum number of hidden states multiplied at once, which bounds the size of the buffers.
const STATES_AT_ONCE: usize = 16;

/// The buffers of a ternary output head.
pub(crate) struct TernaryHead {
    codes: InputCodes,
}

impl TernaryHead {
    /// Creates the head of a model with these `activations`.
    pub(crate) fn new(table: &TernaryMatrix, activations: ActivationCodes) -> Self {
        let activations = match activations {
            ActivationCodes::F32 => ActivationCodes::F32,
            _ => ActivationCodes::Int16,
        };
        Self { codes: InputCodes::new(activations, STATES_AT_ONCE, table.cols(), None) }
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
            self.codes.quantize(cx, hidden, cols);
            multiply(cx.kernel, &cx.pool, table, self.codes.batch(), out);
        }
    }
}
