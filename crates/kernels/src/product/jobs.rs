//! The division of a product into jobs, and the kernel that runs each.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use super::floats::{WEIGHT_ROWS, multiply_floats};
use crate::line::STRIP;
use crate::ternary::StripScales;
use crate::tiles::{BAND, PAIR};
use crate::{
    Kernel, Layout, LookupKernel, Pool, QuantBatch, QuantRow, Strip, TernaryMatrix, TileKernel,
};

/// Size of the codes of a block of tokens: with the weights, they stay in the second-level cache of CPUs
/// with tiles while a thread multiplies them by one pair of strips after another.
const BLOCK_BYTES: usize = 768 << 10;

/// Numbers of tokens in a block. More share an unpacking of weights; fewer leave no work for some threads.
const BLOCK_TOKENS: RangeInclusive<usize> = 64..=256;

thread_local! {
    /// Products of both rows of a token before they are added, or weights as floats.
    static BUFFER: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Lends a buffer of the thread, whose contents are old numbers.
fn with_buffer(len: usize, work: impl FnOnce(&mut [f32])) {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(buffer.len().max(len), 0.0);
        work(&mut buffer[..len]);
    });
}

/// The division of a product into jobs: blocks of tokens by some output rows.
pub(super) struct Jobs<'a> {
    pub(super) kernel: &'a dyn Kernel,
    way: Way<'a>,
    pub(super) xs: &'a QuantBatch,
    /// Number of tokens and of output rows of a job.
    pub(super) shape: (usize, usize),
}

