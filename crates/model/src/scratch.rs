//! Buffers reused by every step, so that the forward pass does not allocate.

use crate::attend::AttendScratchPool;
use crate::codes::{InputCodes, Products};
use crate::delta_scratch::DeltaScratch;
use crate::hadamard::Rotation;
use crate::phases::Clock;
use crate::router::{Routes, expert_places};
use crate::segment::{Row, Segment};
use crate::select::Selector;
use wf_core::{Attention, AttentionMode, DeltaNet, Network, Window};
use wf_kernels::CHUNK;

/// Buffers for a step of up to `max_rows` tokens, named by their role in the pass.
pub(crate) struct Scratch {
    pub(crate) rows: Vec<Row>,
    /// Number of positions that each row sees, counted from 0.
    pub(crate) visible: Vec<usize>,
    pub(crate) hidden: Vec<f32>,
    pub(crate) normed: Vec<f32>,
    pub(crate) query: Vec<f32>,
    /// Positions that a sliding window reads.
    pub(crate) window: Option<Window>,
    /// Number of first positions that each row sees apart from its window; empty without a window.
    pub(crate) sunk: Vec<usize>,
    /// Queries for these positions, rotated to where the row is among those it sees; empty without a window.
    pub(crate) sink_query: Vec<f32>,
    pub(crate) key: Vec<f32>,
    pub(crate) value: Vec<f32>,
    pub(crate) heads: Vec<f32>,
    /// Queries and gates of gated attention, head by head; empty without gates.
    pub(crate) gated_query: Vec<f32>,
    /// Buffers of recurrent mixers; empty without any.
    pub(crate) delta_net: DeltaScratch,
    pub(crate) gate: Vec<f32>,
    pub(crate) up: Vec<f32>,
    pub(crate) delta: Vec<f32>,
    /// Codes of the four inputs a layer multiplies, each kept until the next layer runs.
    pub(crate) attn_in: InputCodes,
    pub(crate) attn_out: InputCodes,
    pub(crate) ffn_in: InputCodes,
    pub(crate) ffn_mid: InputCodes,
    pub(crate) products: Products,
    /// Codes of the rows of some experts; empty without experts.
    pub(crate) expert_in: InputCodes,
    pub(crate) routes: Routes,
    pub(crate) attend: AttendScratchPool,
    /// For modes of attention that select pages.
    pub(crate) select: Option<Selector>,
    /// True if the mode of attention is suspended.
    pub(crate) read_all_pages: bool,
    pub(crate) clock: Clock,
}

impl Scratch {
    pub(crate) fn new(
        network: &Network,
        max_rows: usize,
        positions: usize,
        threads: usize,
        mode: AttentionMode,
    ) -> Self {
        let (hidden, ffn) = (network.hidden_len, network.max_ffn_len());
        let query = network.max_attention(Attention::query_len);
        let kv = network.max_attention(Attention::kv_len);
        let has_experts = network.max_experts(|experts| experts.experts) > 0;
        let places = if has_experts { expert_places(max_rows) } else { 0 };
        let ffn_rows = max_rows.max(places);
        let floats = |cols: usize| vec![0.0; max_rows * cols];
        let ffn_floats = |cols: usize| vec![0.0; ffn_rows * cols];
        let rotation = Rotation::of(network);
        let codes_of =
            |rows, cols: usize| InputCodes::new(network.activations, rows, cols, rotation.clone());
        let codes = |cols: usize| codes_of(max_rows, cols);
        Self {
            rows: Vec::with_capacity(max_rows),
            visible: Vec::with_capacity(max_rows),
            hidden: floats(hidden),
            normed: floats(hidden),
            query: floats(query),
            window: mode.window(),
            sunk: Vec::with_capacity(if mode.window().is_some() { max_rows } else { 0 }),
            sink_query: floats(if mode.window().is_some() { query } else { 0 }),
            key: floats(kv),
            value: floats(kv),
            heads: floats(query),
            gated_query: floats(
                network.max_attention(|a| if a.gated { a.query_rows() } else { 0 }),
            ),
            delta_net: DeltaScratch::new(network, max_rows),
            gate: ffn_floats(ffn),
            up: floats(ffn),
            delta: ffn_floats(hidden),
            attn_in: codes(hidden),
            attn_out: codes(query.max(network.max_delta_net(DeltaNet::value_len))),
            ffn_in: codes(hidden),
            ffn_mid: codes_of(ffn_rows, ffn),
            products: Products::new(threads),
            expert_in: codes_of(places, hidden),
            routes: Routes::new(network, max_rows),
            attend: AttendScratchPool::new(network, max_rows, chunks(positions, mode), threads),
            select: Selector::new(network, mode, max_rows, positions, threads),
            read_all_pages: false,
            clock: Clock::default(),
        }
    }

    /// Lays the tokens of `batch` out as rows.
    pub(crate) fn place(&mut self, batch: &[Segment<'_>]) {
        self.rows.clear();
        self.visible.clear();
        self.sunk.clear();
        self.delta_net.place(batch);
        for (segment, s) in batch.iter().enumerate() {
            for (at, &token) in s.tokens.iter().enumerate() {
                let position = s.start + at;
                self.rows.push(Row { token, segment, position });
                let visible = s.visibility.visible(position, s.end());
                self.visible.push(visible);
                if let Some(window) = self.window {
                    let slides = visible > window.positions();
                    self.sunk.push(if slides { window.sinks } else { 0 });
                }
            }
        }
    }
}

/// Returns the largest number of chunks that a row of a step reads, for sequences of up to `positions` tokens or
/// of any length with a window.
fn chunks(positions: usize, mode: AttentionMode) -> usize {
    let all = positions.div_ceil(CHUNK);
    // A window begins and ends within a chunk, and its sinks come in chunks of their own.
    let of_window = |window: Window| window.len / CHUNK + 2 + window.sinks.div_ceil(CHUNK);
    mode.window().map_or(all, |window| of_window(window).max(all))
}
