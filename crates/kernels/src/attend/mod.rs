//! Attention of query heads over the keys and values they share, one chunk of positions at a time.
//!
//! The definition does not depend on threads, batches or pages: positions are divided into chunks of
//! [`CHUNK`], counted from 0. For each chunk, a query head has a **part**: the largest score, the sum
//! of `e^(score - largest)`, and the values weighted with these exponentials. [`join_chunks`] merges
//! the parts in the order of chunks, and the result is the merged values divided by the merged sum.
//! The chunks of a head can therefore be computed on any thread, and together with any other heads.
//!
//! Scores are computed in lanes of positions: each is a sum over the elements of the key, in order, and
//! no sum crosses a vector. Positions that are not visible to a row may be computed along with their
//! neighbours, but nothing of them is ever added to anything.

pub(crate) mod bf16;
mod float;
mod int8;
mod page_bounds;

pub(crate) use page_bounds::bound_pages;
pub use page_bounds::split_len;
use std::ops::Range;

use crate::KvDtype;
use crate::ahead::{Ahead, LinesAhead};
use crate::arch::prefetch;
use crate::float::exp;
use crate::int_lanes::WeightPair;
use crate::kv::{BLOCK, KvHead, PAGE_LEN, TILE};
use crate::lanes::{AsE4m3, AsE5m2, AsF16, AsF32, F32x16, Simd};
use crate::sums::IntSums;
use crate::{Kernel, QuantRow, Strip};

/// Positions in a chunk: enough for a part to be small compared with the keys and values it reads.
pub const CHUNK: usize = 256;

/// Query heads of neighbouring rows of one sequence, which share one K/V head.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// The heads of the first row, followed by those of the next rows.
    pub data: &'a [f32],
    /// Number of elements from one row to the next.
    pub stride: usize,
    /// Number of heads in each row.
    pub heads: usize,
    /// Number of visible positions of each row.
    pub visible: &'a [usize],
    /// Maximum number of positions a row sees, counted back from its last one.
    pub window: Option<usize>,
    /// Number of positions at the start that stay in sight with a window. A row that sees no more than these
    /// and its window sees all of them; beyond that, they are up to other queries ([`attend_in_turn`]).
    pub sinks: usize,
    /// Factor of the dot product of query and key.
    pub scale: f32,
}

impl<'a> Queries<'a> {
    /// Number of query heads of all rows.
    pub(crate) fn len(&self) -> usize {
        self.heads * self.visible.len()
    }

    /// Returns the chunks with positions that are visible to some row.
    pub fn chunks(&self) -> Range<usize> {
        let first = (0..self.visible.len()).map(|row| self.first(row) / CHUNK).min();
        let end = self.visible.iter().map(|visible| visible.div_ceil(CHUNK)).max();
        first.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Returns the first position that a row sees.
    #[inline(always)]
    fn first(&self, row: usize) -> usize {
        let visible = self.visible[row];
        let window = self.window.filter(|window| visible > window.saturating_add(self.sinks));
        window.map_or(0, |window| visible - window)
    }

    #[inline(always)]
    fn row(&self, query: usize) -> usize {
        query / self.heads
    }

    #[inline(always)]
    fn head(&self, query: usize, head_dim: usize) -> &'a [f32] {
        &self.data[self.row(query) * self.stride + query % self.heads * head_dim..][..head_dim]
    }

    /// Returns the smallest range with every position of a chunk that is visible to some row.
    fn positions(&self, chunk: usize) -> Range<usize> {
        let rows = (0..self.visible.len()).map(|row| self.seen(row, chunk));
        let first = rows.clone().map(|seen| seen.start).min().unwrap_or(0);
        let end = rows.map(|seen| seen.end).max().unwrap_or(0);
        first..end
    }

    /// Returns the positions of a chunk that are visible to a row.
    #[inline(always)]
    fn seen(&self, row: usize, chunk: usize) -> Range<usize> {
        let within = |position: usize| position.saturating_sub(chunk * CHUNK).min(CHUNK);
        within(self.first(row))..within(self.visible[row])
    }
}

/// Buffers of [`attend`], one for each thread.
pub struct AttendScratch {
    /// The scores of a chunk for each query head, later its weights.
    scores: Vec<f32>,
    /// The same weights as integers.
    weights: Vec<WeightPair>,
    codes: Vec<QuantRow>,
    /// The queries, rounded to bf16.
    rounded: Vec<f32>,
    /// The queries or the weights as bf16.
    bits: Vec<u16>,
    parts: Vec<f32>,
    next: Vec<f32>,
}

