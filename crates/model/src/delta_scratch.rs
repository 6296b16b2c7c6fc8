//! Buffers of gated DeltaNet blocks.

use std::ops::Range;

use wf_core::{DeltaNet, Network};

use crate::segment::Segment;

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
    /// State and rows of each segment.
    pub(crate) slots: Vec<usize>,
    pub(crate) slices: Vec<Range<usize>>,
}

impl DeltaScratch {
    pub(crate) fn new(network: &Network, max_rows: usize) -> Self {
        let floats =
            |size: fn(&DeltaNet) -> usize| vec![0.0; max_rows * network.max_delta_net(size)];
        let segments = if network.is_recurrent() { max_rows } else { 0 };
        Self {
            inputs: floats(DeltaNet::channels),
            mixed: floats(DeltaNet::channels),
            gates: floats(|recipe| 2 * recipe.value_heads),
            output_gate: floats(DeltaNet::value_len),
            heads: floats(DeltaNet::value_len),
            slots: Vec::with_capacity(segments),
            slices: Vec::with_capacity(segments),
        }
    }

    /// Notes the states and rows of the segments of a step, if the network has recurrent layers.
    pub(crate) fn place(&mut self, batch: &[Segment<'_>]) {
        if self.inputs.is_empty() {
            return;
        }
        self.slots.clear();
        self.slices.clear();
        let mut first = 0;
        for segment in batch.iter().filter(|segment| !segment.tokens.is_empty()) {
            self.slots.push(segment.state);
            self.slices.push(first..first + segment.tokens.len());
            first += segment.tokens.len();
        }
    }
}
