//! Gated attention: the projection of queries also has a gate for each of them.

use wf_core::Attention;

use crate::compute::Compute;

/// Copies the queries of each row, which lie beside the gates of their heads.
pub(super) fn take_queries(cx: &Compute, recipe: &Attention, gated: &[f32], query: &mut [f32]) {
    let (len, head_dim) = (recipe.query_len(), recipe.head_dim);
    cx.pool.rows(query, len, |row, query| {
        let pairs = gated[row * 2 * len..][..2 * len].chunks_exact(2 * head_dim);
        for (query, pair) in query.chunks_exact_mut(head_dim).zip(pairs) {
            query.copy_from_slice(&pair[..head_dim]);
        }
    });
}

/// Multiplies each head by the sigmoid of its gate.
pub(super) fn gate_heads(cx: &Compute, recipe: &Attention, gated: &[f32], heads: &mut [f32]) {
    let (len, head_dim) = (recipe.query_len(), recipe.head_dim);
    cx.pool.rows(heads, len, |row, heads| {
        let pairs = gated[row * 2 * len..][..2 * len].chunks_exact(2 * head_dim);
        for (head, pair) in heads.chunks_exact_mut(head_dim).zip(pairs) {
            cx.kernel.sigmoid_mul(head, &pair[head_dim..]);
        }
    });
}
