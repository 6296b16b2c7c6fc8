//! Products of slices of a batch, each with matrices of its own, in one run.

use std::ops::Range;

use super::ProductScratch;
use super::jobs::Jobs;
use crate::tiles::BAND;
use crate::{Kernel, Pool, QuantBatch, Strip, TernaryMatrix};

/// Returns the number of rows of codes that slices, the largest of `max_rows` rows, should begin at multiples of
/// for `kernel` to be fastest.
pub fn slice_alignment(kernel: &dyn Kernel, max_rows: usize) -> usize {
    let tiled = kernel.tile_kernel().is_some_and(|tiles| max_rows >= tiles.min_tokens());
    if tiled { BAND } else { 1 }
}

/// Multiplies the tokens `slices[n]` of `xs` by `matrix(n)`, as [`multiply`](crate::multiply) does, in one run
/// for all slices. Matrices have one shape. Rows of `y` that belong to no slice keep their values. Does not allocate if a product of this
/// shape was computed before.
///
/// # Panics
///
/// Panics if the shapes do not match, or if slices are not in ascending order without overlap.
pub fn multiply_slices<'w>(
    kernel: &dyn Kernel,
    pool: &Pool,
    slices: &[Range<usize>],
    matrix: impl Fn(usize) -> &'w TernaryMatrix + Sync,
    xs: &QuantBatch,
    y: &mut [f32],
) {
    let matrices = (0..slices.len()).map(&matrix);
    let Some(rows) = common_rows(matrices.clone()) else { return };
    let jobs = Jobs::of_slices(kernel, pool, xs, matrices, max_tokens(slices));
    let out = (y, rows);
    let mut no_scratch = vec![(); pool.threads()];
    run(pool, slices, out, &jobs, &mut no_scratch, |n, tokens, i, y, ()| {
        jobs.multiply_tokens(matrix(n), tokens, i, y);
    });
}

/// Multiplies each slice of `xs` by its two matrices as [`multiply_gated`](crate::multiply_gated) does, in one
/// run. Otherwise as [`multiply_slices`].
///
/// # Panics
///
/// Panics as [`multiply_slices`] does, and if there are fewer buffers than threads.
pub fn multiply_gated_slices<'w>(
    kernel: &dyn Kernel,
    pool: &Pool,
    slices: &[Range<usize>],
    matrices: impl Fn(usize) -> (&'w TernaryMatrix, &'w TernaryMatrix) + Sync,
    xs: &QuantBatch,
    (y, scratch): (&mut [f32], &mut ProductScratch),
    activate: impl Fn(&mut [f32], &mut [f32]) + Sync,
) {
    let both = (0..slices.len()).flat_map(|n| <[_; 2]>::from(matrices(n)));
    let Some(rows) = common_rows(both.clone()) else { return };
    let jobs = Jobs::of_slices(kernel, pool, xs, both, max_tokens(slices));
    let buffers = scratch.reserve_for(&jobs, max_tokens(slices), (2, rows));
    let out = (y, rows);
    run(pool, slices, out, &jobs, buffers, |n, tokens, i, y, products| {
        super::multiply_both(&jobs, matrices(n), (tokens, i), y, products, &activate);
    });
}

/// Returns the number of rows that all matrices have, or `None` if there is no matrix.
fn common_rows<'w>(mut matrices: impl Iterator<Item = &'w TernaryMatrix>) -> Option<usize> {
    let rows = matrices.next()?.rows();
    assert!(matrices.all(|w| w.rows() == rows), "matrices of one shape");
    Some(rows)
}

fn max_tokens(slices: &[Range<usize>]) -> usize {
    slices.iter().map(|tokens| tokens.len()).max().unwrap_or(0)
}

/// Calls `multiply(n, tokens, i, y, scratch)` for blocks of tokens of each slice `n` and each job `i`.
fn run<S: Send>(
    pool: &Pool,
    slices: &[Range<usize>],
    y: (&mut [f32], usize),
    jobs: &Jobs<'_>,
    scratch: &mut [S],
    multiply: impl Fn(usize, Range<usize>, usize, &mut Strip<'_, f32>, &mut S) + Sync,
) {
    let (block_tokens, job_rows) = jobs.shape;
    pool.slices_with(y, slices, job_rows, scratch, |n, i, mut y, scratch| {
        let tokens = slices[n].clone();
        for first in tokens.clone().step_by(block_tokens) {
            let block = first..tokens.end.min(first + block_tokens);
            let mut y = y.some_rows(first - tokens.start, block.len());
            multiply(n, block, i, &mut y, scratch);
        }
    });
}
