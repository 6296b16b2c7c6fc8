//! Skips the zeros of squared ReLU when one token is decoded.
//!
//! A neuron whose gate is not positive is zero, so its row of `up` need not be read; an activation
//! whose int8 code is zero adds nothing, so its column of `down` need not be read. That takes a second
//! copy of both matrices, by rows and by columns, of the same size; `probe.rs` decides which layers get
//! one.
//!
//! Dense and sparse products give the same bits. Steps of several tokens are always dense: a row that
//! one token does not need, another does.

use std::sync::atomic::{AtomicU64, Ordering};

use wf_core::Network;
use wf_kernels::{NonZeros, Pool, QuantBatch, TernaryColumns, TernaryMatrix, TernaryRows};

use crate::compute::Compute;
use crate::weights::Mlp;

/// Zeros counted in one layer: by the probe of [`SparseMode::Auto`](crate::SparseMode::Auto), and in tokens whose zeros were
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

/// Copies and counts of one layer.
#[derive(Default)]
pub(crate) struct SparseLayer {
    copies: Option<(TernaryRows, TernaryColumns)>,
    counts: LayerSparsity,
}

pub(crate) struct Sparse {
    pub(crate) layers: Vec<SparseLayer>,
    pub(crate) step: SparseStep,
}

pub(crate) struct SparseStep {
    non_zeros: NonZeros,
    /// True if copies are used.
    pub(crate) skips: bool,
    /// Number of gates that are not positive, while the probe runs.
    pub(crate) closed_gates: Option<AtomicU64>,
}

impl Sparse {
    pub(crate) fn new(network: &Network) -> Self {
        let non_zeros = NonZeros::with_capacity(network.max_ffn_len());
        let step = SparseStep { non_zeros, skips: true, closed_gates: None };
        Self { layers: network.layers.iter().map(|_| SparseLayer::default()).collect(), step }
    }

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
    pub(crate) fn sparsity(&self) -> LayerSparsity {
        LayerSparsity { skips: self.copies.is_some(), ..self.counts }
    }

    /// Makes the copies of a block.
    pub(crate) fn copy(&mut self, pool: &Pool, mlp: &Mlp) {
        self.copies = TernaryRows::new(pool, &mlp.up).zip(TernaryColumns::new(pool, &mlp.down));
    }

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
            let codes = x.rows().iter().flat_map(|row| &row.codes()[..x.cols()]);
            self.count(x.rows().len(), x.cols(), codes.filter(|code| **code == 0).count());
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
