//! Skipping the zeros of squared ReLU when one token is decoded.
//!
//! A neuron whose gate is not positive is zero, so its row of `up` need not be read; an activation
//! whose int8 code is zero adds nothing, so its column of `down` need not be. That takes a second copy
//! of both matrices, row by row and column by column, which costs as much memory as they do. So
//! [`SparseMode::Auto`] makes copies only for layers where a probe says that they pay.
//!
//! Dense and sparse give the same bits. Steps of several tokens are always dense: what one of them
//! does not need, another does.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use wf_formats::{Activation, ModelConfig};
use wf_kernels::{NonZeros, QuantBatch, TernaryColumns, TernaryMatrix, TernaryRows};

use crate::compute::Compute;
use crate::forward::Model;
use crate::segment::{Forward, Logits, Segment, TokenId};
use crate::weights::Weights;

/// Whether zeros are skipped. No choice changes a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SparseMode {
    /// In layers where a short probe finds enough zeros, of models too large for a cache.
    #[default]
    Auto,
    /// In every layer.
    On,
    /// Nowhere.
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

/// A name that is no sparse mode.
#[derive(Debug, thiserror::Error)]
#[error("unknown sparse mode {0:?}: use auto, on or off")]
pub struct UnknownSparseMode(String);

impl FromStr for SparseMode {
    type Err = UnknownSparseMode;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| UnknownSparseMode(name.to_owned()))
    }
}

/// How many zeros one layer was seen to have: by the probe of [`SparseMode::Auto`], and in every token
/// whose zeros were skipped. Others are not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerSparsity {
    /// Tokens looked at.
    pub tokens: u64,
    /// Neurons looked at: as many for each token as the layer has.
    pub neurons: u64,
    /// Those whose gate was not positive.
    pub closed_gates: u64,
    /// Those whose int8 code was zero.
    pub zero_codes: u64,
    /// Tokens of which rows of `up` were skipped.
    pub sparse_up: u64,
    /// Tokens of which columns of `down` were skipped.
    pub sparse_down: u64,
    /// Whether zeros are skipped in this layer.
    pub skips: bool,
}

impl LayerSparsity {
    /// Both together.
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

    /// The share of gates that were not positive; 0 before the first token.
    pub fn closed_share(&self) -> f64 {
        share(self.closed_gates, self.neurons)
    }

    /// The share of codes that were zero; 0 before the first token.
    pub fn zero_share(&self) -> f64 {
        share(self.zero_codes, self.neurons)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Columns of `down` are read one by one if at most this share of them is needed. Of a 2B layer on
/// two threads, 28 % of the columns take 0.72 of the time of a dense product, and all of them 1.2.
const MOST_COLUMNS: f64 = 0.5;

/// A layer gets copies if zeros make up this share of `up` and `down` together. On two threads, 61 %
/// saved 3 % of the time of the feed-forward half of a 2B layer, and 80 % saved 43 %.
const LEAST_ZEROS: f64 = 0.6;

/// Feed-forward weights below this many bytes are read from a cache anyway.
const WORTH_SKIPPING: usize = 32 << 20;

/// Tokens of the probe.
const PROBE_TOKENS: usize = 32;

/// What the feed-forward half of a layer needs to skip zeros.
#[derive(Default)]
pub(crate) struct SparseLayer {
    copies: Option<(TernaryRows, TernaryColumns)>,
    counts: LayerSparsity,
}

/// All layers, and what they share.
pub(crate) struct Sparse {
    pub(crate) layers: Vec<SparseLayer>,
    pub(crate) step: SparseStep,
}

/// What is known of one step.
pub(crate) struct SparseStep {
    non_zeros: NonZeros,
    /// Whether copies are used where there are any.
    skips: bool,
    /// Gates that are not positive, while the probe runs.
    closed_gates: Option<AtomicU64>,
}

impl Sparse {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let non_zeros = NonZeros::with_room(config.ffn_len);
        let step = SparseStep { non_zeros, skips: true, closed_gates: None };
        Self { layers: (0..config.layers).map(|_| SparseLayer::default()).collect(), step }
    }

    /// Bytes of the copies.
    pub(crate) fn size_bytes(&self) -> usize {
        let copies = self.layers.iter().filter_map(|layer| layer.copies.as_ref());
        copies.map(|(up, down)| up.bytes_len() + down.bytes_len()).sum()
    }
}

impl SparseStep {
    /// Lets the probe see some gates, on the way to their activation.
    pub(crate) fn look_at(&self, gates: &[f32]) {
        if let Some(count) = &self.closed_gates {
            let closed = gates.iter().filter(|gate| **gate <= 0.0).count();
            count.fetch_add(closed as u64, Ordering::Relaxed);
        }
    }
}

impl SparseLayer {
    /// Makes the neurons, if `x` is one token and this layer has copies.
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

