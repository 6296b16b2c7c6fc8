//! Query heads over the keys and values they share, a chunk of positions at a time.
//!
//! The definition, which knows nothing of threads, batches or pages: positions are cut into chunks of
//! [`CHUNK`], counted from 0. Of each chunk, a query head takes its **part**: the largest score, the
//! sum of `e^(score - largest)`, and the values weighed with those. [`join_chunks`] puts parts
//! together in the order of chunks, and the result is the joined values over the joined sum. So the
//! chunks of one head can be computed anywhere, at any time; and a head sees no difference between
//! company and solitude.
//!
//! Scores run in lanes of positions: each is a sum over the elements of the key, in order, and no sum
//! crosses a vector. Positions that a row does not see are computed along with their neighbours where
//! that is easier, but nothing of them is ever added to anything.

mod float;
mod int8;

use crate::float::exp;
use crate::int8::{Int8Sums, WeightPair};
use crate::kv::{KvDtype, KvHead, PAGE_LEN, TILE};
use crate::lanes::{AsBf16, AsE4m3, AsE5m2, AsF16, AsF32, F32x16, Simd};
use crate::{Kernel, QuantRow, Strip};

/// Positions in a chunk. Long enough that a part is small against what it is made from.
pub const CHUNK: usize = 256;

/// Query heads of neighbouring rows of one sequence, which share one K/V head.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// The first row, from its first head on, and those after it.
    pub data: &'a [f32],
    /// Elements from one row to the next.
    pub stride: usize,
    /// Heads of each row, one after the other.
    pub heads: usize,
    /// For each row, how many positions it sees.
    pub visible: &'a [usize],
    /// What the product of query and key is multiplied with.
    pub scale: f32,
}

impl<'a> Queries<'a> {
    /// How many query heads there are, of all rows.
    fn len(&self) -> usize {
        self.heads * self.visible.len()
    }

    /// Chunks that some row sees.
    pub fn chunks(&self) -> usize {
        self.visible.iter().map(|visible| visible.div_ceil(CHUNK)).max().unwrap_or(0)
    }

    /// The row of a query head.
    #[inline(always)]
    fn row(&self, query: usize) -> usize {
        query / self.heads
    }

    #[inline(always)]
    fn head(&self, query: usize, head_dim: usize) -> &'a [f32] {
        &self.data[self.row(query) * self.stride + query % self.heads * head_dim..][..head_dim]
    }

    /// How many positions of a chunk a row sees.
    #[inline(always)]
    fn seen(&self, row: usize, chunk: usize) -> usize {
        self.visible[row].saturating_sub(chunk * CHUNK).min(CHUNK)
    }
}

/// Room to attend in: one for each thread.
pub struct AttendScratch {
    /// For each query head, the scores of a chunk, then its weights.
    scores: Vec<f32>,
    /// The same weights as integers.
    weights: Vec<WeightPair>,
    codes: Vec<QuantRow>,
    parts: Vec<f32>,
    next: Vec<f32>,
}

impl AttendScratch {
    /// Room for `queries` query heads at once.
    pub fn new(queries: usize, head_dim: usize) -> Self {
        Self {
            scores: vec![0.0; queries * CHUNK],
            weights: vec![[0; 2]; queries * CHUNK / 2],
            codes: vec![QuantRow::with_room(head_dim); queries],
            parts: vec![0.0; queries * part_len(head_dim)],
            next: vec![0.0; queries * part_len(head_dim)],
        }
    }

    /// To be called before the chunks of some queries are computed here.
    pub fn prepare(&mut self, kernel: &dyn Kernel, q: &Queries<'_>, kv: &KvHead<'_>) {
        if kv.dtype() == KvDtype::Int8 {
            for (query, codes) in self.codes[..q.len()].iter_mut().enumerate() {
                codes.quantize(kernel, q.head(query, kv.head_dim()));
            }
        }
    }
}

/// Floats of one query head's part: its values, padded to sixteen, the largest score, the sum.
pub fn part_len(head_dim: usize) -> usize {
    head_dim.next_multiple_of(TILE) + 2
}

