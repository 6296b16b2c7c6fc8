//! Summaries of pages, which attention to selected pages keeps with each.

use wf_core::{AttentionMode, Network};

use super::{KvDtype, KvPool, PageId, shape};
use crate::compute::Compute;

impl KvPool {
    /// Allocates pages as [`new`](Self::new) does, with what `mode` keeps with each.
    pub fn for_mode(network: &Network, dtype: KvDtype, pages: usize, mode: AttentionMode) -> Self {
        let Self { store, .. } = Self::new(network, dtype, pages);
        let selects = mode.selects_pages();
        let store = if selects { store.with_summaries() } else { store };
        Self { store, full: Vec::with_capacity(if selects { pages } else { 0 }) }
    }

    /// Size of `pages` pages of all layers with what `mode` keeps with each, in bytes.
    pub fn size_for_mode(
        network: &Network,
        dtype: KvDtype,
        pages: usize,
        mode: AttentionMode,
    ) -> usize {
        let shape = shape(network, pages);
        let summaries = if mode.selects_pages() { shape.summaries_bytes() } else { 0 };
        shape.size_bytes(dtype).saturating_add(summaries)
    }

    /// Summarizes pages of a layer, which are full, if pages have summaries.
    pub(crate) fn summarize(
        &mut self,
        cx: &Compute,
        layer: usize,
        pages: impl Iterator<Item = PageId>,
    ) {
        if self.store.has_summaries() {
            self.full.clear();
            self.full.extend(pages);
            self.store.summarize(&cx.pool, layer, &self.full);
        }
    }
}
