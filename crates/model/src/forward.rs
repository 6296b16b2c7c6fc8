//! The forward pass, top to bottom.

use std::sync::Arc;

use wf_core::Network;
use wf_formats::{ModelFile, ModelInfo};
use wf_kernels::{Pool, RotaryTable, with_pinned_thread};

use crate::attention::AttentionBlock;
use crate::compute::Compute;
use crate::experts::ExpertsBlock;
use crate::head::{Difference, HeadCounts, OutputHead};
use crate::kv::{KvPool, PAGE_LEN};
use crate::load::{LoadError, LoadProgress, load};
use crate::logits::Logits;
use crate::mlp::MlpBlock;
use crate::options::ModelOptions;
use crate::phases::{Phase, PhaseTimes};
use crate::rotary;
use crate::scratch::Scratch;
use crate::segment::{Forward, HiddenStates, Scoring, Segment};
use crate::sparse::{LayerSparsity, Sparse};
use crate::weights::{Ffn, Weights};

/// A network with its weights, KV cache and buffers.
pub struct Model {
    pub(crate) network: Network,
    pub(crate) info: ModelInfo,
    pub(crate) weights: Weights,
    rotary: Vec<Option<Arc<RotaryTable>>>,
    pub(crate) kv: KvPool,
    pub(crate) scratch: Scratch,
    pub(crate) compute: Compute,
    pub(crate) sparse: Sparse,
    head: OutputHead,
    pub(crate) max_batch_tokens: usize,
}

