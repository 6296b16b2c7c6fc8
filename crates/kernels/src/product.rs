//! Products of ternary matrices and int8 rows.
//!
//! With trit = code - 1, the dot product of trits and activations is `sum(code * a) - sum(a)`, from
//! the exact integer sums of [`IntSums`]. The same few float operations follow for each output, so the
//! product has one definition:
//!
//! - one scale per matrix or row: `(d as f32 * scale) * x_scale`;
//! - one scale per group: `acc = fma(d_group as f32, scale_group, acc)` for the groups in order,
//!   starting at 0, and then `acc * x_scale`.

use std::ops::RangeInclusive;

use crate::lanes::{F32x16, Simd};
use crate::layout::five_trits::sums_by_quad_lines;
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::quant::RUN;
use crate::sums::IntSums;
use crate::ternary::StripScales;
use crate::tiles::{BAND, PAIR};
use crate::{
    Kernel, Layout, LookupKernel, Pool, QuantBatch, QuantRow, Strip, TernaryMatrix, TileKernel,
};

/// Tokens that share one unpacking of a line.
const TOKENS: usize = 4;

/// Computes `y = xs * w`: `y[t * w.rows() + r]` is row `t` of `xs` times row `r` of `w`. Does not
/// allocate.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn multiply(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryMatrix,
    xs: &QuantBatch,
    y: &mut [f32],
) {
    multiply_each(kernel, pool, [(w, y)], xs);
}

/// Multiplies several matrices by the same rows in one run, each as [`multiply`] does. Does not
/// allocate.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn multiply_each<const N: usize>(
    kernel: &dyn Kernel,
    pool: &Pool,
    products: [(&TernaryMatrix, &mut [f32]); N],
    xs: &QuantBatch,
) {
    let matrices = products.each_ref().map(|(w, _)| *w);
    let results = products.map(|(w, y)| {
        assert_eq!(y.len(), xs.rows().len() * w.rows(), "one result per token and row");
        (y, w.rows())
    });
    let jobs = Jobs::new(kernel, pool, xs, &matrices);
    pool.tiles_of_each(results, jobs.shape, |m, block, i, mut y| {
        jobs.multiply(matrices[m], block, i, &mut y);
    });
}

/// Computes `y = xs * w` as [`multiply`] does, and then `total += y`. Does not allocate.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn multiply_add(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryMatrix,
    xs: &QuantBatch,
    y: &mut [f32],
    total: &mut [f32],
) {
    assert_eq!(y.len(), xs.rows().len() * w.rows(), "one result per token and row");
    let jobs = Jobs::new(kernel, pool, xs, &[w]);
    pool.tile_pairs((y, total), w.rows(), jobs.shape, |block, i, mut y, mut total| {
        jobs.multiply(w, block, i, &mut y);
        for token in 0..y.rows() {
            for (total, y) in total.row(token).iter_mut().zip(y.row(token)) {
                *total += *y;
            }
        }
    });
}

/// Buffers of [`multiply_gated`], one for each thread, for the products of a job.
pub struct GatedScratch(Vec<Vec<f32>>);

impl GatedScratch {
    /// Creates empty buffers.
    pub fn new(threads: usize) -> Self {
        Self(vec![Vec::new(); threads])
    }

    /// Makes room for `len` products in each buffer.
    fn reserve(&mut self, len: usize) {
        for buffer in &mut self.0 {
            buffer.resize(buffer.len().max(len), 0.0);
        }
    }
}

/// Computes `y = activate(xs * gate, xs * up)` for two matrices of one shape, where `activate` works element by
/// element on its first argument and may change the second. The products of a job stay in the cache of its
/// thread. Does not allocate if a product of this shape was computed before.
///
/// # Panics
///
/// Panics if the shapes do not match, or if there are fewer buffers than threads.
pub fn multiply_gated(
    kernel: &dyn Kernel,
    pool: &Pool,
    (gate, up): (&TernaryMatrix, &TernaryMatrix),
    xs: &QuantBatch,
    (y, scratch): (&mut [f32], &mut GatedScratch),
    activate: impl Fn(&mut [f32], &mut [f32]) + Sync,
) {
    assert_eq!(gate.rows(), up.rows(), "two matrices of one shape");
    assert_eq!(y.len(), xs.rows().len() * gate.rows(), "one result per token and row");
    let jobs = Jobs::new(kernel, pool, xs, &[gate, up]);
    let (tokens, rows) = jobs.shape;
    scratch.reserve(2 * tokens.min(xs.rows().len()) * rows.min(gate.rows()));
    let out = (y, gate.rows());
    pool.tiles_with(out, jobs.shape, &mut scratch.0, |block, i, mut y, products| {
        let (width, len) = (y.width(), y.rows() * y.width());
        let (first, second) = products[..2 * len].split_at_mut(len);
        jobs.multiply(gate, block, i, &mut Strip::new(first, width, width, 0));
        jobs.multiply(up, block, i, &mut Strip::new(second, width, width, 0));
        activate(first, second);
        for (token, results) in first.chunks_exact(width).enumerate() {
            y.row(token).copy_from_slice(results);
        }
    });
}

