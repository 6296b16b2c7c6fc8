//! Sinks of a sliding window: the first positions of a sequence, which rows see apart from their window, with
//! queries of their own.

use wf_core::Window;
use wf_kernels::{CHUNK, Queries};

use super::{TiledStep, sharing};

/// Queries for the first positions of sequences, over which a window has slid.
#[derive(Clone, Copy)]
pub(crate) struct SinkQueries<'a> {
    pub(crate) window: Window,
    /// Number of first positions that each row sees apart from its window.
    pub(crate) sunk: &'a [usize],
    pub(crate) query: &'a [f32],
}

impl<'a> TiledStep<'a> {
    pub(super) fn sink_chunks(&self) -> usize {
        self.step.sinks.map_or(0, |sinks| sinks.window.sinks.div_ceil(CHUNK))
    }

    /// Returns the queries for the first positions of the rows that do not see them in their window.
    pub(super) fn sink_queries(
        &self,
        first: usize,
        rows: usize,
        kv_head: usize,
    ) -> Option<Queries<'a>> {
        let SinkQueries { sunk, query, .. } = self.step.sinks?;
        let stride = self.step.recipe.query_len();
        Some(Queries {
            data: &query[first * stride + kv_head * self.width()..],
            stride,
            heads: sharing(self.step.recipe),
            visible: &sunk[first..first + rows],
            window: None,
            sinks: 0,
            scale: self.scale,
        })
    }
}
