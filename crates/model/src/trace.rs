//! One layer on its own, with its insides visible: how tests compare us with a reference.

use wf_kernels::QuantBatch;

use crate::forward::Model;
use crate::segment::Segment;

/// What one layer computed. Rows are the batch's tokens, one after another.
#[derive(Debug)]
pub struct LayerTrace {
    /// The normed input, which makes queries, keys and values.
    pub attn_in: Quantized,
    /// The keys, after rotary.
    pub keys: Vec<f32>,
    /// The values.
    pub values: Vec<f32>,
    /// The concatenated heads, before the sub-norm.
    pub heads: Vec<f32>,
    /// The heads as multiplied: after the sub-norm, where there is one.
    pub attn_out: Quantized,
    /// What the attention half adds to the hidden state.
    pub attn_delta: Vec<f32>,
    /// The normed hidden state, which makes gate and up.
    pub ffn_in: Quantized,
    /// The gated neurons as multiplied: after the sub-norm, where there is one.
    pub ffn_mid: Quantized,
    /// The layer's output.
    pub output: Vec<f32>,
}

/// The input of a ternary product: the values, and the int8 codes they became.
#[derive(Debug)]
pub struct Quantized {
    /// The values, row by row.
    pub values: Vec<f32>,
    /// The codes, row by row.
    pub codes: Vec<i8>,
}

impl Quantized {
    fn new(values: &[f32], batch: &QuantBatch) -> Self {
        let codes = batch.rows().iter().flat_map(|row| &row.codes()[..batch.cols()]);
        Self { codes: codes.copied().collect(), values: values.to_vec() }
    }
}

impl Model {
    /// Runs `layer` on `hidden`, the input rows of the tokens of `batch`, and shows what happened.
    /// K/V of the rows is written to the pages, as in a forward pass.
    pub fn trace_layer(
        &mut self,
        layer: usize,
        batch: &[Segment<'_>],
        hidden: &[f32],
    ) -> LayerTrace {
        self.scratch.place(batch);
        self.scratch.hidden[..hidden.len()].copy_from_slice(hidden);
        let rows = self.scratch.rows.len();
        let config = &self.config;
        let (hidden_len, query_len) =
            (rows * config.hidden_len, rows * config.heads * config.head_dim);
        let kv_len = rows * config.kv_heads * config.head_dim;
        let ffn_len = rows * config.ffn_len;
        let sub_norms = config.sub_norms;

        self.run_attention(layer, batch);
        let s = &self.scratch;
        let attn_in = Quantized::new(&s.normed[..hidden_len], &s.attn_in);
        // With a sub-norm the normed heads and neurons lie where queries and up were.
        let multiplied = if sub_norms { &s.query } else { &s.heads };
        let attn_out = Quantized::new(&multiplied[..query_len], &s.attn_out);
        let attn_delta = s.delta[..hidden_len].to_vec();

        self.run_mlp(layer);
        let s = &self.scratch;
        let multiplied = if sub_norms { &s.up } else { &s.gate };
        LayerTrace {
            attn_in,
            keys: s.key[..kv_len].to_vec(),
            values: s.value[..kv_len].to_vec(),
            heads: s.heads[..query_len].to_vec(),
            attn_out,
            attn_delta,
            ffn_in: Quantized::new(&s.normed[..hidden_len], &s.ffn_in),
            ffn_mid: Quantized::new(&multiplied[..ffn_len], &s.ffn_mid),
            output: s.hidden[..hidden_len].to_vec(),
        }
    }
}
