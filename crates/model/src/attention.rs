//! The attention half of a layer: queries, keys and values, rotary, pages, heads.

use wf_formats::{ModelConfig, RotaryPairs};
use wf_kernels::{RotaryTable, multiply_each};

use crate::attend::attend_all;
use crate::codes::{maybe_norm_and_quantize, multiply_norm_add, norm_and_quantize, norm_rows};
use crate::compute::Compute;
use crate::kv::KvPool;
use crate::parts::Part;
use crate::scratch::{Row, Scratch};
use crate::segment::Segment;
use crate::weights::Attention;

/// `hidden += output(sub_norm(heads))`, where each head of each row attends to the positions its
/// row sees, read back from the pages. Some families norm the input of each projection, the queries
/// and keys of each head, or what is added, too.
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

    let delta = &mut s.delta[..rows.len() * hidden_len];
    let products = [(&w.query, &mut *query), (&w.key, &mut *key), (&w.value, &mut *value)];
    match &w.extra.inputs {
        None => {
            norm_and_quantize(cx, hidden, (&w.norm, eps), normed, &mut s.attn_in);
            s.clock.lap(Part::Norms);
            multiply_each(cx.kernel, &cx.pool, products, &s.attn_in);
        }
        Some(norms) => {
            norm_rows(cx, hidden, (&w.norm, eps), normed);
            for ((matrix, y), norm) in products.into_iter().zip(norms) {
                norm_and_quantize(cx, normed, (norm, eps), delta, &mut s.attn_in);
                multiply_each(cx.kernel, &cx.pool, [(matrix, y)], &s.attn_in);
            }
        }
    }
    s.clock.lap(Part::QueryKeyValue);

    if let Some([of_queries, of_keys]) = &w.extra.heads {
        // The heads are not attended to yet: their room takes what is normed.
        norm_heads(cx, (of_queries, eps), query, &mut s.heads);
        norm_heads(cx, (of_keys, eps), key, &mut s.heads);
    }
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

    // The queries have been used: their room takes the normed heads.
    let sub_norm = (w.sub_norm.as_deref(), eps);
    maybe_norm_and_quantize(cx, heads, sub_norm, query, &mut s.attn_out, query_len);
    s.clock.lap(Part::Norms);
    let output = (&w.output, w.extra.output.as_deref());
    multiply_norm_add(cx, output, &s.attn_out, eps, (delta, normed, hidden));
    s.clock.lap(Part::Output);
}

/// Norms every head of `x`, by way of `room`.
fn norm_heads(cx: &Compute, (weight, eps): (&[f32], f32), x: &mut [f32], room: &mut [f32]) {
    let room = &mut room[..x.len()];
    norm_rows(cx, x, (weight, eps), room);
    x.copy_from_slice(room);
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