impl AttendScratch {
    /// Creates buffers for at most `queries` query heads.
    pub fn new(queries: usize, head_dim: usize) -> Self {
        let key_len = head_dim.next_multiple_of(BLOCK);
        Self {
            scores: vec![0.0; queries * CHUNK],
            weights: vec![[0; 2]; queries * CHUNK / 2],
            codes: vec![QuantRow::with_capacity(head_dim); queries],
            rounded: vec![0.0; queries * key_len],
            bits: vec![0; queries * key_len.max(CHUNK)],
            parts: vec![0.0; queries * part_len(head_dim)],
            next: vec![0.0; queries * part_len(head_dim)],
        }
    }

    /// Quantizes the queries if the keys are int8. Required before chunks of `q` are computed.
    pub fn prepare(&mut self, kernel: &dyn Kernel, q: &Queries<'_>, kv: &KvHead<'_>) {
        if kv.dtype() == KvDtype::Int8 {
            for (query, codes) in self.codes[..q.len()].iter_mut().enumerate() {
                codes.quantize(kernel, q.head(query, kv.head_dim()));
            }
        }
    }
}

/// Returns the number of floats in the part of one query head: its values, padded to a multiple of
/// sixteen, the largest score and the sum.
pub fn part_len(head_dim: usize) -> usize {
    head_dim.next_multiple_of(TILE) + 2
}

/// Computes the attention of all query heads of `q`. `out.row(first + i)` receives the heads of row
/// `i`. Does not allocate.
///
/// # Panics
///
/// Panics if the shapes do not match, or if `scratch` is too small.
pub fn attend(
    kernel: &dyn Kernel,
    q: &Queries<'_>,
    kv: &KvHead<'_>,
    scratch: &mut AttendScratch,
    out: &mut Strip<'_, f32>,
    first: usize,
) {
    attend_in_turn(kernel, &[*q], kv, scratch, out, first);
}

/// Computes the attention of query heads that are rotated in several ways, each for positions of its own: the
/// chunks of the first queries come before those of the next. All have as many rows and heads.
///
/// # Panics
///
/// Panics if the shapes do not match, or if `scratch` is too small.
pub fn attend_in_turn(
    kernel: &dyn Kernel,
    rotations: &[Queries<'_>],
    kv: &KvHead<'_>,
    scratch: &mut AttendScratch,
    out: &mut Strip<'_, f32>,
    first: usize,
) {
    let part_len = part_len(kv.head_dim());
    let (mut parts, mut next) =
        (std::mem::take(&mut scratch.parts), std::mem::take(&mut scratch.next));
    let q = rotations.last().expect("some queries");
    let len = q.len() * part_len;
    clear_parts(&mut parts[..len]);
    for q in rotations.iter().filter(|q| !q.chunks().is_empty()) {
        scratch.prepare(kernel, q, kv);
        for chunk in q.chunks() {
            attend_parts(kernel, q, kv, chunk, scratch, &mut next[..len]);
            kernel.join_chunks(part_len, &mut parts[..len], &next[..len]);
        }
    }
    for row in 0..q.visible.len() {
        let parts = &parts[row * q.heads * part_len..][..q.heads * part_len];
        finish_parts(parts, kv.head_dim(), out.row(first + row));
    }
    (scratch.parts, scratch.next) = (parts, next);
}

/// Products of a query head and a position, of keys and of values, below which configuring tiles takes
/// longer than they save.
const MIN_TILE_PRODUCTS: usize = 256;

/// Computes the parts of a chunk as [`AttentionKernel::attend_chunk`](crate::AttentionKernel::attend_chunk)
/// does, on tiles if `kernel` has any and they are faster.
pub fn attend_parts(
    kernel: &dyn Kernel,
    q: &Queries<'_>,
    kv: &KvHead<'_>,
    chunk: usize,
    scratch: &mut AttendScratch,
    parts: &mut [f32],
) {
    let tiles = kernel
        .tile_kernel()
        .filter(|tiles| kv.dtype() == KvDtype::Bf16 && tiles.multiplies_bf16())
        .filter(|_| q.len() * q.positions(chunk).len() >= MIN_TILE_PRODUCTS);
    match tiles {
        Some(tiles) => tiles.attend_chunk(q, kv, chunk, scratch, parts),
        None => kernel.attend_chunk(q, kv, chunk, scratch, parts),
    }
}

/// Sets parts to those of no positions: their sums are zero.
pub fn clear_parts(parts: &mut [f32]) {
    parts.fill(0.0);
}

/// Computes the results of merged parts, one head after the other. A head without visible positions
/// gives zeros.
pub fn finish_parts(parts: &[f32], head_dim: usize, out: &mut [f32]) {
    let parts = parts.chunks_exact(part_len(head_dim));
    for (part, out) in parts.zip(out.chunks_exact_mut(head_dim)) {
        let sum = part[part.len() - 1];
        for (out, value) in out.iter_mut().zip(part) {
            *out = if sum == 0.0 { 0.0 } else { value / sum };
        }
    }
}

#[inline(always)]
pub(crate) fn attend_chunk<S: IntSums>(
    cpu: S,
    q: &Queries<'_>,
    kv: &KvHead<'_>,
    chunk: usize,
    scratch: &mut AttendScratch,
    parts: &mut [f32],
) {
    let job = Job::start(q, kv, chunk, parts);
    match kv.dtype() {
        KvDtype::F32 => float::attend::<S, AsF32, false>(cpu, &job, scratch, parts),
        KvDtype::Bf16 => bf16::attend(cpu, &bf16::InLanes(cpu), &job, scratch, parts),
        KvDtype::F16 => float::attend::<S, AsF16, false>(cpu, &job, scratch, parts),
        KvDtype::Fp8E4m3 => float::attend::<S, AsE4m3, true>(cpu, &job, scratch, parts),
        KvDtype::Fp8E5m2 => float::attend::<S, AsE5m2, true>(cpu, &job, scratch, parts),
        KvDtype::Int8 => int8::attend(cpu, &job, scratch, parts),
    }
}

/// The attention of some query heads over one chunk.
pub(crate) struct Job<'a> {
    pub(crate) q: &'a Queries<'a>,
    pub(crate) kv: &'a KvHead<'a>,
    chunk: usize,
    pub(crate) first_page: usize,
    /// Smallest range with every position of the chunk that is visible to some row.
    seen: Range<usize>,
    next: Option<NextChunk>,
}