/// Attends with all of `q`; `out.row(first + i)` takes the heads of row `i`. Does not allocate.
///
/// # Panics
///
/// If the shapes do not fit each other, or if `scratch` has no room for so many heads.
pub fn attend(
    kernel: &dyn Kernel,
    q: &Queries<'_>,
    kv: &KvHead<'_>,
    scratch: &mut AttendScratch,
    (out, first): (&mut Strip<'_, f32>, usize),
) {
    let part_len = part_len(kv.head_dim());
    let (mut parts, mut next) =
        (std::mem::take(&mut scratch.parts), std::mem::take(&mut scratch.next));
    scratch.prepare(kernel, q, kv);
    let len = q.len() * part_len;
    clear(&mut parts[..len]);
    for chunk in 0..q.chunks() {
        kernel.attend_chunk(q, kv, chunk, scratch, &mut next[..len]);
        kernel.join_chunks(part_len, &mut parts[..len], &next[..len]);
    }
    for row in 0..q.visible.len() {
        let parts = &parts[row * q.heads * part_len..][..q.heads * part_len];
        finish(parts, kv.head_dim(), out.row(first + row));
    }
    (scratch.parts, scratch.next) = (parts, next);
}

/// Makes parts of nothing.
pub fn clear(parts: &mut [f32]) {
    // A sum of zero says it all.
    parts.fill(0.0);
}

/// The results of joined parts, one head after the other. A head that saw nothing is zero.
pub fn finish(parts: &[f32], head_dim: usize, out: &mut [f32]) {
    let parts = parts.chunks_exact(part_len(head_dim));
    for (part, out) in parts.zip(out.chunks_exact_mut(head_dim)) {
        let sum = part[part.len() - 1];
        for (out, value) in out.iter_mut().zip(part) {
            *out = if sum == 0.0 { 0.0 } else { value / sum };
        }
    }
}

#[inline(always)]
pub(crate) fn attend_chunk<S: Simd + Int8Sums>(
    cpu: S,
    q: &Queries<'_>,
    kv: &KvHead<'_>,
    chunk: usize,
    scratch: &mut AttendScratch,
    parts: &mut [f32],
) {
    assert_eq!(parts.len(), q.len() * part_len(kv.head_dim()), "a part for each head");
    let job = Job::new(q, kv, chunk);
    assert!(job.first_page + job.pages() <= kv.pages_len(), "a page for every visible position");
    clear(parts);
    match kv.dtype() {
        KvDtype::F32 => float::attend::<S, AsF32, false>(cpu, &job, scratch, parts),
        KvDtype::Bf16 => float::attend::<S, AsBf16, false>(cpu, &job, scratch, parts),
        KvDtype::F16 => float::attend::<S, AsF16, false>(cpu, &job, scratch, parts),
        KvDtype::Fp8E4m3 => float::attend::<S, AsE4m3, true>(cpu, &job, scratch, parts),
        KvDtype::Fp8E5m2 => float::attend::<S, AsE5m2, true>(cpu, &job, scratch, parts),
        KvDtype::Int8 => int8::attend(cpu, &job, scratch, parts),
    }
}

/// Some query heads and one chunk.
struct Job<'a> {
    q: &'a Queries<'a>,
    kv: &'a KvHead<'a>,
    chunk: usize,
    first_page: usize,
    /// Positions of the chunk that some row sees.
    longest: usize,
}

impl<'a> Job<'a> {
    fn new(q: &'a Queries<'a>, kv: &'a KvHead<'a>, chunk: usize) -> Self {
        let longest = (0..q.visible.len()).map(|row| q.seen(row, chunk)).max().unwrap_or(0);
        Self { q, kv, chunk, first_page: chunk * (CHUNK / PAGE_LEN), longest }
    }

    /// Pages of the chunk that some row sees.
    #[inline(always)]
    fn pages(&self) -> usize {
        self.longest.div_ceil(PAGE_LEN)
    }

    /// Asks for what is read after the keys of a page: the keys of the next, and the values of this.
    /// A page is too short for the prefetching of CPUs to find its pace.
    #[inline(always)]
    fn prefetch<S: Simd>(&self, cpu: S, page: usize) {
        if page + 1 < self.pages() {
            cpu.prefetch(self.kv.keys(self.first_page + page + 1));
        }
        cpu.prefetch(self.kv.values::<u8>(self.first_page + page));
    }

    /// Positions of the chunk that a query head sees.
    #[inline(always)]
    fn seen_by(&self, query: usize) -> usize {
        self.q.seen(self.q.row(query), self.chunk)
    }
}

/// Turns the first `seen` scores into `e^(score - largest)`, and returns the largest and the sum. The
/// last tile is filled up with zeros.
#[inline(always)]
fn exponentials<S: Simd>(cpu: S, scores: &mut [f32], seen: usize) -> (f32, f32) {
    let padded = seen.next_multiple_of(TILE);
    scores[seen..padded].fill(f32::NEG_INFINITY);
    let tiles = scores[..padded].as_chunks_mut::<TILE>().0;
    let mut largest = cpu.splat(f32::NEG_INFINITY);
    for tile in tiles.iter() {
        largest = cpu.load(tile).max(largest);
    }
    let mut lanes = [0.0; TILE];
    largest.store(&mut lanes);
    let fold = |max: f32, x: f32| if x > max { x } else { max };
    let largest = lanes.into_iter().fold(f32::NEG_INFINITY, fold);
    // Where every score is -infinity, so is the difference to be taken, and not NaN.
    let base = cpu.splat(if largest == f32::NEG_INFINITY { 0.0 } else { largest });
    let mut sums = cpu.splat(0.0);
    for tile in tiles {
        let e = exp(cpu, cpu.load(tile).sub(base));
        e.store(tile);
        sums = sums.add(e);
    }
    (largest, sums.sum())
}

/// Multiplies the weights with the scales of their values, where there are such.
#[inline(always)]
fn scale_weights<S: Simd>(cpu: S, job: &Job<'_>, weights: &mut [f32], seen: usize) {
    let pages = weights[..seen.next_multiple_of(TILE)].chunks_mut(PAGE_LEN);
    for (page, weights) in pages.enumerate() {
        let scales = job.kv.value_scales(job.first_page + page);
        for (weights, scales) in
            weights.as_chunks_mut::<TILE>().0.iter_mut().zip(scales.as_chunks::<TILE>().0)
        {
            cpu.load(weights).mul(cpu.load(scales)).store(weights);
        }
    }
    // Scales of positions that are not seen can be anything, and a NaN is not zero times nothing.
    weights[seen..seen.next_multiple_of(TILE)].fill(0.0);
}

/// Joins each part of `next` to the part before it, in `parts`.
#[inline(always)]
pub(crate) fn join_chunks<S: Simd>(cpu: S, part_len: usize, parts: &mut [f32], next: &[f32]) {
    assert_eq!(parts.len(), next.len(), "as many parts as parts");
    for (part, next) in parts.chunks_exact_mut(part_len).zip(next.chunks_exact(part_len)) {
        let (values, [largest, sum]) = part.split_last_chunk_mut().expect("a part has two");
        let (next_values, &[next_largest, next_sum]) =
            next.split_last_chunk().expect("a part has two");
        // Parts of nothing are not joined, so that what a head does not see leaves no trace, not
        // even on the sign of a zero.
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
