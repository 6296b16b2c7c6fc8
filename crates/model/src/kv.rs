//! Pages of K and V. Knows sequences by their pages; does not know who owns a page.
//!
//! How a page lies in memory is the business of the kernels ([`KvStore`]). Attention always reads K
//! and V back from here, also for the tokens of the same step, so a cached prefix equals a computed
//! one whatever the type.

use wf_formats::ModelConfig;
pub use wf_kernels::{KvDtype, PAGE_LEN, UnknownKvDtype};
use wf_kernels::{KvHead, KvShape, KvStore};

use crate::compute::Compute;

/// The number of a page.
pub type PageId = u32;

/// All pages of all layers, reserved at start.
pub struct KvPool {
    store: KvStore,
}

impl KvPool {
    /// Room for `pages` pages in each layer of `config`.
    pub fn new(config: &ModelConfig, dtype: KvDtype, pages: usize) -> Self {
        Self { store: KvStore::new(dtype, shape(config, pages)) }
    }

    /// Bytes that `pages` pages of `config` take.
    pub fn size_bytes(config: &ModelConfig, dtype: KvDtype, pages: usize) -> usize {
        shape(config, pages).size_bytes(dtype)
    }

    /// How many pages each layer has.
    pub fn pages(&self) -> usize {
        self.store.shape().pages
    }

    /// How K and V are stored.
    pub fn dtype(&self) -> KvDtype {
        self.store.dtype()
    }

    /// Whether pages of `other` can stand in for ours.
    pub(crate) fn is_as_large_as(&self, other: &Self) -> bool {
        self.store.shape() == other.store.shape()
    }

    /// Writes one token's keys and values (all heads, one after another) at `position` of the
    /// sequence whose pages these are.
    pub(crate) fn write(
        &mut self,
        cx: &Compute,
        (layer, pages, position): (usize, &[PageId], usize),
        keys: &[f32],
        values: &[f32],
    ) {
        let place = (layer, pages[position / PAGE_LEN], position % PAGE_LEN);
        self.store.write(cx.kernel, place, keys, values);
    }

    /// One K/V head of a layer, seen through a sequence's pages.
    pub(crate) fn head<'a>(&'a self, layer: usize, head: usize, pages: &'a [PageId]) -> KvHead<'a> {
        self.store.head(layer, head, pages)
    }
}

fn shape(config: &ModelConfig, pages: usize) -> KvShape {
    let (layers, heads, head_dim) = (config.layers, config.kv_heads, config.head_dim);
    KvShape { layers, pages, heads, head_dim }
}
