//! Skips the zeros of squared ReLU when one token is decoded.
//!
//! A neuron whose gate is not positive is zero, so its row of `up` need not be read; an activation
//! whose int8 code is zero adds nothing, so its column of `down` need not be read. That takes a second
//! copy of both matrices, by rows and by columns, of the same size. [`SparseMode::Auto`] makes copies
//! only for layers where a probe at load shows that they pay.
//!
//! Dense and sparse products give the same bits. Steps of several tokens are always dense: a row that
//! one token does not need, another does.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use wf_core::{Activation, Dense, Network, TokenId};
use wf_kernels::{NonZeros, QuantBatch, TernaryColumns, TernaryMatrix, TernaryRows};

use crate::compute::Compute;
use crate::forward::Model;
use crate::segment::{Forward, Logits, Segment};
use crate::weights::Weights;

/// Layers in which zeros are skipped. No mode changes a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SparseMode {
    /// Layers where a short probe finds enough zeros, in models too large for the CPU caches.
    #[default]
    Auto,
    /// Every layer.
    On,
    /// No layer.
    Off,
}

impl SparseMode {
    const ALL: [Self; 3] = [Self::Auto, Self::On, Self::Off];
}

impl fmt::Display for SparseMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// Error for a string that names no [`SparseMode`].
#[derive(Debug, thiserror::Error)]
#[error("unknown sparse mode {0:?}: must be auto, on or off")]
pub struct UnknownSparseMode(String);

impl FromStr for SparseMode {
    type Err = UnknownSparseMode;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| UnknownSparseMode(name.to_owned()))
    }
}

/// Zeros counted in one layer: by the probe of [`SparseMode::Auto`], and in tokens whose zeros were
/// skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerSparsity {
    /// Number of tokens counted.
    pub tokens: u64,
    /// Number of neurons counted: those of the layer for each token.
    pub neurons: u64,
    /// Neurons whose gate was not positive.
    pub closed_gates: u64,
    /// Activations whose int8 code was zero.
    pub zero_codes: u64,
    /// Tokens for which rows of `up` were skipped.
    pub sparse_up: u64,
    /// Tokens for which columns of `down` were skipped.
    pub sparse_down: u64,
    /// True if zeros are skipped in this layer.
    pub skips: bool,
}

impl LayerSparsity {
    /// Adds two counts.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            neurons: self.neurons + other.neurons,
            closed_gates: self.closed_gates + other.closed_gates,
            zero_codes: self.zero_codes + other.zero_codes,
            sparse_up: self.sparse_up + other.sparse_up,
            sparse_down: self.sparse_down + other.sparse_down,
            skips: self.skips || other.skips,
        }
    }

    /// Returns the share of gates that were not positive; 0 before the first token.
    pub fn closed_share(&self) -> f64 {
        share(self.closed_gates, self.neurons)
    }

    /// Returns the share of codes that were zero; 0 before the first token.
    pub fn zero_share(&self) -> f64 {
        share(self.zero_codes, self.neurons)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Maximum share of the columns of `down` that are read one by one. In a 2B layer on two threads, 28 %
/// of the columns take 0.72 of the time of a dense product, and all of them 1.2.
const MAX_COLUMNS: f64 = 0.5;

/// Minimum share of zeros in `up` and `down` together for a layer to get copies. On two threads, 61 %
/// saved 3 % of the time of the feed-forward block of a 2B layer, and 80 % saved 43 %.
const MIN_ZEROS: f64 = 0.6;

/// Size of feed-forward weights, in bytes, that exceeds the CPU caches.
const MIN_FFN_BYTES: usize = 32 << 20;

/// Number of tokens of the probe.
const PROBE_TOKENS: usize = 32;

/// Copies and counts of one layer.
#[derive(Default)]
pub(crate) struct SparseLayer {
    copies: Option<(TernaryRows, TernaryColumns)>,
    counts: LayerSparsity,
}

/// State of all layers.
pub(crate) struct Sparse {
    pub(crate) layers: Vec<SparseLayer>,
    pub(crate) step: SparseStep,
}

/// State of one step.
pub(crate) struct SparseStep {
    non_zeros: NonZeros,
    /// True if copies are used.
    skips: bool,
    /// Number of gates that are not positive, while the probe runs.
    closed_gates: Option<AtomicU64>,
}

impl Sparse {
    pub(crate) fn new(network: &Network) -> Self {
        let non_zeros = NonZeros::with_capacity(network.max_ffn_len());
        let step = SparseStep { non_zeros, skips: true, closed_gates: None };
        Self { layers: network.layers.iter().map(|_| SparseLayer::default()).collect(), step }
    }

    /// Size of the copies in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        let copies = self.layers.iter().filter_map(|layer| layer.copies.as_ref());
        copies.map(|(up, down)| up.bytes_len() + down.bytes_len()).sum()
    }
}

