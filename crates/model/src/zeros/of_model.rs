//! The activations that a model sets to zero, and the magnitudes that it counts.

use wf_kernels::Zeroing;

use super::{LayerZeros, Magnitudes, ProductInput};
use crate::model::Model;

impl Model {
    /// Sets activations to zero from the next step on: in each layer, those that its entry of `zeros` says. Keys and
    /// values depend on it, so those computed before are not to be read afterwards.
    ///
    /// # Panics
    ///
    /// If there is not one entry per layer.
    pub fn set_zeros(&mut self, zeros: &[LayerZeros]) {
        assert_eq!(zeros.len(), self.network.layers.len(), "one entry per layer");
        self.zeros = zeros.to_vec();
    }

    /// Returns what each layer's inputs lose.
    pub fn zeros(&self) -> &[LayerZeros] {
        &self.zeros
    }

    /// Returns what an input of a layer loses. A share of the neurons counts those that were dropped.
    pub(crate) fn zeroing(&self, layer: usize, input: ProductInput) -> Zeroing {
        let zeroing = self.zeros[layer][input as usize];
        let recipe = self.network.layers[layer].ffn.dense();
        let weights = self.weights.layers[layer].ffn.dense();
        match (zeroing, input, recipe, weights) {
            (Zeroing::AllBut(share), ProductInput::Neurons, Some(recipe), Some(weights)) => {
                let cols = weights.down.cols();
                Zeroing::AllBut(Zeroing::kept(share, recipe.ffn_len).min(cols) as f32 / cols as f32)
            }
            _ => zeroing,
        }
    }

    /// Starts to count the magnitudes of each input of each layer.
    pub fn count_magnitudes(&mut self) {
        let layer = || std::array::from_fn(|_| Magnitudes::new());
        self.magnitudes = Some(self.network.layers.iter().map(|_| layer()).collect());
    }

    /// Stops counting and returns the counts, in the order of [`ProductInput::ALL`] for each layer; none if they were
    /// not counted.
    pub fn take_magnitudes(&mut self) -> Vec<[Magnitudes; 4]> {
        self.magnitudes.take().unwrap_or_default()
    }

    /// Counts the magnitudes of inputs that a layer has just multiplied.
    pub(crate) fn observe(&mut self, layer: usize, inputs: [ProductInput; 2]) {
        let Some(counts) = &mut self.magnitudes else { return };
        let s = &self.scratch;
        for input in inputs {
            let codes = match input {
                ProductInput::Mixer => &s.attn_in,
                ProductInput::Heads => &s.attn_out,
                ProductInput::Ffn => &s.ffn_in,
                ProductInput::Neurons => &s.ffn_mid,
            };
            counts[layer][input as usize].add(codes.batch().magnitudes());
        }
    }
}
