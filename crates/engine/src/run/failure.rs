//! The end of a step that panicked.

use wf_model::Forward;

use super::Engine;
use crate::drafter::Drafter;
use crate::output::FinishReason;
use crate::store::PageStore;

impl<F: Forward> Engine<F> {
    /// Ends all running requests after a panic, and discards all pages: their contents are unknown.
    pub(super) fn fail_running(&mut self) {
        self.stats.lock().failed_steps += 1;
        // Some may have ended in the step, before it panicked.
        for mut sequence in self.running.drain(..).filter(|sequence| !sequence.finished) {
            sequence.finish(FinishReason::Failed);
        }
        let window = self.model.attention().window();
        self.store = PageStore::new(self.model.pages(), self.model.states(), window);
        self.drafter.iter_mut().for_each(Drafter::reset);
    }
}