/// The chunk that a thread computes after this one, unless another thread takes it.
#[derive(Clone, Copy)]
struct NextChunk {
    first_page: usize,
    /// True for the first chunk of the next head, false for the next chunk of the same.
    is_of_next_head: bool,
}

impl<'a> Job<'a> {
    /// Clears the parts of a chunk and returns the job that computes them.
    pub(crate) fn start(
        q: &'a Queries<'a>,
        kv: &'a KvHead<'a>,
        chunk: usize,
        parts: &mut [f32],
    ) -> Self {
        assert_eq!(parts.len(), q.len() * part_len(kv.head_dim()), "a part for each head");
        let job = Self::new(q, kv, chunk);
        assert!(
            job.first_page + job.pages() <= kv.pages_len(),
            "a page for every visible position"
        );
        clear_parts(parts);
        job
    }

    fn new(q: &'a Queries<'a>, kv: &'a KvHead<'a>, chunk: usize) -> Self {
        let first_page = |chunk| chunk * (CHUNK / PAGE_LEN);
        let chunks = q.chunks();
        let is_last = chunk + 1 >= chunks.end;
        let next = NextChunk {
            first_page: first_page(if is_last { chunks.start } else { chunk + 1 }),
            is_of_next_head: is_last,
        };
        let next = Some(next).filter(|next| !(next.is_of_next_head && kv.is_last_head()));
        Self { q, kv, chunk, first_page: first_page(chunk), seen: q.positions(chunk), next }
    }

    /// Returns the number of pages up to the last one with visible positions.
    #[inline(always)]
    fn pages(&self) -> usize {
        self.seen.end.div_ceil(PAGE_LEN)
    }

    /// Returns the pages of the chunk with visible positions.
    #[inline(always)]
    pub(crate) fn seen_pages(&self) -> Range<usize> {
        self.seen.start / PAGE_LEN..self.pages()
    }

    /// Returns what is prefetched while query heads from `first` on read the keys of a page: its values. Only the
    /// first ones fetch.
    #[inline(always)]
    fn ahead_of_keys(&self, page: usize, first: usize) -> LinesAhead {
        let keys = self.kv.keys_address(self.first_page + page, false);
        if first > 0 {
            return LinesAhead::nothing(keys);
        }
        LinesAhead::new(keys.wrapping_add(self.kv.keys_bytes()))
    }

    /// As [`ahead_of_keys`](Self::ahead_of_keys), for keys that are read in the order of their addresses.
    #[inline(always)]
    fn ahead_of_key_lines(&self, page: usize, first: usize) -> Ahead {
        if first > 0 {
            return Ahead::NOTHING;
        }
        let keys = self.kv.keys_address(self.first_page + page, false);
        Ahead::new(keys, keys.wrapping_add(self.kv.keys_bytes()))
    }

    /// Returns what is prefetched while query heads from `first` on read the values of a page: the keys of the same
    /// page of the next chunk. Only the first ones fetch.
    #[inline(always)]
    fn ahead_of_values(&self, page: usize, first: usize) -> LinesAhead {
        let Some(next) = self.next.filter(|_| first == 0) else {
            return LinesAhead::nothing(self.kv.keys_address(self.first_page + page, false));
        };
        LinesAhead::new(self.kv.keys_address(next.first_page + page, next.is_of_next_head))
    }

