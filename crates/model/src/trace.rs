//! Runs one layer on its own and records its inner values, for comparison with a reference.

use wf_kernels::{QuantBatch, multiply};

use crate::codes::norm_rows;
use crate::compute::Compute;
use crate::model::Model;
use crate::segment::Segment;
use crate::weights::Norm;

/// Inner values of one layer. Rows are the tokens of the batch, one after another.
#[derive(Debug)]
pub struct LayerTrace {
    /// Normed input of the query, key and value projections.
    pub attn_in: Quantized,
    /// Keys, after rotation.
    pub keys: Vec<f32>,
    /// Values.
    pub values: Vec<f32>,
    /// Concatenated heads, before the sub-norm.
    pub heads: Vec<f32>,
    /// Input of the output projection: the heads, after the sub-norm if there is one.
    pub attn_out: Quantized,
    /// Product of the output projection.
    pub attn_delta: Vec<f32>,
    /// Normed input of the gate and up projections.
    pub ffn_in: Quantized,
    /// Input of the down projection: all gated neurons, after the sub-norm if there is one. Those that were dropped are
    /// zero.
    pub ffn_mid: Quantized,
    /// Output of the layer.
    pub output: Vec<f32>,
}

/// Input of a ternary product: the values and their codes.
#[derive(Debug)]
pub struct Quantized {
    /// Values, row by row.
    pub values: Vec<f32>,
    /// Codes, row by row; with sixteen bits, two rows for each row of values. None in a model without codes.
    pub codes: Vec<i8>,
}

impl Quantized {
    /// `values` is what `batch` was quantized from, if there is no norm before it.
    fn new(cx: &Compute, values: &[f32], norm: Option<&Norm>, batch: &QuantBatch) -> Self {
        let codes = batch.rows().iter().flat_map(|row| &row.codes()[..batch.cols()]);
        let mut values = values.to_vec();
        if let Some(norm) = norm {
            norm_rows(cx, &values.clone(), norm, &mut values);
        }
        Self { codes: codes.copied().collect(), values }
    }

    /// Returns rows of `cols` columns that have the columns of these at the indices `kept`, and zeros elsewhere.
    fn spread(self, kept: &[usize], cols: usize) -> Self {
        fn spread<T: Copy + Default>(values: &[T], kept: &[usize], cols: usize) -> Vec<T> {
            let mut rows = vec![T::default(); values.len() / kept.len() * cols];
            for (values, row) in values.chunks(kept.len()).zip(rows.chunks_mut(cols)) {
                values.iter().zip(kept).for_each(|(value, col)| row[*col] = *value);
            }
            rows
        }
        Self { values: spread(&self.values, kept, cols), codes: spread(&self.codes, kept, cols) }
    }
}

impl Model {
    /// Runs the layer with index `layer` on `hidden`, one row per token of `batch`.
    ///
    /// Keys and values of the rows are written to the pages, as in a forward pass.
    ///
    /// # Panics
    ///
    /// If the layer routes to experts, each of which has inner values of its own, or has no attention.
    pub fn trace_layer(
        &mut self,
        layer: usize,
        batch: &[Segment<'_>],
        hidden: &[f32],
    ) -> LayerTrace {
        self.scratch.place(batch);
        self.rotary.place(&self.scratch.rows);
        self.scratch.hidden[..hidden.len()].copy_from_slice(hidden);
        let rows = self.scratch.rows.len();
        let recipe = self.network.layers[layer];
        let attention = recipe.attention().expect("a layer with attention");
        let (query_len, kv_len) = (rows * attention.query_len(), rows * attention.kv_len());
        let hidden_len = hidden.len();

        self.run_mixer(layer, batch);
        let (s, cx) = (&self.scratch, &self.compute);
        let w = self.weights.layers[layer].mixer.attention().expect("a layer with attention");
        let attn_in = Quantized::new(cx, hidden, Some(&w.norm), s.attn_in.batch());
        let heads = s.heads[..query_len].to_vec();
        let attn_out = Quantized::new(cx, &heads, w.sub_norm.as_ref(), s.attn_out.batch());
        let mut attn_delta = vec![0.0; hidden_len];
        multiply(cx.kernel, &cx.pool, &w.output, s.attn_out.batch(), &mut attn_delta);
        let ffn_hidden = s.hidden[..hidden_len].to_vec();

        self.run_ffn(layer);
        let (s, cx) = (&self.scratch, &self.compute);
        let w = self.weights.layers[layer].ffn.dense().expect("a dense block");
        let neurons = &s.gate[..rows * w.down.cols()];
        let ffn_mid = Quantized::new(cx, neurons, w.sub_norm.as_ref(), s.ffn_mid.batch());
        LayerTrace {
            attn_in,
            keys: s.key[..kv_len].to_vec(),
            values: s.value[..kv_len].to_vec(),
            heads,
            attn_out,
            attn_delta,
            ffn_in: Quantized::new(cx, &ffn_hidden, Some(&w.norm), s.ffn_in.batch()),
            ffn_mid: match (&w.kept, recipe.ffn.dense()) {
                (Some(kept), Some(dense)) => ffn_mid.spread(kept, dense.ffn_len),
                _ => ffn_mid,
            },
            output: s.hidden[..hidden_len].to_vec(),
        }
    }
}
