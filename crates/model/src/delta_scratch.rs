//! Buffers of gated DeltaNet blocks.

use std::ops::Range;

use wf_core::{DeltaNet, Network};

use crate::segment::Segment;
use crate::states::StatePool;

/// Buffers of a block for a step of some rows.
pub(crate) struct DeltaScratch {
    /// Queries, keys and values before the convolution.
    pub(crate) inputs: Vec<f32>,
    /// The same behind it.
    pub(crate) mixed: Vec<f32>,
    /// Strengths of updates and decays: see [`wf_kernels::DeltaInputs::gates`].
    pub(crate) gates: Vec<f32>,
    pub(crate) output_gate: Vec<f32>,
    pub(crate) heads: Vec<f32>,
    /// State of each segment, and its rows that are no drafts.
    pub(crate) slots: Vec<usize>,
    pub(crate) slices: Vec<Range<usize>>,
    /// The same of segments with drafts, and their drafts.
    pub(crate) draft_slots: Vec<usize>,
    pub(crate) draft_slices: Vec<Range<usize>>,
    /// For each segment with drafts, a copy of the state of a layer.
    pub(crate) draft_states: Vec<f32>,
    /// Numbers of these copies: 0, 1, 2, …
    pub(crate) copies: Vec<usize>,
}

impl DeltaScratch {
    pub(crate) fn new(network: &Network, max_rows: usize) -> Self {
        let floats =
            |size: fn(&DeltaNet) -> usize| vec![0.0; max_rows * network.max_delta_net(size)];
        let segments = if network.is_recurrent() { max_rows } else { 0 };
        let drafts = segments.min(StatePool::MAX_DRAFTS);
        Self {
            inputs: floats(DeltaNet::channels),
            mixed: floats(DeltaNet::channels),
            gates: floats(|recipe| 2 * recipe.value_heads),
            output_gate: floats(DeltaNet::value_len),
            heads: floats(DeltaNet::value_len),
            slots: Vec::with_capacity(segments),
            slices: Vec::with_capacity(segments),
            draft_slots: Vec::with_capacity(drafts),
            draft_slices: Vec::with_capacity(drafts),
            // Takes memory only when written.
            draft_states: vec![0.0; drafts * network.max_delta_net(DeltaNet::state_len)],
            copies: (0..drafts).collect(),
        }
    }

    /// Notes the states and rows of the segments of a step, if the network has recurrent layers.
    pub(crate) fn place(&mut self, batch: &[Segment<'_>]) {
        if self.inputs.is_empty() {
            return;
        }
        self.slots.clear();
        self.slices.clear();
        self.draft_slots.clear();
        self.draft_slices.clear();
        let mut first = 0;
        for segment in batch.iter().filter(|segment| !segment.tokens.is_empty()) {
            let end = first + segment.tokens.len();
            self.slots.push(segment.state);
            self.slices.push(first..end - segment.drafts);
            if segment.drafts > 0 {
                self.draft_slots.push(segment.state);
                self.draft_slices.push(end - segment.drafts..end);
            }
            first = end;
        }
    }
}
