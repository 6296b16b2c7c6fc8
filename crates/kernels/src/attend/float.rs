//! Attention over chunks of float keys and values.

use super::{AttendScratch, CHUNK, Job, exponentials, part_len, scale_weights};
use crate::ahead::LinesAhead;
use crate::arch::numbers;
use crate::float::add_products;
use crate::kv::{PAGE_LEN, TILE};
use crate::lanes::{F32x16, Simd, Stored};

/// Query heads that share one load of keys or values on CPUs with many registers.
const QUERIES_AT_ONCE: usize = 4;

/// Query heads that share one load of keys elsewhere.
const FEW_QUERIES: usize = 2;

/// Sums per score, over the elements 0, 2, 4, ... and 1, 3, 5, ... of the key: half the rounding
/// errors, and two additions in flight.
const SUMS: usize = 2;

#[inline(always)]
pub(super) fn attend<S: Simd, F: Stored, const SCALED: bool>(
    cpu: S,
    job: &Job<'_>,
    scratch: &mut AttendScratch,
    parts: &mut [f32],
) {
    let scores = &mut scratch.scores[..job.q.len() * CHUNK];
    for page in job.seen_pages() {
        if SCALED {
            job.prefetch_scales(page);
        }
        scores_of_page::<S, F, SCALED>(cpu, job, page, scores);
    }
    let part_len = part_len(job.kv.head_dim());
    for (query, weights) in scores.chunks_exact_mut(CHUNK).enumerate() {
        let seen = job.seen_by(query);
        if !seen.is_empty() {
            let (largest, sum) = exponentials(cpu, weights, &seen);
            let part = &mut parts[query * part_len..][..part_len];
            part[part_len - 2..].copy_from_slice(&[largest, sum]);
            if SCALED {
                scale_weights(cpu, job, weights, &seen);
            }
        }
    }
    weigh_values::<S, F>(cpu, job, scores, parts);
}

/// Computes the scores of every query head for all positions of a page.
#[inline(always)]
fn scores_of_page<S: Simd, F: Stored, const SCALED: bool>(
    cpu: S,
    job: &Job<'_>,
    page: usize,
    scores: &mut [f32],
) {
    let mut query = 0;
    let queries = job.q.len();
    if S::MANY_REGISTERS {
        while query + QUERIES_AT_ONCE <= queries {
            scores_of_queries::<S, F, SCALED, QUERIES_AT_ONCE, 2>(cpu, job, page, query, scores);
            query += QUERIES_AT_ONCE;
        }
    }
    while query + FEW_QUERIES <= queries {
        scores_of_queries::<S, F, SCALED, FEW_QUERIES, 1>(cpu, job, page, query, scores);
        query += FEW_QUERIES;
    }
    while query < queries {
        scores_of_queries::<S, F, SCALED, 1, 2>(cpu, job, page, query, scores);
        query += 1;
    }
}

/// Computes the scores of `N` query heads from `first` on, `T` tiles of a page at a time.
#[inline(always)]
fn scores_of_queries<S: Simd, F: Stored, const SCALED: bool, const N: usize, const T: usize>(
    cpu: S,
    job: &Job<'_>,
    page: usize,
    first: usize,
    scores: &mut [f32],
) {
    let (head_dim, row_len) = (job.kv.head_dim(), job.kv.row_len());
    let keys = numbers::<F::Bits>(job.kv.keys(job.first_page + page)).as_chunks::<TILE>().0;
    let mut q = [job.q.head(first, head_dim); N];
    for (n, q) in q.iter_mut().enumerate() {
        *q = job.q.head(first + n, head_dim);
    }
    let mut ahead = job.ahead_of_keys(page, first);
    for first_tile in (0..PAGE_LEN / TILE).step_by(T) {
        let mut tiles = [keys; T];
        for (t, tile) in tiles.iter_mut().enumerate() {
            *tile = &keys[(first_tile + t) * row_len..][..head_dim];
        }
        let mut sums = [[[cpu.splat(0.0); T]; SUMS]; N];
        for pair in 0..head_dim / SUMS {
            for i in 0..SUMS {
                let d = SUMS * pair + i;
                let values = load_tiles::<S, F, T>(cpu, tiles, d, &mut ahead);
                for (sums, q) in sums.iter_mut().zip(q) {
                    add_products(&mut sums[i], values, cpu.splat(q[d]));
                }
            }
        }
        if head_dim % SUMS == 1 {
            let d = head_dim - 1;
            let values = load_tiles::<S, F, T>(cpu, tiles, d, &mut ahead);
            for (sums, q) in sums.iter_mut().zip(q) {
                add_products(&mut sums[0], values, cpu.splat(q[d]));
            }
        }
        for (n, sums) in sums.iter().enumerate() {
            for t in 0..T {
                let sum = sums[0][t].add(sums[1][t]);
                let start = page * PAGE_LEN + (first_tile + t) * TILE;
                let out = &mut scores[(first + n) * CHUNK + start..];
                let mut score = sum.mul(cpu.splat(job.q.scale));
                if SCALED {
                    let scales = job.kv.key_scales(job.first_page + page).as_chunks::<TILE>().0;
                    score = score.mul(cpu.load(&scales[first_tile + t]));
                }
                score.store(&mut out.as_chunks_mut::<TILE>().0[0]);
            }
        }
    }
}

/// Loads element `d` of the keys of `T` tiles.
#[inline(always)]
fn load_tiles<S: Simd, F: Stored, const T: usize>(
    cpu: S,
    tiles: [&[[F::Bits; TILE]]; T],
    d: usize,
    ahead: &mut LinesAhead,
) -> [S::Lanes; T] {
    let mut values = [cpu.splat(0.0); T];
    for (values, tile) in values.iter_mut().zip(tiles) {
        ahead.fetch::<[F::Bits; TILE]>(d);
        *values = F::load(cpu, &tile[d]);
    }
    values
}