/// Size of the codes of a block of tokens: with the weights, they stay in the second-level cache of CPUs
/// with tiles while a thread multiplies them by one pair of strips after another.
const BLOCK_BYTES: usize = 768 << 10;

/// Numbers of tokens in a block. More share an unpacking of weights; fewer leave no work for some threads.
const BLOCK_TOKENS: RangeInclusive<usize> = 64..=256;

/// The division of a product into jobs: blocks of tokens by some output rows.
struct Jobs<'a> {
    kernel: &'a dyn Kernel,
    way: Way<'a>,
    xs: &'a QuantBatch,
    /// Number of tokens and of output rows of a job.
    shape: (usize, usize),
}

/// The kernel of the jobs of a product.
enum Way<'a> {
    /// All tokens by one strip.
    Strips,
    /// Pairs of strips.
    Tiles(&'a dyn TileKernel),
    /// Many strips. Blocks of too few tokens are multiplied strip by strip.
    Lookups(&'static dyn LookupKernel),
}

impl<'a> Jobs<'a> {
    fn new(
        kernel: &'a dyn Kernel,
        pool: &Pool,
        xs: &'a QuantBatch,
        matrices: &[&TernaryMatrix],
    ) -> Self {
        let tokens = xs.rows().len();
        let in_quad_lines = matrices.iter().all(|w| w.layout() == Layout::QuadLines);
        let tiled = in_quad_lines && xs.tiles().tiles_per_band() > 0;
        if let Some(tiles) = kernel.tile_kernel().filter(|_| tiled) {
            let in_cache = BLOCK_BYTES / xs.cols().max(1) / (2 * BAND) * (2 * BAND);
            let block_tokens = in_cache.clamp(*BLOCK_TOKENS.start(), *BLOCK_TOKENS.end());
            return Self { kernel, way: Way::Tiles(tiles), xs, shape: (block_tokens, PAIR) };
        }
        if let Some(lookups) = kernel.lookup_kernel() {
            let rows = matrices.iter().map(|w| w.rows()).max().unwrap_or(0);
            let (min_tokens, min_rows) = lookups.min_shape();
            let plain = |w: &&TernaryMatrix| !matches!(w.scales(), StripScales::Groups { .. });
            let enough = tokens >= min_tokens && rows >= min_rows;
            if enough && in_quad_lines && matrices.iter().all(plain) {
                let shape = lookup_shape(lookups, (tokens, rows), pool.threads());
                return Self { kernel, way: Way::Lookups(lookups), xs, shape };
            }
        }
        Self { kernel, way: Way::Strips, xs, shape: (tokens.max(1), STRIP) }
    }

    fn multiply(&self, w: &TernaryMatrix, block: usize, i: usize, y: &mut Strip<'_, f32>) {
        let (block_tokens, job_rows) = self.shape;
        let first = block * block_tokens;
        let tokens = first..self.xs.rows().len().min(first + block_tokens);
        let xs = &self.xs.rows()[tokens.clone()];
        let strips = i * job_rows / STRIP..w.strips().min((i + 1) * job_rows / STRIP);
        match self.way {
            Way::Tiles(tiles) => tiles.multiply_pair(w, i, self.xs, tokens, y),
            Way::Lookups(lookups) if xs.len() >= lookups.min_shape().0 => {
                lookups.multiply_strips(w, strips, xs, y);
            }
            Way::Lookups(_) | Way::Strips => {
                for (place, strip) in strips.enumerate() {
                    let width = w.strip_rows(strip).len();
                    self.kernel.multiply(w, strip, xs, &mut y.columns(STRIP * place, width));
                }
            }
        }
    }
}

/// Returns the tokens and rows of a job of lookups: as many rows as possible, because tables take time to
/// fill, but two jobs for each thread.
fn lookup_shape(
    lookups: &dyn LookupKernel,
    (tokens, rows): (usize, usize),
    threads: usize,
) -> (usize, usize) {
    let ((_, min_rows), (block_tokens, max_rows)) = (lookups.min_shape(), lookups.max_shape());
    let blocks = tokens.div_ceil(block_tokens);
    let parts = (2 * threads).div_ceil(blocks).min(rows / min_rows).max(rows.div_ceil(max_rows));
    (block_tokens, rows.div_ceil(parts).next_multiple_of(STRIP))
}

#[inline(always)]
pub(crate) fn multiply_strip<C: IntSums>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: &[QuantRow],
    y: &mut Strip<'_, f32>,
) {
    assert!(y.rows() == xs.len() && y.width() == w.strip_rows(strip).len(), "the strip of w");
    assert!(xs.iter().all(|x| x.codes().len() == w.padded_cols()), "one code per column");
    let (whole, rest) = xs.as_chunks::<TOKENS>();
    for (i, xs) in whole.iter().enumerate() {
        multiply_tokens(cpu, w, strip, xs.each_ref(), y, i * TOKENS);
    }
    let done = whole.len() * TOKENS;
    match rest {
        [a, b, c] => multiply_tokens(cpu, w, strip, [a, b, c], y, done),
        [a, b] => multiply_tokens(cpu, w, strip, [a, b], y, done),
        [a] => multiply_tokens(cpu, w, strip, [a], y, done),
        _ => {}
    }
}

