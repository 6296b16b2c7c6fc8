//! Attention over chunks of bf16 keys and values, whose queries and weights are rounded to bf16 as well.
//!
//! The order of sums is that of AMX tiles: of each [`BLOCK`] of products, the even ones and the odd ones
//! are summed up apart from zero on, with fused multiply-add, and the sum of both is added to that of the
//! blocks before. A block of a score is 32 elements of the key; a block of a weighted value is a page.

use super::{AttendScratch, CHUNK, Job, exponentials, part_len};
use crate::ahead::LinesAhead;
use crate::arch::numbers;
use crate::half::bf16_to_f32;
use crate::kv::{BLOCK, PAGE_LEN, TILE, bf16_operand};
use crate::lanes::{F32x16, Simd};

const _: () = assert!(PAGE_LEN == BLOCK, "a page is a block of values");

/// Query heads that share one load of keys or values.
const QUERIES_AT_ONCE: usize = 4;

/// Tiles of keys, or of columns of values, that share one load of queries or weights on CPUs with many
/// registers.
const TILES_AT_ONCE: usize = 2;

/// Sixteen pairs: two elements of the keys of sixteen positions, or of two values sixteen elements.
type Pairs = [[u16; 2]; TILE];

/// Rounds a query, and pads it with zeros.
#[inline(always)]
fn round(query: &[f32], out: &mut [f32]) {
    let (rounded, padding) = out.split_at_mut(query.len());
    for (rounded, x) in rounded.iter_mut().zip(query) {
        *rounded = bf16_to_f32(bf16_operand(*x));
    }
    padding.fill(0.0);
}