impl Model {
    /// Reads every weight of `file` into the layout of the kernels, and allocates the KV cache.
    pub fn load(
        file: &ModelFile,
        compute: Compute,
        options: ModelOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Self, LoadError> {
        // Memory is local to the thread that writes it first: weights belong to the ones that read them.
        let weights = with_pinned_thread(compute.first_cpu(), || load(file, &compute, progress))?;
        if !OutputHead::supports(weights.head(), options.head) {
            return Err(LoadError::Weights(format!(
                "head mode {} requires an output head of floats, this one is ternary: use auto or full",
                options.head
            )));
        }
        let (network, info) = (file.network().clone(), file.info().clone());
        Ok(Self::from_weights(network, info, weights, compute, options))
    }

    /// Creates a model from weights, which must have the shapes of `network`.
    ///
    /// # Panics
    ///
    /// If the head mode requires floats and the output head is ternary.
    pub fn from_weights(
        mut network: Network,
        info: ModelInfo,
        weights: Weights,
        compute: Compute,
        options: ModelOptions,
    ) -> Self {
        network.activations = options.activations.unwrap_or(network.activations);
        let rows = options.max_batch_tokens;
        let positions = positions(&info, options.pages);
        let context_len = options.context_len.unwrap_or(info.context_len);
        let mut model = Self {
            head: OutputHead::new(&compute, &network, weights.head(), options.head),
            rotary: rotary::tables(&network, positions, context_len),
            kv: KvPool::new(&network, options.kv, options.pages),
            scratch: Scratch::new(&network, rows, positions, compute.threads()),
            sparse: Sparse::new(&network),
            max_batch_tokens: rows,
            network,
            info,
            weights,
            compute,
        };
        model.prepare_sparse(options.sparse);
        model
    }

    /// Replaces the kernel and the threads. The KV cache is kept, and no later result changes.
    pub fn set_compute(&mut self, compute: Compute) {
        let positions = positions(&self.info, self.kv.pages());
        let (rows, threads) = (self.max_batch_tokens, compute.threads());
        self.scratch = Scratch::new(&self.network, rows, positions, threads);
        self.compute = compute;
    }

    /// Swaps the KV cache with `kv`.
    ///
    /// # Panics
    ///
    /// If `kv` is for another network or number of pages.
    pub fn swap_kv(&mut self, kv: &mut KvPool) {
        assert!(kv.has_shape_of(&self.kv), "pages of the same network, and as many");
        std::mem::swap(&mut self.kv, kv);
    }

    /// Returns the number of parallel sections in a step of one token: four per layer (query, key and
    /// value, chunks of attention, joining them, output), two for each block that runs (gate and up, down),
    /// and the output head.
    pub fn parallel_runs(&self) -> usize {
        let blocks = self.network.layers.iter().map(|l| l.ffn.experts().map_or(1, |e| e.active));
        blocks.map(|blocks| 4 + 2 * blocks).sum::<usize>() + 1
    }

    /// Starts to measure the time of each phase.
    pub fn start_clock(&mut self) {
        self.scratch.clock.start();
    }

    /// Stops measuring and returns the times.
    pub fn stop_clock(&mut self) -> PhaseTimes {
        self.scratch.clock.stop()
    }

    /// Returns the kernel and threads.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Size of the weights in bytes, including the copies for the head and for skipping zeros.
    pub fn size_bytes(&self) -> usize {
        self.weights.size_bytes() + self.head.size_bytes() + self.sparse.size_bytes()
    }

    /// Number of bytes of the head that are read to find the best token.
    pub fn head_bytes_per_pick(&self) -> usize {
        self.head.bytes_per_pick(self.weights.head())
    }

    /// Returns the counters of each scan of the head, by name. They keep counting.
    pub fn head_counts(&self) -> Vec<(&'static str, Arc<HeadCounts>)> {
        self.head.counts()
    }

    /// Returns the weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Runs the attention block of a layer on the rows in `scratch.hidden`.
    pub(crate) fn run_attention(&mut self, layer: usize, batch: &[Segment<'_>]) {
        let block = AttentionBlock {
            layer,
            recipe: self.network.layers[layer].attention(),
            weights: &self.weights.layers[layer].attention,
            rotary: self.rotary[layer].as_deref(),
            residual_scale: self.network.residual_scale,
        };
        block.run(&self.compute, &mut self.kv, batch, &mut self.scratch);
    }

    /// Runs the feed-forward block of a layer on the rows in `scratch.hidden`.
    pub(crate) fn run_ffn(&mut self, layer: usize) {
        let residual_scale = self.network.residual_scale;
        match (&self.network.layers[layer].ffn, &self.weights.layers[layer].ffn) {
            (wf_core::Ffn::Dense(recipe), Ffn::Dense(weights)) => {
                let (sparse, step) = (&mut self.sparse.layers[layer], &mut self.sparse.step);
                let block = MlpBlock { recipe, weights, sparse, step, residual_scale };
                block.run(&self.compute, &mut self.scratch);
            }
            (wf_core::Ffn::Experts(recipe), Ffn::Experts(weights)) => {
                ExpertsBlock { recipe, weights, residual_scale }
                    .run(&self.compute, &mut self.scratch);
            }
            _ => unreachable!("weights are read by the recipe"),
        }
    }

    /// Norms the scored rows and runs the output head on them.
    fn score(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        let (cx, norm, s) = (&self.compute, &self.weights.output_norm, &mut self.scratch);
        let len = self.network.hidden_len;
        logits.resize(batch.iter().map(|segment| segment.scored.len()).sum());
        let (mut scored, mut first_row) = (0, 0);
        // Neighbours that need all logits are scored together, and so are others: the head is read once.
        let needs_all = |segment: &Segment<'_>| segment.scoring == Scoring::All;
        for alike in batch.chunk_by(|a, b| needs_all(a) == needs_all(b)) {
            let first_scored = scored;
            for segment in alike {
                for &index in segment.scored {
                    let hidden = &s.hidden[(first_row + index) * len..][..len];
                    let normed = &mut s.normed[scored * len..][..len];
                    cx.kernel.rms_norm(hidden, &norm.weight, norm.eps, normed);
                    if let Some(divisor) = self.network.head.divisor {
                        normed.iter_mut().for_each(|value| *value /= divisor);
                    }
                    scored += 1;
                }
                first_row += segment.tokens.len();
            }
            if scored == first_scored {
                continue;
            }
            let normed = &s.normed[first_scored * len..scored * len];
            let out = (&mut *logits, first_scored);
            let result = self.head.score(cx, self.weights.head(), normed, alike, out);
            result.unwrap_or_else(|difference| stop(alike, &difference));
        }
    }
}

impl Forward for Model {
    fn network(&self) -> &Network {
        &self.network
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn max_batch_tokens(&self) -> usize {
        self.max_batch_tokens
    }

    fn enter_thread(&self) {
        self.compute.enter_thread();
    }

    fn pages(&self) -> usize {
        self.kv.pages()
    }

    fn total_sparsity(&self) -> LayerSparsity {
        self.layer_sparsity().fold(LayerSparsity::default(), LayerSparsity::with)
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        self.scratch.place(batch);
        if self.scratch.rows.is_empty() {
            logits.resize(0);
            return self;
        }
        self.scratch.clock.skip();
        embed(&self.compute.pool, &self.weights, &self.network, &mut self.scratch);
        self.scratch.clock.lap(Phase::Embedding);
        for layer in 0..self.network.layers.len() {
            self.run_attention(layer, batch);
            self.run_ffn(layer);
        }
        self.score(batch, logits);
        self.scratch.clock.lap(Phase::Head);
        self
    }
}

impl HiddenStates for Model {
    fn read(&self, token: usize, out: &mut [f32]) {
        let (len, norm) = (self.network.hidden_len, &self.weights.output_norm);
        let hidden = &self.scratch.hidden[token * len..][..len];
        self.compute.kernel.rms_norm(hidden, &norm.weight, norm.eps, out);
    }
}

/// Panics with the difference that `--head check` has found.
fn stop(alike: &[Segment<'_>], difference: &Difference) {
    let positions = alike.iter().flat_map(|s| s.scored.iter().map(|index| s.start + index));
    let position = positions.into_iter().nth(difference.row).unwrap_or_default();
    panic!("head check: at position {position}, {difference}");
}

/// Returns the number of positions to allocate for: within the context and the pages.
fn positions(info: &ModelInfo, pages: usize) -> usize {
    info.context_len.min(pages * PAGE_LEN)
}

/// Sets each row to its token's embedding.
fn embed(pool: &Pool, weights: &Weights, network: &Network, s: &mut Scratch) {
    let (rows, len) = (&s.rows[..], network.hidden_len);
    pool.rows(&mut s.hidden[..rows.len() * len], len, |row, hidden| {
        weights.embedding.row(rows[row].token as usize, hidden);
        if let Some(scale) = network.embedding.scale {
            hidden.iter_mut().for_each(|value| *value *= scale);
        }
    });
}
