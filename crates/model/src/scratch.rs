//! Buffers reused by every step, so that the forward pass does not allocate.

use wf_formats::ModelConfig;
use wf_kernels::QuantBatch;

use crate::attend::AttendRoom;
use crate::parts::Clock;
use crate::segment::{Segment, TokenId};

/// One token of a step: where it stands and what it sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) token: TokenId,
    pub(crate) segment: usize,
    pub(crate) position: usize,
    pub(crate) visible: usize,
}

/// Room for one step of at most `max_rows` tokens. Names are roles in the pass.
pub(crate) struct Scratch {
    pub(crate) rows: Vec<Row>,
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
    pub(crate) attn_in: QuantBatch,
    pub(crate) attn_out: QuantBatch,
    pub(crate) ffn_in: QuantBatch,
    pub(crate) ffn_mid: QuantBatch,
    pub(crate) attend: AttendRoom,
    pub(crate) clock: Clock,
}

impl Scratch {
    pub(crate) fn new(
        config: &ModelConfig,
        max_rows: usize,
        positions: usize,
        threads: usize,
    ) -> Self {
        let (hidden, ffn) = (config.hidden_len, config.ffn_len);
        let (query, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let floats = |cols: usize| vec![0.0; max_rows * cols];
        Self {
            rows: Vec::with_capacity(max_rows),
            hidden: floats(hidden),
            normed: floats(hidden),
            query: floats(query),
            key: floats(kv),
            value: floats(kv),
            heads: floats(query),
            gate: floats(ffn),
            up: floats(ffn),
            delta: floats(hidden),
            attn_in: QuantBatch::new(max_rows, hidden),
            attn_out: QuantBatch::new(max_rows, query),
            ffn_in: QuantBatch::new(max_rows, hidden),
            ffn_mid: QuantBatch::new(max_rows, ffn),
            attend: AttendRoom::new(config, max_rows, positions, threads),
            clock: Clock::default(),
        }
    }

    /// Lays the tokens of `batch` out as rows.
    pub(crate) fn place(&mut self, batch: &[Segment<'_>]) {
        self.rows.clear();
        for (segment, s) in batch.iter().enumerate() {
            for (at, &token) in s.tokens.iter().enumerate() {
                let position = s.start + at;
                let visible = s.sees.visible(position, s.end());
                self.rows.push(Row { token, segment, position, visible });
            }
        }
    }
}
