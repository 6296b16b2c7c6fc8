//! Query heads over the K/V pages they share.
//!
//! Pages are walked in the order of positions, so where they lie in the pool cannot matter, and
//! each value is added whole before the next, so neither can the length of a page. All heads do one
//! page before any does the next, which finds it in the cache, or even in registers.

use crate::float::{add_products, dots_stored, softmax};
use crate::lanes::{AsBf16, AsF16, AsF32, F32x16, Simd, Stored};
use crate::{FloatRows, KvPages, Strip};

/// How many heads share one reading of a value, where there are registers for it.
const HEADS_AT_ONCE: usize = 4;

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
    assert!(
        q.len().is_multiple_of(kv.head_dim) && q.len() == out.len(),
        "q and out of whole heads"
    );
    if visible == 0 {
        return out.fill(0.0);
    }
    let scores = (&mut scores[..q.len() / kv.head_dim * visible], visible);
    match kv.data {
        FloatRows::F32(data) => attend_stored::<S, AsF32>(cpu, q, kv, data, scale, scores, out),
        FloatRows::Bf16(data) => attend_stored::<S, AsBf16>(cpu, q, kv, data, scale, scores, out),
        FloatRows::F16(data) => attend_stored::<S, AsF16>(cpu, q, kv, data, scale, scores, out),
    }
}

/// `scores` are those of all heads, and how many each has.
#[inline(always)]
fn attend_stored<S: Simd, F: Stored>(
    cpu: S,
    q: &[f32],
    kv: &KvPages<'_>,
    data: &[F::Bits],
    scale: f32,
    (scores, visible): (&mut [f32], usize),
    out: &mut [f32],
) {
    for page in 0..visible.div_ceil(kv.page_len) {
        let mut scores = Strip::new(scores, visible, kv.page_len, page);
        let keys = run(kv, data, page, kv.key_offset, scores.width());
        dots_stored::<S, F>(cpu, keys, q, &mut scores);
    }
    for scores in scores.chunks_exact_mut(visible) {
        for score in scores.iter_mut() {
            *score *= scale;
        }
        softmax(cpu, scores);
    }

    out.fill(0.0);
    for first in (0..visible).step_by(kv.page_len) {
        let positions = kv.page_len.min(visible - first);
        let values = run(kv, data, first / kv.page_len, kv.value_offset, positions);
        let weights = |head: usize| &scores[head * visible + first..][..positions];
        let mut head = 0;
        if S::MANY_REGISTERS {
            let groups = out.chunks_exact_mut(HEADS_AT_ONCE * kv.head_dim);
            for out in groups {
                let weights =
                    [weights(head), weights(head + 1), weights(head + 2), weights(head + 3)];
                add_weighted::<S, F, HEADS_AT_ONCE>(cpu, weights, values, out);
                head += HEADS_AT_ONCE;
            }
        }
        for out in out[head * kv.head_dim..].chunks_exact_mut(kv.head_dim) {
            add_weighted::<S, F, 1>(cpu, [weights(head)], values, out);
            head += 1;
        }
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

/// For each of `T` heads, whose outputs follow each other in `out`: `out += weights[0] * rows[0]`,
/// then `weights[1] * rows[1]`, and so on.
#[inline(always)]
fn add_weighted<S: Simd, F: Stored, const T: usize>(
    cpu: S,
    weights: [&[f32]; T],
    rows: &[F::Bits],
    out: &mut [f32],
) {
    // Blocks of columns small enough that their sums stay in registers down all the rows.
    const BLOCK: usize = 4;
    let row_len = out.len() / T;
    let whole = row_len / 16;
    let blocks = whole / BLOCK;
    for block in 0..blocks {
        add_to_columns::<S, F, BLOCK, T>(cpu, weights, rows, 16 * BLOCK * block, out);
    }
    for chunk in blocks * BLOCK..whole {
        add_to_columns::<S, F, 1, T>(cpu, weights, rows, 16 * chunk, out);
    }
    if !row_len.is_multiple_of(16) {
        for (weights, out) in weights.iter().zip(out.chunks_exact_mut(row_len)) {
            let tail = &mut out[16 * whole..];
            let mut sum = cpu.load_tail(tail, 0.0);
            for (weight, row) in weights.iter().zip(rows.chunks_exact(row_len)) {
                let values = F::load_tail(cpu, &row[16 * whole..]);
                sum = values.mul_add(cpu.splat(*weight), sum);
            }
            sum.store_tail(tail);
        }
    }
}

/// The same for `16 * N` columns, the first of which is `column`.
#[inline(always)]
fn add_to_columns<S: Simd, F: Stored, const N: usize, const T: usize>(
    cpu: S,
    weights: [&[f32]; T],
    rows: &[F::Bits],
    column: usize,
    out: &mut [f32],
) {
    let row_len = out.len() / T;
    let mut sums = [[cpu.splat(0.0); N]; T];
    for (sums, out) in sums.iter_mut().zip(out.chunks_exact(row_len)) {
        let chunks = out[column..][..16 * N].as_chunks::<16>().0;
        for (sum, chunk) in sums.iter_mut().zip(chunks) {
            *sum = cpu.load(chunk);
        }
    }
    for (i, row) in rows.chunks_exact(row_len).enumerate() {
        let chunks = row[column..][..16 * N].as_chunks::<16>().0;
        let mut values = [cpu.splat(0.0); N];
        for (values, chunk) in values.iter_mut().zip(chunks) {
            *values = F::load(cpu, chunk);
        }
        for (sums, weights) in sums.iter_mut().zip(&weights) {
            add_products(sums, values, cpu.splat(weights[i]));
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_exact_mut(row_len)) {
        for (sum, out) in sums.iter().zip(out[column..].as_chunks_mut::<16>().0) {
            sum.store(out);
        }
    }
}
