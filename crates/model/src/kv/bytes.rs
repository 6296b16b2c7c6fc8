//! The KV cache in bytes: its size, and the contents of a page for a cache on disk.

use wf_core::Network;

use super::{KvDtype, KvPool, PageId, shape};

impl KvPool {
    /// Size of `pages` pages of all layers, in bytes.
    pub fn size_bytes(network: &Network, dtype: KvDtype, pages: usize) -> usize {
        shape(network, pages).size_bytes(dtype)
    }

    /// Returns the size of one page of all layers in bytes.
    pub(crate) fn page_size_bytes(&self) -> usize {
        self.store.page_size_bytes()
    }

    /// Appends the bytes of a page of all layers to `out`.
    pub(crate) fn read_page(&self, page: PageId, out: &mut Vec<u8>) {
        self.store.read_page(page, out);
    }

    /// Sets a page of all layers to bytes that were read from one.
    pub(crate) fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.store.write_page(page, bytes);
    }
}