/// The two products of attention over the visible pages of a chunk. `bits` is a buffer of at least as
/// many elements as the queries or the weights have.
pub(crate) trait Products {
    /// Computes the dot products of every query head with the keys, [`CHUNK`] floats apart.
    fn scores(&self, job: &Job<'_>, queries: &[f32], bits: &mut [u16], scores: &mut [f32]);

    /// Computes the weighted values of every query head, in its part, which is zero so far.
    fn weigh(&self, job: &Job<'_>, weights: &[f32], bits: &mut [u16], parts: &mut [f32]);
}

#[inline(always)]
pub(crate) fn attend<S: Simd>(
    cpu: S,
    products: &impl Products,
    job: &Job<'_>,
    scratch: &mut AttendScratch,
    parts: &mut [f32],
) {
    let AttendScratch { scores, rounded, bits, .. } = scratch;
    let scores = &mut scores[..job.q.len() * CHUNK];
    let queries = &mut rounded[..job.q.len() * job.kv.key_len()];
    for (query, rounded) in queries.chunks_exact_mut(job.kv.key_len()).enumerate() {
        round(job.q.head(query, job.kv.head_dim()), rounded);
    }
    products.scores(job, queries, bits, scores);
    weights_of_scores(cpu, job, scores, parts);
    products.weigh(job, scores, bits, parts);
}

/// The products in lanes of any instruction set.
pub(super) struct InLanes<S>(pub(super) S);

impl<S: Simd> Products for InLanes<S> {
    #[inline(always)]
    fn scores(&self, job: &Job<'_>, queries: &[f32], _: &mut [u16], scores: &mut [f32]) {
        for page in job.seen_pages() {
            scores_of_page(self.0, job, page, queries, scores);
        }
    }

    #[inline(always)]
    fn weigh(&self, job: &Job<'_>, weights: &[f32], _: &mut [u16], parts: &mut [f32]) {
        for page in job.seen_pages() {
            weigh_page(self.0, job, page, weights, parts);
        }
    }
}

/// Turns the dot products of every query head and the keys of all visible pages into rounded weights, zero
/// for positions that the head does not see, and stores the largest score and the sum in its part.
#[inline(always)]
fn weights_of_scores<S: Simd>(cpu: S, job: &Job<'_>, scores: &mut [f32], parts: &mut [f32]) {
    let part_len = part_len(job.kv.head_dim());
    let pages = job.seen_pages();
    let padded = pages.start * PAGE_LEN..pages.end * PAGE_LEN;
    for (query, scores) in scores.chunks_exact_mut(CHUNK).enumerate() {
        let seen = job.seen_by(query);
        let part = &mut parts[query * part_len..][..part_len];
        if seen.is_empty() {
            scores[padded.clone()].fill(0.0);
            continue;
        }
        let tiles = scores[padded.clone()].as_chunks_mut::<TILE>().0;
        for tile in tiles {
            cpu.load(tile).mul(cpu.splat(job.q.scale)).store(tile);
        }
        let (largest, sum) = exponentials(cpu, scores, &seen);
        part[part_len - 2..].copy_from_slice(&[largest, sum]);
        scores[seen.end..padded.end].fill(0.0);
        for weight in &mut scores[padded.start..seen.end] {
            *weight = bf16_to_f32(bf16_operand(*weight));
        }
    }
}

/// Computes the dot products of every query head with the keys of a page.
#[inline(always)]
fn scores_of_page<S: Simd>(
    cpu: S,
    job: &Job<'_>,
    page: usize,
    queries: &[f32],
    scores: &mut [f32],
) {
    let (mut query, last) = (0, job.q.len());
    if S::MANY_REGISTERS {
        while query + QUERIES_AT_ONCE <= last {
            scores_of_queries::<S, QUERIES_AT_ONCE, TILES_AT_ONCE>(
                cpu,
                job,
                page,
                (queries, query),
                scores,
            );
            query += QUERIES_AT_ONCE;
        }
    }
    while query + 2 <= last {
        scores_of_queries::<S, 2, 1>(cpu, job, page, (queries, query), scores);
        query += 2;
    }
    while query < last {
        scores_of_queries::<S, 1, TILES_AT_ONCE>(cpu, job, page, (queries, query), scores);
        query += 1;
    }
}

/// Computes the dot products of `N` query heads from `first` on, `T` tiles of a page at a time.
#[inline(always)]
fn scores_of_queries<S: Simd, const N: usize, const T: usize>(
    cpu: S,
    job: &Job<'_>,
    page: usize,
    (queries, first): (&[f32], usize),
    scores: &mut [f32],
) {
    let key_len = job.kv.key_len();
    let keys: &[Pairs] = pairs(numbers(job.kv.keys(job.first_page + page)));
    let blocks = key_len / BLOCK;
    let queries = queries.as_chunks::<BLOCK>().0;
    let keys = keys.as_chunks::<{ BLOCK / 2 }>().0;
    let mut ahead = job.ahead_of_keys(page, first);
    for first_tile in (0..PAGE_LEN / TILE).step_by(T) {
        let mut totals = [[cpu.splat(0.0); T]; N];
        for block in 0..blocks {
            let mut q = [&queries[0]; N];
            for (n, q) in q.iter_mut().enumerate() {
                *q = &queries[(first + n) * blocks + block];
            }
            let mut tiles = [&keys[0]; T];
            for (t, tile) in tiles.iter_mut().enumerate() {
                *tile = &keys[(first_tile + t) * blocks + block];
            }
            let mut sums = [[[cpu.splat(0.0); 2]; T]; N];
            for pair in 0..BLOCK / 2 {
                let mut keys = [[cpu.splat(0.0); 2]; T];
                for (keys, tile) in keys.iter_mut().zip(tiles) {
                    ahead.fetch::<Pairs>(pair);
                    *keys = cpu.load_bf16_pairs(&tile[pair]);
                }
                for (sums, q) in sums.iter_mut().zip(q) {
                    add_pairs(cpu, sums, &keys, [q[2 * pair], q[2 * pair + 1]]);
                }
            }
            for (totals, sums) in totals.iter_mut().zip(sums) {
                for (total, [even, odd]) in totals.iter_mut().zip(sums) {
                    *total = total.add(even.add(odd));
                }
            }
        }
        for (n, totals) in totals.iter().enumerate() {
            for (t, total) in totals.iter().enumerate() {
                let start = page * PAGE_LEN + (first_tile + t) * TILE;
                let out = &mut scores[(first + n) * CHUNK + start..];
                total.store(&mut out.as_chunks_mut::<TILE>().0[0]);
            }
        }
    }
}

/// Adds the weighted values of a page to the part of each query head.
#[inline(always)]
fn weigh_page<S: Simd>(cpu: S, job: &Job<'_>, page: usize, weights: &[f32], parts: &mut [f32]) {
    let part_len = part_len(job.kv.head_dim());
    let (mut query, last) = (0, job.q.len());
    while query + QUERIES_AT_ONCE <= last {
        let parts = &mut parts[query * part_len..][..QUERIES_AT_ONCE * part_len];
        weigh_queries::<S, QUERIES_AT_ONCE>(cpu, job, page, (weights, query), parts);
        query += QUERIES_AT_ONCE;
    }
    while query < last {
        let part = &mut parts[query * part_len..][..part_len];
        weigh_queries::<S, 1>(cpu, job, page, (weights, query), part);
        query += 1;
    }
}

/// Adds the weighted values of a page to the parts of the `N` query heads from `first` on.
#[inline(always)]
fn weigh_queries<S: Simd, const N: usize>(
    cpu: S,
    job: &Job<'_>,
    page: usize,
    (weights, first): (&[f32], usize),
    parts: &mut [f32],
) {
    let columns = job.kv.row_len() / TILE;
    let values = pairs(job.kv.values(job.first_page + page));
    let values = (values, columns, job.ahead_of_values(page, first));
    let weights = weights.as_chunks::<PAGE_LEN>().0;
    let mut ours = [&weights[0]; N];
    for (n, ours) in ours.iter_mut().enumerate() {
        *ours = &weights[(first + n) * (CHUNK / PAGE_LEN) + page];
    }
    let blocks = if S::MANY_REGISTERS { columns / TILES_AT_ONCE } else { 0 };
    for block in 0..blocks {
        let column = block * TILES_AT_ONCE;
        weigh_columns::<S, TILES_AT_ONCE, N>(cpu, values, column, ours, parts);
    }
    for column in blocks * TILES_AT_ONCE..columns {
        weigh_columns::<S, 1, N>(cpu, values, column, ours, parts);
    }
}

/// Adds the weighted values of `16 * B` elements.
#[inline(always)]
fn weigh_columns<S: Simd, const B: usize, const N: usize>(
    cpu: S,
    (values, columns, ahead): (&[Pairs], usize, LinesAhead),
    first: usize,
    weights: [&[f32; PAGE_LEN]; N],
    parts: &mut [f32],
) {
    let part_len = parts.len() / N;
    let mut sums = [[[cpu.splat(0.0); 2]; B]; N];
    let mut ahead = ahead.skip(first * (PAGE_LEN / 2) * size_of::<Pairs>());
    for (pair, row) in (0..PAGE_LEN / 2).zip(values.chunks_exact(columns)) {
        let mut values = [[cpu.splat(0.0); 2]; B];
        let pairs: &[Pairs; B] = row[first..].first_chunk().expect("as many columns");
        ahead.fetch::<[Pairs; B]>(pair);
        for (values, pairs) in values.iter_mut().zip(pairs) {
            *values = cpu.load_bf16_pairs(pairs);
        }
        for (sums, weights) in sums.iter_mut().zip(weights) {
            add_pairs(cpu, sums, &values, [weights[2 * pair], weights[2 * pair + 1]]);
        }
    }
    for (sums, part) in sums.iter().zip(parts.chunks_exact_mut(part_len)) {
        let totals = &mut part.as_chunks_mut::<TILE>().0[first..];
        let totals: &mut [[f32; TILE]; B] = totals.first_chunk_mut().expect("as many columns");
        for ([even, odd], total) in sums.iter().zip(totals) {
            cpu.load(total).add(even.add(*odd)).store(total);
        }
    }
}

/// Adds the products of pairs and a pair of factors: the first ones, and the second ones.
#[inline(always)]
fn add_pairs<S: Simd, const T: usize>(
    cpu: S,
    sums: &mut [[S::Lanes; 2]; T],
    pairs: &[[S::Lanes; 2]; T],
    factors: [f32; 2],
) {
    for (i, factor) in factors.into_iter().enumerate() {
        let factor = cpu.splat(factor);
        for (sums, pairs) in sums.iter_mut().zip(pairs) {
            sums[i] = pairs[i].mul_add(factor, sums[i]);
        }
    }
}

fn pairs(numbers: &[u16]) -> &[Pairs] {
    numbers.as_chunks().0.as_chunks().0
}