    /// Prefetches the scales of the same page of the next chunk. They are too few to be fetched in step.
    #[inline(always)]
    fn prefetch_scales(&self, page: usize) {
        if let Some(next) = self.next {
            self.kv.scale_lines(next.first_page + page, next.is_of_next_head).for_each(prefetch);
        }
    }

    /// Returns the positions of the chunk that are visible to a query head.
    #[inline(always)]
    fn seen_by(&self, query: usize) -> Range<usize> {
        self.q.seen(self.q.row(query), self.chunk)
    }
}

/// Turns the scores of `seen` into `e^(score - largest)`, and returns the largest and the sum. Scores
/// before them, and after them in the last tile, become zeros.
#[inline(always)]
fn exponentials<S: Simd>(cpu: S, scores: &mut [f32], seen: &Range<usize>) -> (f32, f32) {
    let padded = seen.end.next_multiple_of(TILE);
    scores[..seen.start].fill(f32::NEG_INFINITY);
    scores[seen.end..padded].fill(f32::NEG_INFINITY);
    let tiles = scores[..padded].as_chunks_mut::<TILE>().0;
    let mut largest = cpu.splat(f32::NEG_INFINITY);
    for tile in tiles.iter() {
        largest = cpu.load(tile).max(largest);
    }
    let mut lanes = [0.0; TILE];
    largest.store(&mut lanes);
    let fold = |max: f32, x: f32| if x > max { x } else { max };
    let largest = lanes.into_iter().fold(f32::NEG_INFINITY, fold);
    // If every score is -infinity, the differences must be too, and not NaN.
    let base = cpu.splat(if largest == f32::NEG_INFINITY { 0.0 } else { largest });
    let mut sums = cpu.splat(0.0);
    for tile in tiles {
        let e = exp(cpu, cpu.load(tile).sub(base));
        e.store(tile);
        sums = sums.add(e);
    }
    (largest, sums.sum())
}

/// Multiplies the weights by the scales of their values.
#[inline(always)]
fn scale_weights<S: Simd>(cpu: S, job: &Job<'_>, weights: &mut [f32], seen: &Range<usize>) {
    let padded = seen.end.next_multiple_of(TILE);
    let first = seen.start / PAGE_LEN;
    let pages = weights[first * PAGE_LEN..padded].chunks_mut(PAGE_LEN);
    for (page, weights) in pages.enumerate() {
        let scales = job.kv.value_scales(job.first_page + first + page);
        for (weights, scales) in
            weights.as_chunks_mut::<TILE>().0.iter_mut().zip(scales.as_chunks::<TILE>().0)
        {
            cpu.load(weights).mul(cpu.load(scales)).store(weights);
        }
    }
    // Scales of positions that are not visible may be NaN, which zero weights do not cancel.
    weights[..seen.start].fill(0.0);
    weights[seen.end..padded].fill(0.0);
}

/// Merges each part of `next` into the part in `parts` of the chunks before it.
#[inline(always)]
pub(crate) fn join_chunks<S: Simd>(cpu: S, part_len: usize, parts: &mut [f32], next: &[f32]) {
    assert_eq!(parts.len(), next.len(), "as many parts");
    for (part, next) in parts.chunks_exact_mut(part_len).zip(next.chunks_exact(part_len)) {
        let (values, [largest, sum]) = part.split_last_chunk_mut().expect("a part has two");
        let (next_values, &[next_largest, next_sum]) =
            next.split_last_chunk().expect("a part has two");
        // Parts of no positions are skipped, so that positions a head does not see change nothing, not
        // even the sign of a zero.
        if next_sum == 0.0 {
            continue;
        }
        if *sum == 0.0 {
            part.copy_from_slice(next);
            continue;
        }
        let joined = if next_largest > *largest { next_largest } else { *largest };
        let factor = exp(cpu, cpu.splat(*largest - joined));
        let next_factor = exp(cpu, cpu.splat(next_largest - joined));
        let next_values = next_values.as_chunks::<TILE>().0;
        for (values, next) in values.as_chunks_mut::<TILE>().0.iter_mut().zip(next_values) {
            let kept = cpu.load(values).mul(factor);
            cpu.load(next).mul_add(next_factor, kept).store(values);
        }
        let kept = cpu.splat(*sum).mul(factor);
        let mut lanes = [0.0; TILE];
        cpu.splat(next_sum).mul_add(next_factor, kept).store(&mut lanes);
        (*largest, *sum) = (joined, lanes[0]);
    }
}