/// Adds the weighted values to the part of each query head, position by position.
///
/// Positions visible to all rows are read once for all; others by each row on its own. A value that is
/// not visible must not be added even with a weight of zero: it may be a NaN of another sequence.
#[inline(always)]
fn weigh_values<S: Simd, F: Stored>(cpu: S, job: &Job<'_>, weights: &[f32], parts: &mut [f32]) {
    let rows = job.q.visible.len();
    let seen = |row| job.q.seen(row, job.chunk);
    let start = (0..rows).map(|row| seen(row).start).max().unwrap_or(0);
    let end = (0..rows).map(|row| seen(row).end).min().unwrap_or(0).max(start);
    let own = |row: usize| (row * job.q.heads, (row + 1) * job.q.heads);
    for row in 0..rows {
        let before = (seen(row).start, seen(row).end.min(start));
        weigh_range::<S, F>(cpu, job, before, own(row), (weights, parts));
    }
    weigh_range::<S, F>(cpu, job, (start, end), (0, job.q.len()), (weights, parts));
    for row in 0..rows {
        let after = (end, seen(row).end);
        weigh_range::<S, F>(cpu, job, after, own(row), (weights, parts));
    }
}

/// Adds the weighted values of a range of positions for a range of query heads.
#[inline(always)]
fn weigh_range<S: Simd, F: Stored>(
    cpu: S,
    job: &Job<'_>,
    (mut start, end): (usize, usize),
    (first, last): (usize, usize),
    (weights, parts): (&[f32], &mut [f32]),
) {
    let row_len = job.kv.row_len();
    let part_len = part_len(job.kv.head_dim());
    while start < end {
        let (page, slot) = (start / PAGE_LEN, start % PAGE_LEN);
        let positions = (PAGE_LEN - slot).min(end - start);
        let values = job.kv.values::<F::Bits>(job.first_page + page);
        let values = &values[slot * row_len..][..positions * row_len];
        let weights_of = |query: usize| &weights[query * CHUNK + start..][..positions];
        let mut query = first;
        let rows = |first| (values, row_len, job.ahead_of_values(page, first));
        while query + QUERIES_AT_ONCE <= last {
            let weights = [0, 1, 2, 3].map(|n| weights_of(query + n));
            let parts = &mut parts[query * part_len..][..QUERIES_AT_ONCE * part_len];
            add_weighted::<S, F, QUERIES_AT_ONCE>(cpu, weights, rows(query), parts);
            query += QUERIES_AT_ONCE;
        }
        while query < last {
            let part = &mut parts[query * part_len..][..part_len];
            add_weighted::<S, F, 1>(cpu, [weights_of(query)], rows(query), part);
            query += 1;
        }
        start += positions;
    }
}

/// For each of `N` query heads, whose parts follow each other, adds `weights[0] * rows[0]`, then
/// `weights[1] * rows[1]`, and so on.
#[inline(always)]
fn add_weighted<S: Simd, F: Stored, const N: usize>(
    cpu: S,
    weights: [&[f32]; N],
    rows: (&[F::Bits], usize, LinesAhead),
    parts: &mut [f32],
) {
    // Blocks of columns whose sums stay in registers for all rows.
    const MANY: usize = 4;
    let (_, row_len, _) = rows;
    let whole = row_len / TILE;
    let blocks = if S::MANY_REGISTERS { whole / MANY } else { 0 };
    for block in 0..blocks {
        add_to_columns::<S, F, MANY, N>(cpu, weights, rows, TILE * MANY * block, parts);
    }
    for column in blocks * MANY..whole {
        add_to_columns::<S, F, 1, N>(cpu, weights, rows, TILE * column, parts);
    }
}

/// Adds the weighted values of `16 * B` columns from `column` on.
#[inline(always)]
fn add_to_columns<S: Simd, F: Stored, const B: usize, const N: usize>(
    cpu: S,
    weights: [&[f32]; N],
    (rows, row_len, ahead): (&[F::Bits], usize, LinesAhead),
    column: usize,
    parts: &mut [f32],
) {
    let part_len = parts.len() / N;
    let mut sums = [[cpu.splat(0.0); B]; N];
    for (sums, part) in sums.iter_mut().zip(parts.chunks_exact(part_len)) {
        let chunks = part[column..][..TILE * B].as_chunks::<TILE>().0;
        for (sum, chunk) in sums.iter_mut().zip(chunks) {
            *sum = cpu.load(chunk);
        }
    }
    let mut ahead = ahead.skip(column * (rows.len() / row_len) * size_of::<F::Bits>());
    for (i, row) in rows.chunks_exact(row_len).enumerate() {
        let chunks = row[column..][..TILE * B].as_chunks::<TILE>().0;
        let mut values = [cpu.splat(0.0); B];
        ahead.fetch::<[[F::Bits; TILE]; B]>(i);
        for (values, chunk) in values.iter_mut().zip(chunks) {
            *values = F::load(cpu, chunk);
        }
        for (sums, weights) in sums.iter_mut().zip(&weights) {
            add_products(sums, values, cpu.splat(weights[i]));
        }
    }
    for (sums, part) in sums.iter().zip(parts.chunks_exact_mut(part_len)) {
        let chunks = part[column..][..TILE * B].as_chunks_mut::<TILE>().0;
        for (sum, chunk) in sums.iter().zip(chunks) {
            sum.store(chunk);
        }
    }
}
