//! Attention over chunks of int8 keys and values: both products run in integers, exact in any order.
//!
//! A query is quantized like an activation, by its own largest element, and multiplied with the codes
//! of keys in byte dot products. A weight is multiplied by the scale of its value and rounded to 16
//! bits, in units of the largest of its chunk: 256 positions of 32,767 * 127 sum to less than 2^31.

use super::{AttendScratch, CHUNK, Job, exponentials, part_len, scale_weights};
use crate::QuantRow;
use crate::ahead::LinesAhead;
use crate::int_lanes::{Keys, ValuePages, ValuePairs, WeightPair};
use crate::int8::INT8_LINE_COLS;
use crate::kv::{PAGE_LEN, TILE};
use crate::lanes::{F32x16, Simd};
use crate::sums::IntSums;

/// Query heads that share one load of keys or values.
const QUERIES_AT_ONCE: usize = 4;

/// The largest weight.
const LARGEST: f32 = 32767.0;

/// The smallest largest weight of a chunk: its inverse is finite.
const SMALLEST_UNIT: f32 = 1e-30;

#[inline(always)]
pub(super) fn attend<S: IntSums>(
    cpu: S,
    job: &Job<'_>,
    scratch: &mut AttendScratch,
    parts: &mut [f32],
) {
    let queries = job.q.len();
    let scores = &mut scratch.scores[..queries * CHUNK];
    let codes = &scratch.codes[..queries];
    for page in job.seen_pages() {
        job.prefetch_scales(page);
        scores_of_page(cpu, job, page, codes, scores);
    }
    let part_len = part_len(job.kv.head_dim());
    let first = job.seen_pages().start * PAGE_LEN;
    let pairs = job.seen_pages().len() * PAGE_LEN / 2;
    let weights = &mut scratch.weights[..queries * pairs];
    let each = scores.chunks_exact_mut(CHUNK).zip(parts.chunks_exact_mut(part_len));
    for (query, ((scores, part), weights)) in
        each.zip(weights.chunks_exact_mut(pairs.max(1))).enumerate()
    {
        let seen = job.seen_by(query);
        weights.fill([0; 2]);
        if !seen.is_empty() {
            let (largest, sum) = exponentials(cpu, scores, &seen);
            scale_weights(cpu, job, scores, &seen);
            let unit = round_weights(cpu, &scores[first..seen.end.next_multiple_of(TILE)], weights);
            // The first value holds the unit until the values are computed.
            part[0] = unit;
            part[part_len - 2..].copy_from_slice(&[largest, sum]);
        }
    }
    weigh_values(cpu, job, weights, parts);
}

/// Computes the scores of every query head for all positions of a page.
#[inline(always)]
fn scores_of_page<S: IntSums>(
    cpu: S,
    job: &Job<'_>,
    page: usize,
    codes: &[QuantRow],
    scores: &mut [f32],
) {
    let page_scales = job.kv.key_scales(job.first_page + page).as_chunks::<TILE>().0;
    let tile_lines = job.kv.key_len() / INT8_LINE_COLS;
    let tiles = job.kv.keys(job.first_page + page).chunks_exact(tile_lines).zip(page_scales);
    for (t, (lines, scales)) in tiles.enumerate() {
        let start = page * PAGE_LEN + t * TILE;
        let mut put = |query: usize, sums: &[i32; TILE]| {
            let factor = cpu.splat(codes[query].scale() * job.q.scale);
            let out = &mut scores[query * CHUNK + start..].as_chunks_mut::<TILE>().0[0];
            cpu.load_i32(sums).mul(factor).mul(cpu.load(scales)).store(out);
        };
        let (whole, rest) = codes.as_chunks::<QUERIES_AT_ONCE>();
        for (i, [a, b, c, d]) in whole.iter().enumerate() {
            let first = i * QUERIES_AT_ONCE;
            let ahead = job.ahead_of_key_lines(page, first);
            let sums = cpu.code_sums::<Keys, 4>(lines, [a, b, c, d], ahead);
            for (n, sums) in sums.iter().enumerate() {
                put(first + n, sums);
            }
        }
        for (i, query) in rest.iter().enumerate() {
            let at = whole.len() * QUERIES_AT_ONCE + i;
            let [sums] = cpu.code_sums::<Keys, 1>(lines, [query], job.ahead_of_key_lines(page, at));
            put(at, &sums);
        }
    }
}

