//! The attention block of a layer: projections, rotary embedding, KV cache, heads.

mod gates;
mod sinks;
mod write_kv;

use wf_core::Attention;
use wf_kernels::{TernaryColumns, Upcoming};

use crate::attend::{AttendStep, SinkQueries};
use crate::codes::{Residual, norm_rows};
use crate::compute::Compute;
use crate::kv::KvPool;
use crate::phases::Phase;
use crate::rotary::Embedding;
use crate::scratch::Scratch;
use crate::segment::Segment;
use crate::weights::{self, Norm};
use gates::{gate_heads, take_queries};

pub(crate) struct AttentionBlock<'a> {
    /// Index of the layer among those with attention, as in the KV cache.
    pub(crate) layer: usize,
    pub(crate) recipe: &'a Attention,
    pub(crate) weights: &'a weights::Attention,
    /// The recipe's rotary embedding.
    pub(crate) rotary: Option<&'a Embedding>,
    /// Copies of the projections by column.
    pub(crate) columns: [&'a [TernaryColumns]; 2],
    /// Matrices that are read after the block.
    pub(crate) next: Upcoming<'a>,
    /// Factor of what the block adds to the hidden states.
    pub(crate) residual_scale: Option<f32>,
}

impl AttentionBlock<'_> {
    /// Adds the block's output to the hidden states of the rows in `s`.
    ///
    /// Keys and values are read back from the pages, also those of the same step.
    pub(crate) fn run(
        &self,
        cx: &Compute,
        kv: &mut KvPool,
        batch: &[Segment<'_>],
        s: &mut Scratch,
    ) {
        let &Self { layer, recipe, weights: w, columns: [input_columns, output_columns], .. } =
            self;
        let rows = &s.rows[..];
        let (hidden_len, query_len, kv_len) =
            (w.norm.weight.len(), recipe.query_len(), recipe.kv_len());
        let hidden = &mut s.hidden[..rows.len() * hidden_len];
        let normed = &mut s.normed[..rows.len() * hidden_len];
        let delta = &mut s.delta[..rows.len() * hidden_len];
        let query = &mut s.query[..rows.len() * query_len];
        let key = &mut s.key[..rows.len() * kv_len];
        let value = &mut s.value[..rows.len() * kv_len];

        let gated_query = s.gated_query.get_mut(..rows.len() * recipe.query_rows());
        let gated_query = gated_query.filter(|_| recipe.gated).unwrap_or_default();
        let query_product = if recipe.gated { &mut *gated_query } else { &mut *query };
        let products = [(&w.query, query_product), (&w.key, &mut *key), (&w.value, &mut *value)];
        match &w.input_norms {
            None => {
                s.attn_in.norm_and_quantize(cx, hidden, &w.norm);
                s.clock.lap(Phase::Norms);
                if !s.attn_in.skips(output_columns) {
                    cx.pool.announce(Upcoming::InTurn([w.output.packed(), &[], &[]]));
                }
                s.products.multiply_skipping(cx, products, &s.attn_in, input_columns);
            }
            Some(norms) => {
                norm_rows(cx, hidden, &w.norm, normed);
                for ((matrix, y), norm) in products.into_iter().zip(norms) {
                    s.attn_in.norm_and_quantize(cx, normed, norm);
                    s.products.multiply_each(cx, [(matrix, y)], &s.attn_in);
                }
            }
        }
        s.clock.lap(Phase::QueryKeyValue);

        if recipe.gated {
            take_queries(cx, recipe, gated_query, query);
        }
        if let Some([of_queries, of_keys]) = &w.qk_norms {
            // The buffer of the heads is free until they are computed.
            norm_heads(cx, of_queries, query, &mut s.heads);
            norm_heads(cx, of_keys, key, &mut s.heads);
        }
        let window = s.window.filter(|_| !s.read_all_pages);
        if let Some(window) = window.filter(|_| s.sunk.iter().any(|&sunk| sunk > 0)) {
            let out = &mut s.sink_query[..rows.len() * query_len];
            self.rotate_to_sinks(cx, window, rows, (&s.sunk, &s.visible), (query, out));
        }
        cx.pool.row_pairs((query, query_len), (key, kv_len), |row, query, key| {
            for head in
                query.chunks_exact_mut(recipe.head_dim).chain(key.chunks_exact_mut(recipe.head_dim))
            {
                self.rotate(cx, (row, rows[row].position), head);
            }
        });
        let slot = |row: usize| (batch[rows[row].segment].pages, rows[row].position);
        kv.write(cx, layer, (key, value), slot);
        kv.summarize(cx, layer, batch.iter().flat_map(Segment::filled_pages).copied());
        s.clock.lap(Phase::Rotary);

        let heads = &mut s.heads[..rows.len() * query_len];
        let visible = &s.visible[..];
        let (sunk, sink_query) = (&s.sunk[..], &s.sink_query[..]);
        let sinks = window.map(|window| SinkQueries { window, sunk, query: sink_query });
        let step = AttendStep { cx, recipe, kv, layer, batch, rows, visible, query, sinks };
        match &mut s.select {
            Some(select) if !s.read_all_pages && select.is_sparse(&step) => {
                select.run(step, &mut s.attend.parts, heads);
            }
            _ => step.run(&mut s.attend, heads),
        }
        if recipe.gated {
            gate_heads(cx, recipe, gated_query, heads);
        }
        s.clock.lap(Phase::Attention);

        s.attn_out.maybe_norm_and_quantize(cx, heads, w.sub_norm.as_ref(), query_len);
        s.clock.lap(Phase::Norms);
        cx.pool.announce(self.next);
        let out = Residual { delta, normed, hidden, scale: self.residual_scale };
        let codes = (&s.attn_out, output_columns);
        s.products.multiply_norm_add(cx, &w.output, w.output_norm.as_ref(), codes, out);
        s.clock.lap(Phase::Output);
    }

    /// Rotates a query or key head of a row by a position.
    fn rotate(&self, cx: &Compute, (row, position): (usize, usize), head: &mut [f32]) {
        if let (Some(rope), Some(embedding)) = (self.recipe.rope, self.rotary) {
            let rotated = &mut head[..rope.dims.unwrap_or(self.recipe.head_dim)];
            let (cos, sin) = embedding.rotation(row, position);
            cx.kernel.rotate(rotated, cos, sin, rope.pairs);
        }
    }
}

/// Norms every head of `x` in place; `buffer` holds the result in between.
fn norm_heads(cx: &Compute, norm: &Norm, x: &mut [f32], buffer: &mut [f32]) {
    let buffer = &mut buffer[..x.len()];
    norm_rows(cx, x, norm, buffer);
    x.copy_from_slice(buffer);
}
