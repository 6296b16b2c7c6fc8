//! Attention in jobs of one chunk each, for steps with few tiles.

use wf_kernels::{AttendScratch, attend_parts, clear_parts, finish_parts, part_len};

use super::{AttendStep, TiledStep, sharing};

impl AttendStep<'_> {
    /// Joins the chunks of each tile of `tile_rows` rows, and computes the results of all heads.
    pub(crate) fn finish_chunks(
        &self,
        tile_rows: usize,
        (parts, slot_len): (&mut [f32], usize),
        chunks: usize,
        heads: &mut [f32],
    ) {
        let (kv_heads, head_dim) = (self.recipe.kv_heads, self.recipe.head_dim);
        let part_len = part_len(head_dim);
        let row_len = sharing(self.recipe) * part_len;
        // The chunks of each tile are joined in the slot of the first.
        self.cx.pool.rows(parts, chunks * slot_len, |_, slots| {
            let (first, later) = slots.split_at_mut(slot_len);
            for next in later.chunks_exact(slot_len) {
                self.cx.kernel.join_chunks(part_len, first, next);
            }
        });
        let parts = &*parts;
        for (job, out) in heads.chunks_exact_mut(sharing(self.recipe) * head_dim).enumerate() {
            let (row, kv_head) = (job / kv_heads, job % kv_heads);
            let tile = row / tile_rows * kv_heads + kv_head;
            let slot = &parts[tile * chunks * slot_len..][row % tile_rows * row_len..];
            finish_parts(&slot[..row_len], head_dim, out);
        }
    }
}

impl TiledStep<'_> {
    /// Runs one job per chunk of a tile, then joins the chunks.
    pub(super) fn run_chunks(
        &self,
        parts: &mut [f32],
        slot_len: usize,
        scratch: &mut [AttendScratch],
        heads: &mut [f32],
    ) {
        let &Self { step, tile_rows, .. } = self;
        let (kernel, kv_heads) = (step.cx.kernel, step.recipe.kv_heads);
        let part_len = part_len(step.recipe.head_dim);
        let row_len = sharing(step.recipe) * part_len;
        let tiles = step.rows.len().div_ceil(tile_rows) * kv_heads;
        let chunks = parts.len() / slot_len / tiles;
        step.cx.pool.rows_with(parts, slot_len, scratch, |job, slot, s| {
            let (tile, chunk) = (job / chunks, job % chunks);
            let start = tile / kv_heads * tile_rows;
            for (first, run) in self.runs(start) {
                let (q, kv) = self.queries(first, run, tile % kv_heads);
                let parts = &mut slot[(first - start) * row_len..][..run * row_len];
                let (q, chunk) = match self.sink_queries(first, run, tile % kv_heads) {
                    Some(sinks) if chunk < self.sink_chunks() => (sinks, chunk),
                    _ => (q, q.chunks().start + chunk - self.sink_chunks()),
                };
                if q.chunks().contains(&chunk) {
                    s.prepare(kernel, &q, &kv);
                    attend_parts(kernel, &q, &kv, chunk, s, parts);
                } else {
                    clear_parts(parts);
                }
            }
        });
        step.finish_chunks(tile_rows, (parts, slot_len), chunks, heads);
    }

    /// Returns the number of chunks that the rows of a tile read at most: those of sinks, then those of each run
    /// of rows from its first one on.
    pub(super) fn chunks(&self) -> usize {
        let starts = (0..self.step.rows.len()).step_by(self.tile_rows);
        let runs = starts.flat_map(|start| self.runs(start));
        let chunks = runs.map(|(first, run)| self.queries(first, run, 0).0.chunks().len());
        chunks.max().unwrap_or(0) + self.sink_chunks()
    }
}