/// Multiplies the strip by `T` tokens, the first of which is row `first` of `y`.
#[inline(always)]
fn multiply_tokens<C: IntSums, const T: usize>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: [&QuantRow; T],
    y: &mut Strip<'_, f32>,
    first: usize,
) {
    let results = match w.scales() {
        StripScales::Tensor(scale) => by_row(cpu, w, strip, xs, cpu.splat(*scale)),
        StripScales::Rows(values) => by_row(cpu, w, strip, xs, cpu.load(&values[strip])),
        StripScales::Groups { len, values } => {
            let groups = w.cols().div_ceil(*len);
            let scales = &values[strip * groups..][..groups];
            by_group(cpu, w.strip_lines(strip), xs, *len, scales)
        }
    };
    for (t, results) in results.into_iter().enumerate() {
        match y.row(first + t).as_chunks_mut() {
            ([whole], _) => results.store(whole),
            (_, part) => results.store_tail(part),
        }
    }
}

#[inline(always)]
fn by_row<C: IntSums, const T: usize>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: [&QuantRow; T],
    scales: C::Lanes,
) -> [C::Lanes; T] {
    let (lines, codes) = (w.strip_lines(strip), xs.map(QuantRow::codes));
    let sums = match w.layout() {
        Layout::QuadLines => cpu.line_sums(lines, codes),
        Layout::FiveTrits if cpu.decodes_five_trits() => cpu.five_trit_sums(lines, codes),
        Layout::FiveTrits => sums_by_quad_lines(cpu, lines, codes),
    };
    let mut results = [scales; T];
    for t in 0..T {
        let dots = dot_products(cpu, sums[t], xs[t].sum());
        results[t] = dots.mul(scales).mul(cpu.splat(xs[t].scale()));
    }
    results
}

/// Multiplies quad lines, whose groups end between two lines because they are whole runs.
#[inline(always)]
fn by_group<C: IntSums, const T: usize>(
    cpu: C,
    lines: &[Line],
    xs: [&QuantRow; T],
    group_len: usize,
    scales: &[[f32; STRIP]],
) -> [C::Lanes; T] {
    let mut results = [cpu.splat(0.0); T];
    for (group, (lines, scales)) in lines.chunks(group_len / LINE_COLS).zip(scales).enumerate() {
        let columns = group * group_len..group * group_len + lines.len() * LINE_COLS;
        let sums = cpu.line_sums(lines, xs.map(|x| &x.codes()[columns.clone()]));
        for t in 0..T {
            let runs = &xs[t].run_sums()[columns.start / RUN..columns.end / RUN];
            let dots = dot_products(cpu, sums[t], runs.iter().sum());
            results[t] = dots.mul_add(cpu.load(scales), results[t]);
        }
    }
    for (result, x) in results.iter_mut().zip(xs) {
        *result = result.mul(cpu.splat(x.scale()));
    }
    results
}

/// Converts sums of code times activation to those of trit times activation.
#[inline(always)]
pub(crate) fn dot_products<C: Simd>(cpu: C, sums: [i32; STRIP], activations: i32) -> C::Lanes {
    cpu.load_i32(&sums.map(|sum| sum - activations))
}