impl SparseStep {
    /// Counts the gates that are not positive, while the probe runs.
    pub(crate) fn count_closed(&self, gates: &[f32]) {
        if let Some(count) = &self.closed_gates {
            let closed = gates.iter().filter(|gate| **gate <= 0.0).count();
            count.fetch_add(closed as u64, Ordering::Relaxed);
        }
    }
}

impl SparseLayer {
    /// Computes the neurons and returns `true`, if `x` is one token and this layer has copies.
    pub(crate) fn neurons(
        &mut self,
        cx: &Compute,
        step: &SparseStep,
        gate: &TernaryMatrix,
        x: &QuantBatch,
        neurons: &mut [f32],
    ) -> bool {
        let (Some((up, _)), [x], true) = (&self.copies, x.rows(), step.skips) else { return false };
        let closed = wf_kernels::relu2_neurons(cx.kernel, &cx.pool, (gate, up), x, neurons);
        self.counts.closed_gates += closed as u64;
        self.counts.sparse_up += 1;
        true
    }

    /// Computes `total += down · x`, with the product in `y`, and returns `true`, if `x` is one token,
    /// this layer has copies, and enough codes are zero.
    pub(crate) fn down(
        &mut self,
        cx: &Compute,
        step: &mut SparseStep,
        x: &QuantBatch,
        y: &mut [f32],
        total: &mut [f32],
    ) -> bool {
        if let Some(closed) = &mut step.closed_gates {
            self.counts.closed_gates += std::mem::take(closed.get_mut());
            let zeros = x.rows().iter().map(|row| zeros(&row.codes()[..x.cols()])).sum();
            self.count(x.rows().len(), x.cols(), zeros);
        }
        let (Some((_, down)), [row], true) = (&self.copies, x.rows(), step.skips) else {
            return false;
        };
        step.non_zeros.find(row);
        let non_zeros = &step.non_zeros;
        let pays = non_zeros.len() as f64 <= MAX_COLUMNS * x.cols() as f64;
        if pays {
            wf_kernels::multiply_add_columns(cx.kernel, &cx.pool, down, non_zeros, y, total);
            self.counts.sparse_down += 1;
        }
        self.count(1, x.cols(), x.cols() - step.non_zeros.len());
        pays
    }

    fn count(&mut self, tokens: usize, cols: usize, zeros: usize) {
        self.counts.tokens += tokens as u64;
        self.counts.neurons += (tokens * cols) as u64;
        self.counts.zero_codes += zeros as u64;
    }
}

fn zeros(codes: &[i8]) -> usize {
    codes.iter().filter(|code| **code == 0).count()
}

impl Model {
    /// Returns the sparsity of each layer.
    pub fn layer_sparsity(&self) -> impl ExactSizeIterator<Item = LayerSparsity> {
        let of =
            |layer: &SparseLayer| LayerSparsity { skips: layer.copies.is_some(), ..layer.counts };
        self.sparse.layers.iter().map(of)
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
        let layers = &self.network.layers;
        if !layers.iter().any(|layer| layer.ffn.dense().is_some_and(can_skip)) {
            return;
        }
        match mode {
            SparseMode::Off => return,
            SparseMode::Auto if ffn_bytes(&self.weights) < MIN_FFN_BYTES => return,
            SparseMode::Auto => self.probe(),
            SparseMode::On => {}
        }
        let pool = &self.compute.pool;
        let layers = self.network.layers.iter().zip(&self.weights.layers);
        for (sparse, (recipe, layer)) in self.sparse.layers.iter_mut().zip(layers) {
            let can_skip = recipe.ffn.dense().is_some_and(can_skip);
            if can_skip && (mode == SparseMode::On || pays(&sparse.counts)) {
                let up = TernaryRows::new(pool, &layer.mlp.up);
                sparse.copies = up.zip(TernaryColumns::new(pool, &layer.mlp.down));
            }
        }
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
    dense.activation == Activation::Relu2 && norms.iter().all(Option::is_none)
}

/// Returns `true` if skipping saves enough. `up` and `down` are of the same size.
fn pays(layer: &LayerSparsity) -> bool {
    (layer.closed_share() + layer.zero_share()) / 2.0 >= MIN_ZEROS
}

fn ffn_bytes(weights: &Weights) -> usize {
    let layers = weights.layers.iter().map(|layer| &layer.mlp);
    layers.map(|w| w.gate.bytes_len() + w.up.bytes_len() + w.down.bytes_len()).sum()
}
