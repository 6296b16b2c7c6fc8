//! The draft model, which runs before a step, and the states of recurrent layers, which are kept after it.

use wf_model::Forward;

use super::Engine;

impl<F: Forward> Engine<F> {
    /// Runs the draft model for the sequences that use it.
    pub(super) fn draft(&mut self, shares: &[usize]) {
        let Some(drafter) = &mut self.drafter else { return };
        let running = self.running.iter_mut().zip(shares);
        let requests = running.filter_map(|(sequence, share)| sequence.draft_request(*share));
        let mut drafts = drafter.draft(requests.collect());
        self.costs.record_draft(drafter.passes, drafter.time.as_secs_f64());
        for sequence in &mut self.running {
            if let Some(draft) = drafts.remove(&sequence.rank) {
                sequence.state.draft = draft;
            }
        }
    }

    /// Copies the states of sequences that have reached a page border, for prompts that begin alike.
    pub(super) fn keep_states(&mut self) {
        for sequence in self.running.iter().filter(|sequence| sequence.is_moving) {
            if let Some((state, copy)) = sequence.kept_state(&mut self.store) {
                self.model.copy_state(state, copy);
            }
        }
    }
}
