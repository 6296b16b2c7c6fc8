//! Decides at load which layers get copies for skipping zeros, by running a few tokens.

use std::sync::atomic::AtomicU64;

use wf_core::{Activation, ActivationCodes, Dense, TokenId};

use crate::logits::Logits;
use crate::model::Model;
use crate::options::SparseMode;
use crate::segment::{Forward, Segment};
use crate::sparse::LayerSparsity;

/// Minimum share of zeros in `up` and `down` together for a layer to get copies. On two threads, 61 %
/// saved 3 % of the time of the feed-forward block of a 2B layer, and 80 % saved 43 %.
const MIN_ZEROS: f64 = 0.6;

/// Size of feed-forward weights, in bytes, below which no time is worth saving. Weights in the caches gain as well, because
/// their products are skipped, too: the demo model, which has 7 MB of them, decodes 1.6 to 1.85 times as fast on one thread
/// of a Zen 5.
const MIN_FFN_BYTES: usize = 1 << 20;

const PROBE_TOKENS: usize = 32;

impl Model {
    /// Returns the sparsity of each layer.
    pub fn layer_sparsity(&self) -> impl ExactSizeIterator<Item = LayerSparsity> {
        self.sparse.layers.iter().map(|layer| layer.sparsity())
    }

    /// Size in bytes of the copies made for skipping zeros.
    pub fn sparse_size_bytes(&self) -> usize {
        self.sparse.size_bytes()
    }

    /// Enables or disables skipping in layers that have copies, to compare their speed.
    pub fn enable_sparse(&mut self, skips: bool) {
        self.sparse.step.skips = skips;
    }

    /// Makes the copies that `mode` selects.
    pub(crate) fn prepare_sparse(&mut self, mode: SparseMode) {
        // Products that skip zeros multiply codes of eight bits with one scale per token.
        if self.network.activations != ActivationCodes::Int8 {
            return;
        }
        let layers = &self.network.layers;
        if !layers.iter().any(|layer| layer.ffn.dense().is_some_and(can_skip)) {
            return;
        }
        let blocks = self.weights.layers.iter().filter_map(|layer| layer.ffn.dense());
        let sizes = blocks.map(|w| w.gate.bytes_len() + w.up.bytes_len() + w.down.bytes_len());
        match mode {
            SparseMode::Off => return,
            SparseMode::Auto if sizes.sum::<usize>() < MIN_FFN_BYTES => return,
            SparseMode::Auto => self.probe(),
            SparseMode::On => {}
        }
        let layers = self.network.layers.iter().zip(&self.weights.layers);
        for (sparse, (recipe, layer)) in self.sparse.layers.iter_mut().zip(layers) {
            let can_skip = recipe.ffn.dense().is_some_and(can_skip);
            let Some(dense) = layer.ffn.dense().filter(|_| can_skip) else { continue };
            if mode == SparseMode::On || pays(&sparse.sparsity()) {
                sparse.copy(&self.compute.pool, dense);
            }
        }
        self.sparse.reserve(&self.network, self.max_batch_tokens);
    }

    /// Runs a fixed list of tokens and counts zeros. The keys and values they leave in the first page
    /// are overwritten before they can be read.
    fn probe(&mut self) {
        let max = self.max_batch_tokens().min(self.info.context_len);
        let tokens: Vec<TokenId> = (0..PROBE_TOKENS.min(max))
            .map(|i| (i * 7919 % self.network.vocab_len) as TokenId)
            .collect();
        self.sparse.step.closed_gates = Some(AtomicU64::new(0));
        self.forward(&[Segment::causal(&tokens, 0, &[0], &[])], &mut Logits::new(1));
        self.sparse.step.closed_gates = None;
    }
}

/// Returns `true` for a block whose zeros are known from its gates alone.
fn can_skip(dense: &Dense) -> bool {
    let norms = [dense.input_norm, dense.output_norm];
    dense.activation == Activation::Relu2
        && dense.limit.is_none()
        && norms.iter().all(Option::is_none)
}

/// Returns `true` if skipping saves enough. `up` and `down` are of the same size.
fn pays(layer: &LayerSparsity) -> bool {
    (layer.closed_share() + layer.zero_share()) / 2.0 >= MIN_ZEROS
}
