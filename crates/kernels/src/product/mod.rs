//! Products of ternary matrices and int8 rows.
//!
//! With trit = code - 1, the dot product of trits and activations is `sum(code * a) - sum(a)`, from
//! the exact integer sums of [`IntSums`]. The same few float operations follow for each output, so the
//! product has one definition:
//!
//! - one scale per matrix or row: `(d as f32 * scale) * x_scale`;
//! - one scale per group: `acc = fma(d_group as f32, scale_group, acc)` for the groups in order,
//!   starting at 0, and then `acc * x_scale`;
//! - activations with a scale per group of 128 columns: `acc = fma(d_piece as f32 * x_scale_piece, scale_piece,
//!   acc)` for pieces of columns in which no scale changes, in order, starting at 0;
//! - activations of two rows of codes: the sum of both products;
//! - activations in floats: the dot product of [`dots`](crate::TableKernel::dots) with the weights as floats.

mod floats;
mod jobs;
mod relu2;
mod slices;
pub(crate) mod strip;

use std::ops::Range;

use crate::line::STRIP;
use crate::{Kernel, Pool, QuantBatch, Strip, TernaryMatrix};
use jobs::Jobs;
pub use relu2::{Relu2Counts, Relu2Matrices, multiply_relu2};
pub use slices::{multiply_gated_slices, multiply_slices, slice_alignment};
pub(crate) use strip::multiply_strip;

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
        assert_eq!(y.len(), xs.tokens() * w.rows(), "one result per token and row");
        (y, w.rows())
    });
    let jobs = Jobs::new(kernel, pool, xs, &matrices);
    pool.tiles_of_each(results, jobs.shape, |m, block, i, mut y| {
        jobs.multiply(matrices[m], block, i, &mut y);
    });
}

/// Buffers of [`multiply_add`] and [`multiply_gated`], one for each thread, for the products of a job.
pub struct ProductScratch(Vec<Vec<f32>>);

impl ProductScratch {
    /// Creates empty buffers.
    pub fn new(threads: usize) -> Self {
        Self(vec![Vec::new(); threads])
    }

    /// Makes room in each buffer for `products` products of a job, of matrices of `rows` rows.
    fn reserve_for(
        &mut self,
        jobs: &Jobs<'_>,
        tokens: usize,
        (products, rows): (usize, usize),
    ) -> &mut [Vec<f32>] {
        let len = products * jobs.shape.0.min(tokens) * jobs.shape.1.min(rows);
        for buffer in &mut self.0 {
            buffer.resize(buffer.len().max(len), 0.0);
        }
        &mut self.0
    }
}

/// Computes `total += xs * w`, with the product that [`multiply`] computes. The products of a job stay in the
/// cache of its thread. Does not allocate if a product of this shape was computed before.
///
/// # Panics
///
/// Panics if the shapes do not match, or if there are fewer buffers than threads.
pub fn multiply_add(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryMatrix,
    xs: &QuantBatch,
    (total, scratch): (&mut [f32], &mut ProductScratch),
) {
    assert_eq!(total.len(), xs.tokens() * w.rows(), "one result per token and row");
    let jobs = Jobs::new(kernel, pool, xs, &[w]);
    let buffers = scratch.reserve_for(&jobs, xs.tokens(), (1, w.rows()));
    pool.tiles_with((total, w.rows()), jobs.shape, buffers, |block, i, mut total, products| {
        let width = total.width();
        let products = &mut products[..total.rows() * width];
        jobs.multiply(w, block, i, &mut Strip::new(products, width, width, 0));
        for (token, products) in products.chunks_exact(width).enumerate() {
            for (total, product) in total.row(token).iter_mut().zip(products) {
                *total += *product;
            }
        }
    });
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
    (y, scratch): (&mut [f32], &mut ProductScratch),
    activate: impl Fn(&mut [f32], &mut [f32]) + Sync,
) {
    assert_eq!(gate.rows(), up.rows(), "two matrices of one shape");
    assert_eq!(y.len(), xs.tokens() * gate.rows(), "one result per token and row");
    let jobs = Jobs::new(kernel, pool, xs, &[gate, up]);
    let (buffers, block_tokens) =
        (scratch.reserve_for(&jobs, xs.tokens(), (2, gate.rows())), jobs.shape.0);
    pool.tiles_with((y, gate.rows()), jobs.shape, buffers, |block, i, mut y, products| {
        let first = block * block_tokens;
        let tokens = first..first + y.rows();
        multiply_both(&jobs, (gate, up), (tokens, i), &mut y, products, &activate);
    });
}

/// Multiplies the output rows of job `i` of two matrices by some tokens, and activates the products.
fn multiply_both(
    jobs: &Jobs<'_>,
    (gate, up): (&TernaryMatrix, &TernaryMatrix),
    (tokens, i): (Range<usize>, usize),
    y: &mut Strip<'_, f32>,
    products: &mut [f32],
    activate: &(impl Fn(&mut [f32], &mut [f32]) + Sync),
) {
    let (width, len) = (y.width(), y.rows() * y.width());
    let (first, second) = products[..2 * len].split_at_mut(len);
    jobs.multiply_tokens(gate, tokens.clone(), i, &mut Strip::new(first, width, width, 0));
    jobs.multiply_tokens(up, tokens, i, &mut Strip::new(second, width, width, 0));
    activate(first, second);
    for (token, results) in first.chunks_exact(width).enumerate() {
        copy_strips(results, y.row(token));
    }
}

/// Copies a few strips, without a call for each row as `copy_from_slice` makes.
fn copy_strips(from: &[f32], to: &mut [f32]) {
    let ((from, from_rest), (to, to_rest)) =
        (from.as_chunks::<STRIP>(), to.as_chunks_mut::<STRIP>());
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    to_rest.copy_from_slice(from_rest);
}
