//! One query head over its K/V pages.
//!
//! Pages are walked in the order of positions, so where they lie in the pool cannot matter, and
//! each value is added whole before the next, so neither can the length of a page.

use crate::float::{dots_stored, softmax};
use crate::lanes::{AsBf16, AsF16, AsF32, F32x16, Simd, Stored};
use crate::{FloatRows, KvPages};

#[inline(always)]
pub(crate) fn attend<S: Simd>(
    cpu: S,
    q: &[f32],
    kv: &KvPages<'_>,
    visible: usize,
    scale: f32,
    scores: &mut [f32],
    out: &mut [f32],
) {
    assert!(q.len() == kv.head_dim && out.len() == kv.head_dim, "q and out of head_dim");
    let scores = &mut scores[..visible];
    match kv.data {
        FloatRows::F32(data) => attend_stored::<S, AsF32>(cpu, q, kv, data, scale, scores, out),
        FloatRows::Bf16(data) => attend_stored::<S, AsBf16>(cpu, q, kv, data, scale, scores, out),
        FloatRows::F16(data) => attend_stored::<S, AsF16>(cpu, q, kv, data, scale, scores, out),
    }
}

#[inline(always)]
fn attend_stored<S: Simd, F: Stored>(
    cpu: S,
    q: &[f32],
    kv: &KvPages<'_>,
    data: &[F::Bits],
    scale: f32,
    scores: &mut [f32],
    out: &mut [f32],
) {
    for (page, scores) in scores.chunks_mut(kv.page_len).enumerate() {
        let keys = run(kv, data, page, kv.key_offset, scores.len());
        dots_stored::<S, F>(cpu, keys, q, scores);
    }
    for score in scores.iter_mut() {
        *score *= scale;
    }
    softmax(cpu, scores);

    out.fill(0.0);
    for (page, weights) in scores.chunks(kv.page_len).enumerate() {
        let values = run(kv, data, page, kv.value_offset, weights.len());
        add_weighted::<S, F>(cpu, weights, values, out);
    }
}

/// The first `positions` keys or values of a page.
#[inline(always)]
fn run<'a, T>(
    kv: &KvPages<'_>,
    data: &'a [T],
    page: usize,
    offset: usize,
    positions: usize,
) -> &'a [T] {
    let start = kv.pages[page] as usize * kv.page_stride + offset;
    &data[start..][..positions * kv.head_dim]
}

/// `out += weights[0] * rows[0]`, then `weights[1] * rows[1]`, and so on.
#[inline(always)]
fn add_weighted<S: Simd, F: Stored>(cpu: S, weights: &[f32], rows: &[F::Bits], out: &mut [f32]) {
    // Blocks of columns small enough that their sums stay in registers down all the rows.
    const BLOCK: usize = 4;
    let row_len = out.len();
    let (blocks, rest) = out.as_chunks_mut::<{ 16 * BLOCK }>();
    for (i, block) in blocks.iter_mut().enumerate() {
        add_weighted_block::<S, F, BLOCK>(cpu, weights, rows, row_len, 16 * BLOCK * i, block);
    }
    let done = row_len - rest.len();
    let (chunks, tail) = rest.as_chunks_mut::<16>();
    for (i, chunk) in chunks.iter_mut().enumerate() {
        add_weighted_block::<S, F, 1>(cpu, weights, rows, row_len, done + 16 * i, chunk);
    }
    if !tail.is_empty() {
        let mut sum = cpu.load_tail(tail, 0.0);
        for (weight, row) in weights.iter().zip(rows.chunks_exact(row_len)) {
            let values = F::load_tail(cpu, &row[row_len - tail.len()..]);
            sum = values.mul_add(cpu.splat(*weight), sum);
        }
        sum.store_tail(tail);
    }
}

/// The same for `16 * N` columns, the first of which is `column`.
#[inline(always)]
fn add_weighted_block<S: Simd, F: Stored, const N: usize>(
    cpu: S,
    weights: &[f32],
    rows: &[F::Bits],
    row_len: usize,
    column: usize,
    out: &mut [f32],
) {
    let out = out.as_chunks_mut::<16>().0;
    let mut sums: [S::Lanes; N] = std::array::from_fn(|i| cpu.load(&out[i]));
    for (weight, row) in weights.iter().zip(rows.chunks_exact(row_len)) {
        let weight = cpu.splat(*weight);
        let chunks = row[column..][..16 * N].as_chunks::<16>().0;
        for (sum, chunk) in sums.iter_mut().zip(chunks) {
            *sum = F::load(cpu, chunk).mul_add(weight, *sum);
        }
    }
    for (sum, out) in sums.iter().zip(out) {
        sum.store(out);
    }
}
