//! The KV cache: pages of keys and values.
//!
//! A sequence is known by its list of pages; the owner of a page is not known here. The memory layout
//! of a page belongs to the kernels ([`KvStore`]). Attention always reads keys and values back from
//! the pages, also those of the same step, so a cached prefix equals a computed one for every type.

mod bytes;
mod summaries;

use wf_core::Network;
pub use wf_kernels::{KvDtype, PAGE_LEN, PAGE_VERSION, UnknownKvDtype};
use wf_kernels::{KvHead, KvRows, KvShape, KvSlot, KvStore};

use crate::compute::Compute;

/// Index of a page.
pub type PageId = u32;

/// All pages of all layers, allocated up front.
pub struct KvPool {
    store: KvStore,
    /// Pages that the rows of a step have filled.
    full: Vec<PageId>,
}

impl KvPool {
    /// Allocates `pages` pages for each layer of `network` that has attention, and for its prediction head.
    pub fn new(network: &Network, dtype: KvDtype, pages: usize) -> Self {
        Self { store: KvStore::new(dtype, shape(network, pages)), full: Vec::new() }
    }

    /// Number of pages of each layer.
    pub fn pages(&self) -> usize {
        self.store.shape().pages
    }

    /// Data type of the keys and values.
    pub fn dtype(&self) -> KvDtype {
        self.store.dtype()
    }

    /// Returns `true` if `other` has the same number of pages for the same network, with or without
    /// summaries.
    pub(crate) fn has_shape_of(&self, other: &Self) -> bool {
        self.store.shape() == other.store.shape()
            && self.store.has_summaries() == other.store.has_summaries()
    }

    /// Writes the keys and values of some tokens to a layer. `slot` returns the pages and the position of
    /// each.
    pub(crate) fn write<'p>(
        &mut self,
        cx: &Compute,
        layer: usize,
        (keys, values): (&[f32], &[f32]),
        slot: impl Fn(usize) -> (&'p [PageId], usize) + Sync,
    ) {
        let slot = |row| {
            let (pages, position) = slot(row);
            KvSlot::new(layer, pages, position)
        };
        let rows = KvRows { keys, values, slot };
        self.store.write_rows(cx.kernel, &cx.pool, layer, rows);
    }

    /// Returns the number of elements of the keys of a position, and of its values.
    pub(crate) fn row_len(&self) -> usize {
        self.store.shape().heads * self.store.shape().head_dim
    }

    /// Returns one K/V head of a layer, seen through the pages of a sequence.
    pub(crate) fn head<'a>(&'a self, layer: usize, head: usize, pages: &'a [PageId]) -> KvHead<'a> {
        self.store.head(layer, head, pages)
    }
}

/// All layers with attention have as many K/V heads of one length: `Network::check` rejects others.
fn shape(network: &Network, pages: usize) -> KvShape {
    let heads = network.max_attention(|attention| attention.kv_heads);
    let head_dim = network.max_attention(|attention| attention.head_dim);
    KvShape { layers: network.kv_layers(), pages, heads, head_dim }
}
