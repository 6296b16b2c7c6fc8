//! Copies of projections by column, for steps of one token that do not read the columns of zeros.
//!
//! A copy takes as much memory as the matrix, which stays: prompts and batches read it once for many tokens.

mod of_model;

use wf_kernels::TernaryColumns;

use crate::zeros::ProductInput;

/// Copies of the matrices that are multiplied by each input of a layer; none where nothing is skipped.
type LayerColumns = [Vec<TernaryColumns>; 4];

#[derive(Default)]
pub(crate) struct Columns {
    layers: Vec<LayerColumns>,
    /// True while copies are not used, to compare speeds.
    suspended: bool,
}

impl Columns {
    /// Returns the copies for an input of a layer, if they are used.
    pub(crate) fn of(&self, layer: usize, input: ProductInput) -> &[TernaryColumns] {
        match self.layers.get(layer) {
            Some(copies) if !self.suspended => &copies[input as usize],
            _ => &[],
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.layers.iter().flatten().flatten().map(TernaryColumns::bytes_len).sum()
    }

    fn has(&self, input: ProductInput) -> bool {
        self.layers.iter().any(|copies| !copies[input as usize].is_empty())
    }
}
