//! Drafts that are kept, in a network with recurrent layers: a state moves on only by tokens that are known to stay.

use wf_kernels::Upcoming;

use crate::delta_net::DeltaNetBlock;
use crate::model::Model;
use crate::weights::Mixer;

impl Model {
    /// Moves the state of a sequence, which had drafts in the last pass, on to the end of its first `len` tokens.
    pub(super) fn replay_drafts(&mut self, state: usize, len: usize) {
        let Some(drafts) = self.states.take_drafts(state, len) else { return };
        for layer in 0..self.network.layers.len() {
            let recipe = &self.network.layers[layer].mixer;
            let weights = &self.weights.layers[layer].mixer;
            if let (wf_core::Mixer::DeltaNet(recipe), Mixer::DeltaNet(weights)) = (recipe, weights)
            {
                // Only the recurrence runs again, not the projections around it.
                let block = DeltaNetBlock {
                    recipe,
                    weights,
                    groups: false,
                    columns: [&[]; 2],
                    next: Upcoming::Unknown,
                    residual_scale: None,
                };
                let states = self.states.layer(self.places[layer]);
                block.replay(&self.compute, states, &drafts, &mut self.scratch.delta_net);
            }
        }
    }
}
