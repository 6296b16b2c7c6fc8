//! Queries for the sinks of a sliding window.

use wf_core::Window;

use super::AttentionBlock;
use crate::compute::Compute;
use crate::segment::Row;

impl AttentionBlock<'_> {
    /// Copies the queries of rows that see sinks apart from their window, rotated by their place among what they
    /// see.
    pub(super) fn rotate_to_sinks(
        &self,
        cx: &Compute,
        window: Window,
        rows: &[Row],
        (sunk, visible): (&[usize], &[usize]),
        (query, out): (&[f32], &mut [f32]),
    ) {
        let len = self.recipe.query_len();
        cx.pool.rows(out, len, |row, out| {
            if sunk[row] > 0 {
                out.copy_from_slice(&query[row * len..][..len]);
                let place = window.place(rows[row].position, visible[row]);
                for head in out.chunks_exact_mut(self.recipe.head_dim) {
                    self.rotate(cx, (row, place), head);
                }
            }
        });
    }
}
