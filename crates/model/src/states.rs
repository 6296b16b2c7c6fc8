//! The states of recurrent mixers: memory of a fixed size for each running sequence, beside its pages.
//!
//! A state belongs to one position, the end of the tokens that made it. It can be copied, but neither shared nor
//! wound back.

use wf_core::{DeltaNet, Layer, Network};

use crate::segment::Segment;

/// States of all recurrent layers, allocated up front.
pub(crate) struct StatePool {
    layers: Vec<LayerStates>,
    /// Number of tokens that made each state.
    lengths: Vec<usize>,
}

/// States of one layer.
pub(crate) struct LayerStates {
    /// For each slot, a matrix for each value head.
    pub(crate) heads: Vec<f32>,
    /// For each slot, the last inputs of the convolution: that of position `p` in row `p` modulo their number.
    pub(crate) history: Vec<f32>,
}

impl StatePool {
    /// Allocates `slots` states for each recurrent layer of `network`. They take memory only when written.
    pub(crate) fn new(network: &Network, slots: usize) -> Self {
        let layer = |recipe: &DeltaNet| LayerStates {
            heads: vec![0.0; slots * recipe.state_len()],
            history: vec![0.0; slots * recipe.history_len()],
        };
        let layers = network.layers.iter().filter_map(Layer::delta_net).map(layer).collect();
        Self { layers, lengths: vec![0; if network.is_recurrent() { slots } else { 0 }] }
    }

    /// Size of one state of all layers, in bytes; 0 without recurrent layers.
    pub(crate) fn state_bytes(network: &Network) -> usize {
        let layer = |recipe: &DeltaNet| recipe.state_len() + recipe.history_len();
        let floats: usize = network.layers.iter().filter_map(Layer::delta_net).map(layer).sum();
        floats * size_of::<f32>()
    }

    /// Number of states.
    pub(crate) fn slots(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the states of a layer, counted among the recurrent ones.
    pub(crate) fn layer(&mut self, index: usize) -> &mut LayerStates {
        &mut self.layers[index]
    }

    /// Prepares the states of the segments of a step, whose tokens they will have seen after it.
    ///
    /// # Panics
    ///
    /// If a segment does not begin where its state ends.
    pub(crate) fn begin(&mut self, batch: &[Segment<'_>]) {
        if self.layers.is_empty() {
            return;
        }
        for segment in batch.iter().filter(|segment| !segment.tokens.is_empty()) {
            let slot = segment.state;
            if segment.start == 0 {
                let slots = self.lengths.len();
                for layer in &mut self.layers {
                    let len = layer.heads.len() / slots;
                    layer.heads[slot * len..][..len].fill(0.0);
                }
            } else {
                let (found, start) = (self.lengths[slot], segment.start);
                assert_eq!(found, start, "state {slot} is that of position {found}, not {start}");
            }
            self.lengths[slot] = segment.end();
        }
    }

    /// Declares that every state is that of `len` tokens.
    pub(crate) fn assume(&mut self, len: usize) {
        self.lengths.fill(len);
    }

    /// Copies state `from` to state `to`.
    pub(crate) fn copy(&mut self, from: usize, to: usize) {
        let slots = self.lengths.len();
        for layer in &mut self.layers {
            for part in [&mut layer.heads, &mut layer.history] {
                let len = part.len() / slots;
                part.copy_within(from * len..(from + 1) * len, to * len);
            }
        }
        self.lengths[to] = self.lengths[from];
    }
}
