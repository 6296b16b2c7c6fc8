//! Buffers reused by every step, so that the forward pass does not allocate.

use crate::attend::AttendScratchPool;
use crate::codes::{InputCodes, Products};
use crate::phases::Clock;
use crate::router::Routes;
use crate::segment::{Row, Segment};
use wf_core::{Attention, Network};

/// Buffers for a step of up to `max_rows` tokens, named by their role in the pass.
pub(crate) struct Scratch {
    pub(crate) rows: Vec<Row>,
    /// Number of positions that each row sees, counted from 0.
    pub(crate) visible: Vec<usize>,
    pub(crate) hidden: Vec<f32>,
    pub(crate) normed: Vec<f32>,
    pub(crate) query: Vec<f32>,
    pub(crate) key: Vec<f32>,
    pub(crate) value: Vec<f32>,
    pub(crate) heads: Vec<f32>,
    pub(crate) gate: Vec<f32>,
    pub(crate) up: Vec<f32>,
    pub(crate) delta: Vec<f32>,
    /// Codes of the four inputs a layer multiplies, each kept until the next layer runs.
    pub(crate) attn_in: InputCodes,
    pub(crate) attn_out: InputCodes,
    pub(crate) ffn_in: InputCodes,
    pub(crate) ffn_mid: InputCodes,
    pub(crate) products: Products,
    /// Codes of the rows of one expert; empty without experts.
    pub(crate) expert_in: InputCodes,
    pub(crate) routes: Routes,
    pub(crate) attend: AttendScratchPool,
    pub(crate) clock: Clock,
}

impl Scratch {
    pub(crate) fn new(
        network: &Network,
        max_rows: usize,
        positions: usize,
        threads: usize,
    ) -> Self {
        let (hidden, ffn) = (network.hidden_len, network.max_ffn_len());
        let query = network.max_attention(Attention::query_len);
        let kv = network.max_attention(Attention::kv_len);
        let has_experts = network.max_experts(|experts| experts.experts) > 0;
        let expert_rows = if has_experts { max_rows } else { 0 };
        let floats = |cols: usize| vec![0.0; max_rows * cols];
        let codes = |cols: usize| InputCodes::new(network.activations, max_rows, cols);
        let outputs = hidden.max(ffn).max(query).max(kv);
        Self {
            rows: Vec::with_capacity(max_rows),
            visible: Vec::with_capacity(max_rows),
            hidden: floats(hidden),
            normed: floats(hidden),
            query: floats(query),
            key: floats(kv),
            value: floats(kv),
            heads: floats(query),
            gate: floats(ffn),
            up: floats(ffn),
            delta: floats(hidden),
            attn_in: codes(hidden),
            attn_out: codes(query),
            ffn_in: codes(hidden),
            ffn_mid: codes(ffn),
            products: Products::new(network.activations, max_rows, outputs, threads),
            expert_in: InputCodes::new(network.activations, expert_rows, hidden),
            routes: Routes::new(network, max_rows),
            attend: AttendScratchPool::new(network, max_rows, positions, threads),
            clock: Clock::default(),
        }
    }

    /// Lays the tokens of `batch` out as rows.
    pub(crate) fn place(&mut self, batch: &[Segment<'_>]) {
        self.rows.clear();
        self.visible.clear();
        for (segment, s) in batch.iter().enumerate() {
            for (at, &token) in s.tokens.iter().enumerate() {
                let position = s.start + at;
                self.rows.push(Row { token, segment, position });
                self.visible.push(s.visibility.visible(position, s.end()));
            }
        }
    }
}
