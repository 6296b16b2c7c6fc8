//! Neurons of squared ReLU for several tokens, each of which skips the rows of `up` whose gate is not positive.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::jobs::Jobs;
use super::{ProductScratch, copy_strips, multiply};
use crate::line::STRIP;
use crate::sparse::JOB_ROWS;
use crate::{Kernel, Pool, QuantBatch, Strip, TernaryMatrix, TernaryRows};

/// Tokens of a job that are multiplied together: their codes, gates and the rows of a job stay in the second-level
/// cache while each token reads its rows.
const TOKENS_AT_ONCE: usize = 128;

/// Minimum number of tokens whose gates are computed job by job. For fewer, computing all gates first takes less time than
/// it costs to store and load them: rows of `gate` and of `up` do not alternate.
const MIN_TOKENS_BY_JOB: usize = 32;

/// Tokens of a job whose rows are prefetched. Later ones find most rows in a cache.
const COLD_TOKENS: usize = 8;

/// Jobs for each thread, so that a slow one delays the others little.
const JOBS_PER_THREAD: usize = 4;

/// The matrices of neurons of squared ReLU.
pub struct Relu2Matrices<'a> {
    /// Rows of gates.
    pub gate: &'a TernaryMatrix,
    /// Rows that gates are multiplied by.
    pub up: &'a TernaryMatrix,
    /// Copy of `up` for tokens that skip rows.
    pub up_rows: &'a TernaryRows,
    /// Largest share of positive gates for which rows are skipped.
    pub max_open: f64,
}

/// Counts of neurons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relu2Counts {
    /// Neurons whose gate was not positive.
    pub closed: usize,
    /// Neurons of tokens that skipped rows of `up`.
    pub skipping: usize,
}

/// Computes `y = relu(xs * gate)² * (xs * up)` for several tokens with the bits of two products and
/// [`FloatKernel::relu2_mul`](crate::FloatKernel::relu2_mul). The gates of many tokens stay in the cache of a thread,
/// which then multiplies all rows of `up` by all tokens, or, where few gates are positive, only the rows that each token
/// needs. Does not allocate if a product of this shape was computed before.
///
/// # Panics
///
/// Panics if the shapes do not match, or if there are fewer buffers than threads.
pub fn multiply_relu2(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &Relu2Matrices<'_>,
    xs: &QuantBatch,
    (y, scratch): (&mut [f32], &mut ProductScratch),
) -> Relu2Counts {
    let rows = w.gate.rows();
    assert!(rows == w.up.rows() && rows == w.up_rows.rows(), "matrices of one shape");
    assert_eq!(y.len(), xs.tokens() * rows, "one result per token and row");
    assert_eq!(xs.rows_per_token(), 1, "one row of codes per token");
    let rows_per_job = (rows / (JOBS_PER_THREAD * pool.threads())).clamp(STRIP, JOB_ROWS);
    let jobs = Jobs::new(kernel, pool, xs, &[w.gate, w.up])
        .with_rows_per_job(rows_per_job.next_multiple_of(STRIP));
    let tokens_at_once = jobs.tokens_at_once(TOKENS_AT_ONCE);
    let block_tokens = jobs.shape.0;
    let buffers = scratch.reserve_for(&jobs, tokens_at_once.min(xs.tokens()), (2, rows));
    let by_job = xs.tokens() >= MIN_TOKENS_BY_JOB;
    if !by_job {
        multiply(kernel, pool, w.gate, xs, y);
    }
    let (closed, skipping) = (AtomicUsize::new(0), AtomicUsize::new(0));
    pool.tiles_with((y, rows), jobs.shape, buffers, |block, i, mut y, products| {
        for done in (0..y.rows()).step_by(tokens_at_once) {
            let mut y = y.some_rows(done, tokens_at_once);
            let first = block * block_tokens + done;
            let tokens = first..first + y.rows();
            let len = y.rows() * y.width();
            let (gates, ups) = products[..2 * len].split_at_mut(len);
            if by_job {
                let gates = &mut Strip::new(gates, y.width(), y.width(), 0);
                jobs.multiply_tokens(w.gate, tokens.clone(), i, gates);
            } else {
                let rows = gates.chunks_exact_mut(y.width()).enumerate();
                rows.for_each(|(token, gates)| copy_strips(y.row(token), gates));
            }
            let found = neurons(&jobs, w, (tokens, i), (gates, ups), &mut y);
            closed.fetch_add(found.closed, Ordering::Relaxed);
            skipping.fetch_add(found.skipping, Ordering::Relaxed);
        }
    });
    Relu2Counts { closed: closed.into_inner(), skipping: skipping.into_inner() }
}

/// Computes the neurons of job `i` for some tokens from their gates.
fn neurons(
    jobs: &Jobs<'_>,
    w: &Relu2Matrices<'_>,
    (tokens, i): (Range<usize>, usize),
    (gates, ups): (&mut [f32], &mut [f32]),
    y: &mut Strip<'_, f32>,
) -> Relu2Counts {
    let (width, len) = (y.width(), gates.len());
    let closed = gates.iter().filter(|gate| **gate <= 0.0).count();
    let skips = (len - closed) as f64 <= w.max_open * len as f64;
    if skips {
        let first_row = i * jobs.shape.1;
        let xs = &jobs.xs.rows()[tokens.clone()];
        for ((token, x), gates) in tokens.zip(xs).zip(gates.chunks_exact_mut(width)) {
            let in_cache = token % jobs.shape.0 >= COLD_TOKENS;
            for (part, gates) in gates.chunks_mut(JOB_ROWS).enumerate() {
                let first_row = first_row + part * JOB_ROWS;
                jobs.kernel.open_neurons(w.up_rows, x, first_row, in_cache, gates);
            }
        }
    } else {
        jobs.multiply_tokens(w.up, tokens, i, &mut Strip::new(ups, width, width, 0));
        jobs.kernel.relu2_mul(gates, ups);
    }
    for (token, neurons) in gates.chunks_exact(width).enumerate() {
        copy_strips(neurons, y.row(token));
    }
    Relu2Counts { closed, skipping: if skips { len } else { 0 } }
}