/// Rounds weights to integers and returns the value of one unit, which is NaN if a weight is not
/// finite.
#[inline(always)]
fn round_weights<S: Simd>(cpu: S, weights: &[f32], out: &mut [WeightPair]) -> f32 {
    let tiles = weights.as_chunks::<TILE>().0;
    let mut largest = cpu.splat(0.0);
    for tile in tiles {
        largest = largest.max_abs(cpu.load(tile));
    }
    let mut lanes = [0.0; TILE];
    largest.store(&mut lanes);
    // Magnitudes compare like their bits, and a NaN is above infinity.
    let largest = f32::from_bits(lanes.map(f32::to_bits).into_iter().fold(0, u32::max));
    let largest = if largest < SMALLEST_UNIT { SMALLEST_UNIT } else { largest };
    let factor = cpu.splat(LARGEST / largest);
    for (tile, out) in tiles.iter().zip(out.as_chunks_mut::<{ TILE / 2 }>().0) {
        let mut rounded = [0; TILE];
        cpu.load(tile).mul(factor).round().store_i16(&mut rounded);
        for (out, pair) in out.iter_mut().zip(rounded.as_chunks().0) {
            *out = *pair;
        }
    }
    if largest.is_finite() { largest / LARGEST } else { f32::NAN }
}

/// The values of a chunk, from the first page with visible positions on.
struct ChunkValues<'a> {
    job: &'a Job<'a>,
    /// First query head that the values are weighted for.
    first_query: usize,
}

impl ChunkValues<'_> {
    #[inline(always)]
    fn page_of_chunk(&self, i: usize) -> usize {
        self.job.seen_pages().start + i
    }
}

impl ValuePages for ChunkValues<'_> {
    const ROWS: usize = PAGE_LEN / 2;

    #[inline(always)]
    fn columns(&self) -> usize {
        self.job.kv.row_len() / TILE
    }

    #[inline(always)]
    fn page(&self, i: usize) -> &[ValuePairs] {
        self.job.kv.values::<i8>(self.job.first_page + self.page_of_chunk(i)).as_chunks().0
    }

    #[inline(always)]
    fn ahead(&self, i: usize) -> LinesAhead {
        self.job.ahead_of_values(self.page_of_chunk(i), self.first_query)
    }
}

/// Computes the weighted values of each query head, whose part begins with the unit of its weights.
/// Weights of positions that are not visible are zero, and zero times any code is zero.
#[inline(always)]
fn weigh_values<S: IntSums>(cpu: S, job: &Job<'_>, weights: &[WeightPair], parts: &mut [f32]) {
    let queries = job.q.len();
    let part_len = part_len(job.kv.head_dim());
    let mut query = 0;
    while query + QUERIES_AT_ONCE <= queries {
        let parts = &mut parts[query * part_len..][..QUERIES_AT_ONCE * part_len];
        weigh_queries::<S, QUERIES_AT_ONCE>(cpu, job, (weights, queries, query), parts);
        query += QUERIES_AT_ONCE;
    }
    while query < queries {
        let part = &mut parts[query * part_len..][..part_len];
        weigh_queries::<S, 1>(cpu, job, (weights, queries, query), part);
        query += 1;
    }
}

/// Computes the weighted values of the `N` query heads from `first` on. `weights` has those of all
/// `queries`.
#[inline(always)]
fn weigh_queries<S: IntSums, const N: usize>(
    cpu: S,
    job: &Job<'_>,
    (weights, queries, first): (&[WeightPair], usize, usize),
    parts: &mut [f32],
) {
    // Blocks of columns whose sums stay in registers for all rows.
    const MANY: usize = 4;
    let values = &ChunkValues { job, first_query: first };
    let (pairs, part_len) = (weights.len() / queries, parts.len() / N);
    let (mut ours, mut units) = ([weights; N], [0.0; N]);
    for (n, (ours, unit)) in ours.iter_mut().zip(&mut units).enumerate() {
        *ours = &weights[(first + n) * pairs..][..pairs];
        *unit = parts[n * part_len];
    }
    let blocks = if S::MANY_REGISTERS { values.columns() / MANY } else { 0 };
    for block in 0..blocks {
        let sums = cpu.value_sums::<_, N, MANY>(values, block * MANY, ours);
        put_sums(cpu, &sums, units, (parts, block * MANY));
    }
    for column in blocks * MANY..values.columns() {
        let sums = cpu.value_sums::<_, N, 1>(values, column, ours);
        put_sums(cpu, &sums, units, (parts, column));
    }
}

#[inline(always)]
fn put_sums<S: Simd, const N: usize, const B: usize>(
    cpu: S,
    sums: &[[[i32; TILE]; B]; N],
    units: [f32; N],
    (parts, first): (&mut [f32], usize),
) {
    let part_len = parts.len() / N;
    for ((sums, unit), part) in sums.iter().zip(units).zip(parts.chunks_exact_mut(part_len)) {
        let columns = &mut part.as_chunks_mut::<TILE>().0[first..];
        for (sum, out) in sums.iter().zip(columns) {
            cpu.load_i32(sum).mul(cpu.splat(unit)).store(out);
        }
    }
}
