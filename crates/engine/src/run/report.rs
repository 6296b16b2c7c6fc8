//! Counters of the engine, reported after each step.

use wf_model::Forward;

use super::Engine;

impl<F: Forward> Engine<F> {
    pub(super) fn report(&self) {
        let zeros = self.model.total_sparsity();
        let mut stats = self.stats.lock();
        stats.running = self.running.iter().filter(|s| !s.finished).count();
        stats.pages_in_use = self.store.in_use();
        stats.cached_pages = self.store.cached();
        stats.neurons = zeros.neurons;
        stats.closed_gates = zeros.closed_gates;
        stats.zero_codes = zeros.zero_codes;
    }
}
