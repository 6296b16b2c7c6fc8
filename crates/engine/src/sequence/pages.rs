//! Pages of a sequence beside those of the next step: how many it needs to start, pages that it could share, and
//! pages that it gives back.

use wf_model::PAGE_LEN;

use super::Sequence;
use crate::disk::Trail;
use crate::store::{Held, PageStore};

impl Sequence {
    /// Returns the number of pages it needs, beyond those in the cache, for all its tokens and the next one.
    pub(crate) fn pages_needed(&self, store: &PageStore) -> usize {
        let cached = store.in_sight(store.matching(self.tree, self.cacheable()));
        self.pages_for_all().saturating_sub(cached)
    }

    /// Returns the number of pages of all its tokens and the next one, or of those that it holds at once.
    pub(super) fn pages_for_all(&self) -> usize {
        let pages = (self.state.tokens.len() + 1).min(self.state.max_len).div_ceil(PAGE_LEN);
        pages.min(self.max_pages)
    }

    /// Returns `true` if `other`, of the same caller, is about to compute a page that this sequence could then
    /// share. Nobody waits for a caller whose share of a step it does not have.
    pub(crate) fn should_wait_for(&self, other: &Self, store: &PageStore) -> bool {
        let next = store.next_prefix(self.tree, self.cacheable());
        self.tree == other.tree
            && self.origin.party() == other.origin.party()
            && other.is_moving
            && other.state.kv_len < next
            && self.cacheable().len() >= next
            && other.state.tokens.len() >= next
            && self.state.tokens[..next] == other.state.tokens[..next]
    }

    /// Gives back the pages that none of its later tokens sees.
    pub(crate) fn slide(&mut self, store: &mut PageStore) {
        store.slide(&mut self.held, self.state.kv_len);
    }

    /// Releases its pages. The tokens stay, so the same K/V is computed again later.
    pub(crate) fn release(&mut self, store: &mut PageStore) {
        self.state.kv_len = 0;
        self.missing_pages = 0;
        self.task.pages_released();
        self.trail = Trail::default();
        store.release(std::mem::replace(&mut self.held, Held::nothing(self.tree)));
    }
}