    /// `total += down · x`, and `y` keeps the product, if `x` is one token, this layer has copies, and
    /// enough codes are zero.
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
        let pays = non_zeros.len() as f64 <= MOST_COLUMNS * x.cols() as f64;
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
    /// How many zeros each layer was seen to have.
    pub fn sparsity(&self) -> impl ExactSizeIterator<Item = LayerSparsity> {
        let of =
            |layer: &SparseLayer| LayerSparsity { skips: layer.copies.is_some(), ..layer.counts };
        self.sparse.layers.iter().map(of)
    }

    /// Bytes of the copies that skipping zeros takes.
    pub fn sparse_size_bytes(&self) -> usize {
        self.sparse.size_bytes()
    }

    /// Whether to skip zeros from now on, in layers that have what it takes. Changes no result: this
    /// is for measuring one way against the other.
    pub fn skip_zeros(&mut self, skips: bool) {
        self.sparse.step.skips = skips;
    }

    /// Makes the copies that `mode` asks for.
    pub(crate) fn prepare_sparse(&mut self, mode: SparseMode) {
        let norms = self.config.extra_norms;
        if self.config.activation != Activation::Relu2 || norms.inputs || norms.outputs {
            return;
        }
        match mode {
            SparseMode::Off => return,
            SparseMode::Auto if ffn_bytes(&self.weights) < WORTH_SKIPPING => return,
            SparseMode::Auto => self.probe(),
            SparseMode::On => {}
        }
        let pool = &self.compute.pool;
        for (sparse, layer) in self.sparse.layers.iter_mut().zip(&self.weights.layers) {
            if mode == SparseMode::On || pays(&sparse.counts) {
                let up = TernaryRows::new(pool, &layer.mlp.up);
                sparse.copies = up.zip(TernaryColumns::new(pool, &layer.mlp.down));
            }
        }
    }

    /// Runs some tokens, always the same ones, and counts zeros. What they leave in the first page is
    /// overwritten before anybody may see it.
    fn probe(&mut self) {
        let room = self.max_batch_tokens().min(self.config.context_len);
        let tokens: Vec<TokenId> = (0..PROBE_TOKENS.min(room))
            .map(|i| (i * 7919 % self.config.vocab_len) as TokenId)
            .collect();
        self.sparse.step.closed_gates = Some(AtomicU64::new(0));
        self.forward(&[Segment::causal(&tokens, 0, &[0], &[])], &mut Logits::new(1));
        self.sparse.step.closed_gates = None;
    }
}

/// Whether skipping saves enough. `up` and `down` are of one size.
fn pays(layer: &LayerSparsity) -> bool {
    (layer.closed_share() + layer.zero_share()) / 2.0 >= LEAST_ZEROS
}

fn ffn_bytes(weights: &Weights) -> usize {
    let layers = weights.layers.iter().map(|layer| &layer.mlp);
    layers.map(|w| w.gate.bytes_len() + w.up.bytes_len() + w.down.bytes_len()).sum()
}
