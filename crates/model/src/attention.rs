//! The attention half of a layer: queries, keys and values, rotary, pages, heads.

use wf_formats::{ModelConfig, RotaryPairs};
use wf_kernels::RotaryTable;

use crate::attend::attend_all;
use crate::compute::Compute;
use crate::kv::KvPool;
use crate::linear::{add, multiply, norm, quantize};
use crate::parts::Part;
use crate::scratch::{Row, Scratch};
use crate::segment::Segment;
use crate::weights::Attention;

/// `hidden += output(sub_norm(heads))`, where each head of each row attends to the positions its
/// row sees, read back from the pages.
pub(crate) fn attention(
    cx: &Compute,
    config: &ModelConfig,
    w: &Attention,
    rotary: &RotaryTable,
    (kv, layer): (&mut KvPool, usize),
    batch: &[Segment<'_>],
    s: &mut Scratch,
) {
    let rows = &s.rows[..];
    let (hidden_len, eps) = (config.hidden_len, config.norm_eps);
    let (query_len, kv_len) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let hidden = &mut s.hidden[..rows.len() * hidden_len];
    let normed = &mut s.normed[..rows.len() * hidden_len];
    let query = &mut s.query[..rows.len() * query_len];
    let key = &mut s.key[..rows.len() * kv_len];
    let value = &mut s.value[..rows.len() * kv_len];

    norm(cx, hidden, &w.norm, eps, normed);
    quantize(cx, normed, hidden_len, &mut s.attn_in);
    s.clock.lap(Part::Norms);
    multiply(cx, &w.query, &s.attn_in, query);
    multiply(cx, &w.key, &s.attn_in, key);
    multiply(cx, &w.value, &s.attn_in, value);
    s.clock.lap(Part::QueryKeyValue);

    rotate(cx, config, rotary, rows, query);
    rotate(cx, config, rotary, rows, key);
    for (at, row) in rows.iter().enumerate() {
        let pages = batch[row.segment].pages;
        let (key, value) = (&key[at * kv_len..][..kv_len], &value[at * kv_len..][..kv_len]);
        kv.write(cx, (layer, pages, row.position), key, value);
    }
    s.clock.lap(Part::Rotary);

    let heads = &mut s.heads[..rows.len() * query_len];
    attend_all(cx, config, (kv, layer), batch, rows, query, (heads, &mut s.attend));
    s.clock.lap(Part::Attention);

    let mut concatenated = &*heads;
    if let Some(weight) = &w.sub_norm {
        // The queries have been used: their room takes the normed heads.
        norm(cx, heads, weight, eps, query);
        concatenated = query;
    }
    quantize(cx, concatenated, query_len, &mut s.attn_out);
    s.clock.lap(Part::Norms);
    let delta = &mut s.delta[..rows.len() * hidden_len];
    multiply(cx, &w.output, &s.attn_out, delta);
    s.clock.lap(Part::Output);
    add(cx, hidden, delta, hidden_len);
}

/// Turns every head of every row by the row's position.
fn rotate(cx: &Compute, config: &ModelConfig, table: &RotaryTable, rows: &[Row], x: &mut [f32]) {
    let pairs = match config.rotary_pairs {
        RotaryPairs::Halves => wf_kernels::RotaryPairs::Halves,
        RotaryPairs::Adjacent => wf_kernels::RotaryPairs::Adjacent,
    };
    cx.pool.rows(x, x.len() / rows.len(), |row, x| {
        let position = rows[row].position;
        let (cos, sin) = (table.cos(position), table.sin(position));
        for head in x.chunks_exact_mut(config.head_dim) {
            cx.kernel.rotate(head, cos, sin, pairs);
        }
    });
}