/// The kernel of the jobs of a product.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// All tokens by one strip.
    Strips,
    /// Pairs of strips. Fewer rows of codes, and those that do not begin a band, are multiplied strip by
    /// strip.
    Tiles { tiles: &'a dyn TileKernel, min_rows: usize },
    /// Many strips. Too few rows of codes are multiplied strip by strip.
    Lookups(&'static dyn LookupKernel),
    /// All tokens by one strip, in floats.
    Floats,
}

impl<'a> Jobs<'a> {
    /// Divides the products of all rows of `xs` with each of `matrices`.
    pub(super) fn new(
        kernel: &'a dyn Kernel,
        pool: &Pool,
        xs: &'a QuantBatch,
        matrices: &[&TernaryMatrix],
    ) -> Self {
        let mut jobs = Self::of_slices(kernel, pool, xs, matrices.iter().copied(), xs.tokens());
        if let Way::Tiles { min_rows, .. } = &mut jobs.way {
            *min_rows = 0;
        }
        jobs
    }

    /// Divides the products of slices of `xs`, the largest of `max_tokens` tokens, with any of `matrices`.
    pub(super) fn of_slices<'w>(
        kernel: &'a dyn Kernel,
        pool: &Pool,
        xs: &'a QuantBatch,
        mut matrices: impl Iterator<Item = &'w TernaryMatrix> + Clone,
        max_tokens: usize,
    ) -> Self {
        let rows_per_token = xs.rows_per_token();
        let all = |way, rows: usize| Self { kernel, way, xs, shape: (max_tokens.max(1), rows) };
        if xs.has_floats() {
            return all(Way::Floats, STRIP);
        }
        let in_quad_lines = matrices.clone().all(|w| w.layout() == Layout::QuadLines);
        let tiled = in_quad_lines && xs.tiles().tiles_per_band() > 0;
        if let Some(tiles) = kernel.tile_kernel().filter(|_| tiled) {
            let in_cache = BLOCK_BYTES / xs.cols().max(1) / (2 * BAND) * (2 * BAND);
            let block_rows = in_cache.clamp(*BLOCK_TOKENS.start(), *BLOCK_TOKENS.end());
            let way = Way::Tiles { tiles, min_rows: tiles.min_tokens() };
            return Self { kernel, way, xs, shape: (block_rows / rows_per_token, PAIR) };
        }
        if let Some(lookups) = kernel.lookup_kernel() {
            let tokens = max_tokens * rows_per_token;
            let rows = matrices.clone().map(TernaryMatrix::rows).max().unwrap_or(0);
            let (min_tokens, min_rows) = lookups.min_shape();
            let plain = |w: &TernaryMatrix| !matches!(w.scales(), StripScales::Groups { .. });
            let enough = tokens >= min_tokens && rows >= min_rows && !xs.has_groups();
            if enough && in_quad_lines && matrices.all(plain) {
                let (block_rows, rows) = lookup_shape(lookups, (tokens, rows), pool.threads());
                let shape = (block_rows / rows_per_token, rows);
                return Self { kernel, way: Way::Lookups(lookups), xs, shape };
            }
        }
        all(Way::Strips, STRIP)
    }

    /// Makes jobs that would have one strip larger, which are then run for a part of the tokens at a time.
    pub(super) fn with_rows_per_job(mut self, rows: usize) -> Self {
        if let Way::Strips = self.way {
            self.shape.1 = rows;
        }
        self
    }

    /// Returns the number of tokens that a job is to be run for at a time: `tokens`, or all of a block if the
    /// preparation of weights or tokens is worth sharing.
    pub(super) fn tokens_at_once(&self, tokens: usize) -> usize {
        match self.way {
            Way::Strips => tokens,
            _ => self.shape.0,
        }
    }

    /// Runs job `i` of a block of tokens.
    pub(super) fn multiply(
        &self,
        w: &TernaryMatrix,
        block: usize,
        i: usize,
        y: &mut Strip<'_, f32>,
    ) {
        let first = block * self.shape.0;
        self.multiply_tokens(w, first..self.xs.tokens().min(first + self.shape.0), i, y);
    }

    /// Multiplies the output rows of job `i` by some tokens, at most a block.
    pub(super) fn multiply_tokens(
        &self,
        w: &TernaryMatrix,
        tokens: Range<usize>,
        i: usize,
        y: &mut Strip<'_, f32>,
    ) {
        if let Way::Floats = self.way {
            let xs = &self.xs.floats()[tokens.start * w.cols()..tokens.end * w.cols()];
            return with_buffer(WEIGHT_ROWS * w.cols(), |weights| {
                multiply_floats(self.kernel, w, w.strip_rows(i), xs, y, weights);
            });
        }
        let rows_per_token = self.xs.rows_per_token();
        let rows = tokens.start * rows_per_token..tokens.end * rows_per_token;
        if rows_per_token == 1 {
            return self.multiply_rows(w, rows, i, y);
        }
        let width = y.width();
        with_buffer(rows.len() * width, |products| {
            self.multiply_rows(w, rows, i, &mut Strip::new(products, width, width, 0));
            for (token, both) in products.chunks_exact(2 * width).enumerate() {
                let (coarse, fine) = both.split_at(width);
                for (y, (coarse, fine)) in y.row(token).iter_mut().zip(coarse.iter().zip(fine)) {
                    *y = coarse + fine;
                }
            }
        });
    }

    /// Multiplies the output rows of job `i` by some rows of codes.
    fn multiply_rows(
        &self,
        w: &TernaryMatrix,
        rows: Range<usize>,
        i: usize,
        y: &mut Strip<'_, f32>,
    ) {
        let job_rows = self.shape.1;
        let strips = i * job_rows / STRIP..w.strips().min((i + 1) * job_rows / STRIP);
        let xs: &[QuantRow] = &self.xs.rows()[rows.clone()];
        match self.way {
            Way::Tiles { tiles, min_rows }
                if rows.len() >= min_rows && rows.start.is_multiple_of(BAND) =>
            {
                tiles.multiply_pair(w, i, self.xs, rows, y);
            }
            Way::Lookups(lookups) if xs.len() >= lookups.min_shape().0 => {
                lookups.multiply_strips(w, strips, xs, y);
            }
            _ => {
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
