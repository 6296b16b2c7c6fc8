//! The states that a prediction head continues from.

use wf_core::Network;

/// States after the final norm, of the last token that each recurrent state has seen.
pub(crate) struct Ends {
    /// Length of a state; 0 without a prediction head.
    len: usize,
    /// One for each slot.
    pub(super) hidden: Vec<f32>,
    /// The head's own for each slot, behind drafts that it made, and their positions.
    drafted: Vec<f32>,
    drafted_at: Vec<usize>,
    /// Those of the drafts of a step.
    pub(super) of_drafts: Vec<f32>,
}

impl Ends {
    pub(crate) fn new(network: &Network, slots: usize, max_drafts: usize) -> Self {
        let len = if network.mtp.is_some() { network.hidden_len } else { 0 };
        Self {
            len,
            hidden: vec![0.0; slots * len],
            drafted: vec![0.0; slots * len],
            drafted_at: vec![0; slots],
            of_drafts: vec![0.0; max_drafts * len],
        }
    }

    /// Number of floats of each slot.
    pub(crate) fn floats(network: &Network) -> usize {
        if network.mtp.is_some() { 2 * network.hidden_len } else { 0 }
    }

    pub(crate) fn copy(&mut self, from: usize, to: usize) {
        self.hidden.copy_within(from * self.len..(from + 1) * self.len, to * self.len);
    }

    /// Makes the state of a draft of the last step the end of a slot.
    pub(crate) fn keep_draft(&mut self, slot: usize, draft: usize) {
        let Self { len, hidden, of_drafts, .. } = self;
        hidden[slot * *len..][..*len].copy_from_slice(&of_drafts[draft * *len..][..*len]);
    }

    /// Returns the state before position `at` of a sequence whose recurrent state ends at `end`.
    ///
    /// # Panics
    ///
    /// If it is neither the end nor behind a draft of the head.
    pub(super) fn before(&self, slot: usize, at: usize, end: usize) -> &[f32] {
        let states = if at == end {
            &self.hidden
        } else {
            assert_eq!(
                self.drafted_at[slot], at,
                "drafts of the prediction head follow each other"
            );
            &self.drafted
        };
        &states[slot * self.len..][..self.len]
    }

    /// Keeps the head's own state behind a draft at position `at`.
    pub(super) fn set_drafted(&mut self, slot: usize, at: usize, state: &[f32]) {
        self.drafted[slot * self.len..][..self.len].copy_from_slice(state);
        self.drafted_at[slot] = at + 1;
    }
}
