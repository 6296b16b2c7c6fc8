//! Buffers of the multi-token prediction head, and the input that they hold.

use wf_core::Network;

use crate::compute::Compute;
use crate::head::TernaryHead;
use crate::sparse::SparseLayer;
use crate::table::Table;
use crate::weights::Mtp;

/// Buffers of the head.
pub(crate) struct MtpScratch {
    /// Normed embeddings and states of the rows of a step, side by side.
    input: Vec<f32>,
    /// Hidden states of the head, while those of the forward pass are kept.
    pub(super) hidden: Vec<f32>,
    /// Buffers of an input projection of trits.
    codes: Option<TernaryHead>,
    pub(super) sparse: SparseLayer,
}

impl MtpScratch {
    pub(crate) fn new(network: &Network, weights: &Mtp, max_rows: usize) -> Self {
        Self {
            input: vec![0.0; max_rows * 2 * network.hidden_len],
            hidden: vec![0.0; max_rows * network.hidden_len],
            codes: match &weights.input {
                Table::Float(_) => None,
                Table::Ternary(matrix) => Some(TernaryHead::new(matrix, network.activations)),
            },
            sparse: SparseLayer::default(),
        }
    }

    /// Sets `out` to the product of the input projection and the rows of `input`.
    pub(super) fn project(&mut self, cx: &Compute, table: &Table, rows: usize, out: &mut [f32]) {
        let input = &self.input[..rows * table.cols()];
        match (table, &mut self.codes) {
            (Table::Float(table), _) => table.scores(cx, input, out),
            (Table::Ternary(matrix), Some(codes)) => codes.score(cx, matrix, input, out),
            (Table::Ternary(_), None) => unreachable!("a projection of trits has buffers"),
        }
    }

    /// Sets the half of a row's input that is the state before it; a first token has none.
    pub(super) fn set_state(
        &mut self,
        cx: &Compute,
        weights: &Mtp,
        row: usize,
        before: Option<&[f32]>,
    ) {
        let norm = &weights.hidden_norm;
        let len = norm.weight.len();
        let half = &mut self.input[(2 * row + 1) * len..][..len];
        match before {
            Some(before) => cx.kernel.rms_norm(before, norm.as_rms(), half),
            None => half.fill(0.0),
        }
    }

    /// Sets the other halves, the embeddings of the rows in `hidden`.
    pub(super) fn set_embeddings(&mut self, cx: &Compute, weights: &Mtp, hidden: &[f32]) {
        let norm = &weights.embedding_norm;
        let len = norm.weight.len();
        let inputs = &mut self.input[..2 * hidden.len()];
        cx.pool.rows(inputs, 2 * len, |row, input| {
            let embedding = &hidden[row * len..][..len];
            cx.kernel.rms_norm(embedding, norm.as_rms(), &mut input[..len]);
        });
    }
}
