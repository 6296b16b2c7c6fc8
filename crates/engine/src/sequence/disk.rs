//! Pages of a sequence that the prefix cache on disk has, or gets.

use wf_model::{PAGE_LEN, PageId};

use super::Sequence;
use crate::disk::{BeforeStart, DiskCache, PageKey, Trail};
use crate::store::PageStore;

impl Sequence {
    /// Puts the pages from disk that follow those in memory into the cache. Returns their number.
    pub(super) fn restore(
        &mut self,
        store: &mut PageStore,
        mut write_page: impl FnMut(PageId, &[u8]),
    ) -> usize {
        let first = self.held.pages().len();
        let mut pages = self.trail.take(first);
        // With a window, what follows would take the places of these.
        pages.truncate(self.max_pages.saturating_sub(self.held.pages_in_sight()));
        if pages.is_empty() || !store.grow(&mut self.held, pages.len()) {
            return 0;
        }
        for (page, bytes) in self.held.pages()[first..].iter().zip(&pages) {
            write_page(*page, bytes);
        }
        let restored_len = self.held.pages().len() * PAGE_LEN;
        store.share(&mut self.held, &self.state.tokens[..restored_len]);
        pages.len()
    }

    /// Looks for the pages on disk that it could use, once.
    pub(crate) fn before_start(
        &mut self,
        disk: &DiskCache,
        store: &PageStore,
        may_fetch: bool,
    ) -> BeforeStart {
        let mut trail = std::mem::take(&mut self.trail);
        let tokens = self.cacheable();
        let in_memory = store.matching(self.tree, tokens);
        // With a window, no more pages are of use than it holds at once.
        let limit = in_memory.saturating_add(self.max_pages).saturating_mul(PAGE_LEN);
        let tokens = &tokens[..limit.min(tokens.len())];
        let next = trail.before_start(disk, self.tree, (tokens, in_memory), may_fetch);
        self.trail = trail;
        next
    }

    /// Returns its pages, as the disk knows them.
    pub(crate) fn trail(&self) -> &Trail {
        &self.trail
    }

    pub(crate) fn trail_mut(&mut self) -> &mut Trail {
        &mut self.trail
    }

    /// Returns the keys of the pages that were filled since the last call, and the pages.
    pub(crate) fn new_full_pages(&mut self, disk: &DiskCache) -> Vec<(PageKey, PageId)> {
        let shared = self.held.shared_pages();
        let tokens = &self.state.tokens[..shared.len() * PAGE_LEN];
        let new = self.trail.new_pages(disk, self.tree, tokens);
        new.into_iter().map(|(at, key)| (key, shared[at])).collect()
    }
}
