//! Upper bounds on the scores of whole pages, from the summaries of their keys.
//!
//! An element of a query contributes to a score at most its product with the largest element of the page's
//! keys if it is positive, and with the smallest if it is negative. A query is therefore split into its
//! negative and its positive elements, each zero where the other is not.

use super::{AttendScratch, Queries};
use crate::KvDtype;
use crate::half::bf16_to_f32;
use crate::kv::{KvHead, TILE, bf16_operand};
use crate::lanes::{F32x16, Simd};

/// Query heads that share one load of a summary.
const QUERIES_AT_ONCE: usize = 4;

/// Returns the number of floats of a split query.
pub fn split_len(head_dim: usize) -> usize {
    2 * head_dim.next_multiple_of(TILE)
}

impl AttendScratch {
    /// Splits the query heads of `q`, as attention rounds and scales them, into their negative elements,
    /// padded to a multiple of sixteen, and their positive ones: [`split_len`] floats for each head. The
    /// scratch has been prepared for `q`.
    pub fn split_queries(&self, q: &Queries<'_>, kv: &KvHead<'_>, out: &mut [f32]) {
        out.fill(0.0);
        for (query, out) in out.chunks_exact_mut(split_len(kv.head_dim())).enumerate() {
            let (negative, positive) = out.split_at_mut(split_len(kv.head_dim()) / 2);
            for (d, &x) in q.head(query, kv.head_dim()).iter().enumerate() {
                let x = q.scale
                    * match kv.dtype() {
                        KvDtype::Bf16 => bf16_to_f32(bf16_operand(x)),
                        KvDtype::Int8 => {
                            f32::from(self.codes[query].codes()[d]) * self.codes[query].scale()
                        }
                        KvDtype::F32 | KvDtype::F16 | KvDtype::Fp8E4m3 | KvDtype::Fp8E5m2 => x,
                    };
                // A NaN goes into both.
                negative[d] = if x > 0.0 { 0.0 } else { x };
                positive[d] = if x < 0.0 { 0.0 } else { x };
            }
        }
    }
}

#[inline(always)]
pub(crate) fn bound_pages<S: Simd>(
    cpu: S,
    queries: &[f32],
    kv: &KvHead<'_>,
    first_page: usize,
    out: &mut [f32],
) {
    let len = split_len(kv.head_dim());
    let heads = queries.len() / len;
    let pages = out.len() / heads.max(1);
    assert!(heads * len == queries.len() && heads * pages == out.len(), "pages of each head");
    for page in 0..pages {
        let mut head = 0;
        while head + QUERIES_AT_ONCE <= heads {
            let queries = &queries[head * len..][..QUERIES_AT_ONCE * len];
            let bounds = bounds_of_page::<S, QUERIES_AT_ONCE>(cpu, queries, kv, first_page + page);
            for (n, bound) in bounds.into_iter().enumerate() {
                out[(head + n) * pages + page] = bound;
            }
            head += QUERIES_AT_ONCE;
        }
        while head < heads {
            let queries = &queries[head * len..][..len];
            [out[head * pages + page]] =
                bounds_of_page::<S, 1>(cpu, queries, kv, first_page + page);
            head += 1;
        }
    }
}

/// Computes the bounds of one page for `N` query heads.
#[inline(always)]
fn bounds_of_page<S: Simd, const N: usize>(
    cpu: S,
    queries: &[f32],
    kv: &KvHead<'_>,
    page: usize,
) -> [f32; N] {
    let (smallest, largest) = kv.summary(page);
    let (smallest, largest) = (smallest.as_chunks::<TILE>().0, largest.as_chunks::<TILE>().0);
    let queries = queries.as_chunks::<TILE>().0;
    let tiles = smallest.len();
    let mut sums = [cpu.splat(0.0); N];
    for tile in 0..tiles {
        let (low, high) = (cpu.load(&smallest[tile]), cpu.load(&largest[tile]));
        for (n, sum) in sums.iter_mut().enumerate() {
            let negative = cpu.load(&queries[2 * n * tiles + tile]);
            let positive = cpu.load(&queries[(2 * n + 1) * tiles + tile]);
            *sum = high.mul_add(positive, low.mul_add(negative, *sum));
        }
    }
    // Infinity times zero: the page has a key without bounds.
    sums.map(|sum| match sum.sum() {
        bound if bound.is_nan() => f32::INFINITY,
        bound => bound,
    })
}
