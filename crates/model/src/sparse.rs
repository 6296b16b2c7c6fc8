//! Skips the zeros of squared ReLU.
//!
//! A neuron whose gate is not positive is zero, so its row of `up` need not be read; an activation
//! whose int8 code is zero adds nothing, so its column of `down` need not be read. That takes a second
//! copy of both matrices, by rows and by columns, of the same size; `probe.rs` decides which layers get
//! one.
//!
//! Dense and sparse products give the same bits. In a step of several tokens, each reads its own rows and
//! columns, from caches that the tokens share: a row that one token does not need, another does.

use std::sync::atomic::{AtomicU64, Ordering};

use wf_core::Network;
use wf_kernels::{
    Kernel, NonZeros, Pool, QuantBatch, Relu2Matrices, TernaryColumns, TernaryRows, multiply_relu2,
};

use crate::codes::{InputCodes, Products};
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

/// Maximum shares of the rows of `up` and of the columns of `down` that several tokens read one by one,
/// each its own, while a dense product reads all of them once.
struct MaxShares {
    rows: f64,
    columns: f64,
}

impl MaxShares {
    /// Returns the shares up to which skipping pays, if it can. On one core of a Zen 4, a 2B layer of which
    /// tokens read 27 % of the rows and 14 % of the columns takes 1.75 and 2.05 times less than with dense
    /// VNNI products, and at 50 % and 33 % 1.1 times less; with AVX2, whose dense products are lookups,
    /// about as long and 1.5 times less. Tiles multiply faster than tokens can skip.
    fn of(kernel: &dyn Kernel, tokens: usize) -> Option<Self> {
        let tiles = kernel.tile_kernel();
        if tiles.is_some_and(|tiles| tokens >= tiles.min_tokens()) {
            return None;
        }
        Some(match kernel.lookup_kernel() {
            Some(_) => Self { rows: 0.25, columns: 0.2 },
            None => Self { rows: 0.5, columns: 0.5 },
        })
    }
}

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
    /// Those of each token.
    non_zeros: Vec<NonZeros>,
    /// True if copies are used.
    pub(crate) skips: bool,
    /// Number of gates that are not positive, while the probe runs.
    pub(crate) closed_gates: Option<AtomicU64>,
}

impl Sparse {
    pub(crate) fn new(network: &Network) -> Self {
        let step = SparseStep { non_zeros: Vec::new(), skips: true, closed_gates: None };
        Self { layers: network.layers.iter().map(|_| SparseLayer::default()).collect(), step }
    }

    /// Allocates for steps of `max_tokens` tokens, if a layer has copies.
    pub(crate) fn reserve(&mut self, network: &Network, max_tokens: usize) {
        if self.layers.iter().any(|layer| layer.copies.is_some()) {
            let non_zeros = NonZeros::with_capacity(network.max_ffn_len());
            self.step.non_zeros.resize(max_tokens, non_zeros);
        }
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
            count.fetch_add(closed(gates) as u64, Ordering::Relaxed);
        }
    }
}

fn closed(gates: &[f32]) -> usize {
    gates.iter().filter(|gate| **gate <= 0.0).count()
}

impl SparseLayer {
    pub(crate) fn sparsity(&self) -> LayerSparsity {
        LayerSparsity { skips: self.copies.is_some(), ..self.counts }
    }

    /// Makes the copies of a block.
    pub(crate) fn copy(&mut self, pool: &Pool, mlp: &Mlp) {
        self.copies = TernaryRows::new(pool, &mlp.up).zip(TernaryColumns::new(pool, &mlp.down));
    }

    /// Computes the neurons and returns `true`, if this layer has copies.
    pub(crate) fn neurons(
        &mut self,
        cx: &Compute,
        step: &SparseStep,
        mlp: &Mlp,
        (codes, neurons): (&InputCodes, &mut [f32]),
        products: &mut Products,
    ) -> bool {
        let (Some((up_rows, _)), true) = (&self.copies, step.skips) else { return false };
        let xs = codes.batch();
        let tokens = xs.rows().len();
        if let [x] = xs.rows() {
            let matrices = (&mlp.gate, up_rows);
            let closed = wf_kernels::relu2_neurons(cx.kernel, &cx.pool, matrices, x, neurons);
            self.counts.closed_gates += closed as u64;
            self.counts.sparse_up += 1;
            return true;
        }
        let Some(max) = MaxShares::of(cx.kernel, tokens) else { return false };
        let (gate, up) = (&mlp.gate, &mlp.up);
        let matrices = Relu2Matrices { gate, up, up_rows, max_open: max.rows };
        let out = (neurons, &mut products.scratch);
        let counts = multiply_relu2(cx.kernel, &cx.pool, &matrices, xs, out);
        self.counts.closed_gates += counts.closed as u64;
        self.counts.sparse_up += (counts.skipping / up.rows().max(1)) as u64;
        true
    }

    /// Computes `total += down · x` of each token, with the products in `y`, and returns `true`, if this
    /// layer has copies and enough codes are zero.
    pub(crate) fn down(
        &mut self,
        cx: &Compute,
        step: &mut SparseStep,
        xs: &QuantBatch,
        y: &mut [f32],
        total: &mut [f32],
    ) -> bool {
        let (tokens, neurons) = (xs.rows().len(), xs.rows().len() * xs.cols());
        if let Some(closed) = &mut step.closed_gates {
            self.counts.closed_gates += std::mem::take(closed.get_mut());
            let codes = xs.rows().iter().flat_map(|row| &row.codes()[..xs.cols()]);
            self.count(tokens, neurons, codes.filter(|code| **code == 0).count());
        }
        let (Some((_, down)), true) = (&self.copies, step.skips) else { return false };
        let max_columns = match tokens {
            1 => MAX_COLUMNS,
            _ => match MaxShares::of(cx.kernel, tokens) {
                Some(max) => max.columns,
                None => return false,
            },
        };
        let non_zeros = &mut step.non_zeros[..tokens];
        cx.pool.rows(non_zeros, 1, |token, found| found[0].find(cx.kernel, &xs.rows()[token]));
        let columns: usize = non_zeros.iter().map(NonZeros::len).sum();
        let pays = columns as f64 <= max_columns * neurons as f64;
        if pays {
            let (kernel, pool) = (cx.kernel, &cx.pool);
            match &*non_zeros {
                [x] => wf_kernels::multiply_add_columns(kernel, pool, down, x, y, total),
                xs => wf_kernels::multiply_add_columns_of_each(kernel, pool, down, xs, total),
            }
            self.counts.sparse_down += tokens as u64;
        }
        self.count(tokens, neurons, neurons - columns);
        pays
    }

    fn count(&mut self, tokens: usize, neurons: usize, zeros: usize) {
        self.counts.tokens += tokens as u64;
        self.counts.neurons += neurons as u64;
        self.counts.zero_codes += zeros as u64;
    }
}
