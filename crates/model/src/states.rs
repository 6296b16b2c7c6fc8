//! The states of recurrent mixers: memory of a fixed size for each running sequence, beside its pages.
//!
//! A state belongs to one position, the end of the tokens that made it. It can be copied, but neither shared nor
//! wound back: the drafts at the end of a segment run on a copy that is dropped, layer by layer. What is kept of them
//! is their inputs, from which the state is moved on when it is known how many of them stay.

use std::ops::Range;

use wf_core::{DeltaNet, Layer, Network};

use crate::mtp::Ends;
use crate::segment::Segment;

/// States of all recurrent layers, allocated up front.
pub(crate) struct StatePool {
    layers: Vec<LayerStates>,
    /// Number of tokens that made each state.
    lengths: Vec<usize>,
    /// Drafts of the last step.
    drafts: Vec<Drafts>,
    /// State before the next token of each sequence, for the prediction head.
    pub(crate) ends: Ends,
}

/// Drafts of a sequence, which its state has not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drafts {
    pub(crate) slot: usize,
    /// Position of the first of them.
    pub(crate) start: usize,
    /// Their rows among all drafts of the step.
    pub(crate) rows: Range<usize>,
}

/// States of one layer.
pub(crate) struct LayerStates {
    /// For each slot, a matrix for each value head.
    pub(crate) heads: Vec<f32>,
    /// For each slot, the last inputs of the convolution: that of position `p` in row `p` modulo their number.
    pub(crate) history: Vec<f32>,
    /// Inputs of the convolution of the drafts of a step.
    pub(crate) draft_inputs: Vec<f32>,
    /// Their gates: see [`wf_kernels::DeltaInputs::gates`].
    pub(crate) draft_gates: Vec<f32>,
}

impl StatePool {
    /// Maximum number of drafts of a step: those of one sequence, or a few of several.
    pub(crate) const MAX_DRAFTS: usize = 64;

    /// Allocates `slots` states for each recurrent layer of `network`. They take memory only when written.
    pub(crate) fn new(network: &Network, slots: usize) -> Self {
        let layer = |recipe: &DeltaNet| LayerStates {
            heads: vec![0.0; slots * recipe.state_len()],
            history: vec![0.0; slots * recipe.history_len()],
            draft_inputs: vec![0.0; Self::MAX_DRAFTS * recipe.channels()],
            draft_gates: vec![0.0; Self::MAX_DRAFTS * 2 * recipe.value_heads],
        };
        let layers = network.layers.iter().filter_map(Layer::delta_net).map(layer).collect();
        let lengths = vec![0; if network.is_recurrent() { slots } else { 0 }];
        let ends = Ends::new(network, slots, Self::MAX_DRAFTS);
        Self { layers, lengths, drafts: Vec::with_capacity(Self::MAX_DRAFTS), ends }
    }

    /// Size of one state of all layers, in bytes; 0 without recurrent layers.
    pub(crate) fn state_bytes(network: &Network) -> usize {
        let layer = |recipe: &DeltaNet| recipe.state_len() + recipe.history_len();
        let floats: usize = network.layers.iter().filter_map(Layer::delta_net).map(layer).sum();
        (floats + Ends::floats(network)) * size_of::<f32>()
    }

    /// Size of the inputs that are kept of the drafts of a step, in bytes, whatever the number of sequences.
    pub(crate) fn draft_bytes(network: &Network) -> usize {
        let row = |recipe: &DeltaNet| recipe.channels() + 2 * recipe.value_heads;
        let floats: usize = network.layers.iter().filter_map(Layer::delta_net).map(row).sum();
        Self::MAX_DRAFTS * floats * size_of::<f32>()
    }

    /// Number of states.
    pub(crate) fn slots(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the states of a layer, counted among the recurrent ones.
    pub(crate) fn layer(&mut self, index: usize) -> &mut LayerStates {
        &mut self.layers[index]
    }

    /// Prepares the states of the segments of a step, whose tokens they will have seen after it, but for drafts.
    ///
    /// # Panics
    ///
    /// If a segment does not begin where its state ends, or there are too many drafts.
    pub(crate) fn begin(&mut self, batch: &[Segment<'_>]) {
        if self.layers.is_empty() {
            return;
        }
        self.drafts.clear();
        let mut first = 0;
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
            let start = segment.end() - segment.drafts;
            self.lengths[slot] = start;
            if segment.drafts > 0 {
                let rows = first..first + segment.drafts;
                first = rows.end;
                self.drafts.push(Drafts { slot, start, rows });
            }
        }
        assert!(first <= Self::MAX_DRAFTS, "{first} drafts, at most {}", Self::MAX_DRAFTS);
    }

    /// Returns the drafts of state `slot` that are among the first `len` tokens of its sequence, if there are any,
    /// and declares that the state has seen them. The others are dropped.
    ///
    /// # Panics
    ///
    /// If there are not as many drafts.
    pub(crate) fn take_drafts(&mut self, slot: usize, len: usize) -> Option<Drafts> {
        let at = self.drafts.iter().position(|drafts| drafts.slot == slot)?;
        let Drafts { start, rows, .. } = self.drafts.swap_remove(at);
        let kept = len.checked_sub(start).filter(|kept| *kept <= rows.len());
        let kept = kept.unwrap_or_else(|| panic!("{len} tokens, drafts follow {start}"));
        self.lengths[slot] = len;
        if kept > 0 {
            self.ends.keep_draft(slot, rows.start + kept - 1);
        }
        (kept > 0).then(|| Drafts { slot, start, rows: rows.start..rows.start + kept })
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
        self.ends.copy(from, to);
        self.lengths[to] = self.lengths[from];
    }

    /// Returns the number of tokens that made a state.
    pub(crate) fn len(&self, slot: usize) -> usize {
        self.lengths[slot]
    }
}
