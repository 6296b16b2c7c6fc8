//! The state of a sequence in a network with recurrent layers.

use super::Sequence;
use crate::prefix::StateId;
use crate::store::PageStore;

impl Sequence {
    /// Returns its state and the number of tokens that it is to have seen after a plan with drafts.
    pub(crate) fn kept_drafts(&self) -> (StateId, usize) {
        (self.held.state(), self.state.kv_len)
    }

    /// Returns the snapshot to start from, and its own state, if it has just started behind cached pages.
    pub(crate) fn restored_state(&self, store: &mut PageStore) -> Option<(StateId, StateId)> {
        store.restored(&self.held)
    }

    /// Returns its state, and the number of a copy to be kept for later prompts, if one is due.
    pub(crate) fn kept_state(&self, store: &mut PageStore) -> Option<(StateId, StateId)> {
        store.keep_state(&self.held, self.state.kv_len, self.state.prompt_len)
    }
}
