//! The whole pass, top to bottom.

use std::sync::Arc;

use wf_formats::{ModelConfig, ModelFile};
use wf_kernels::{Pool, RotaryTable};

use crate::attention::attention;
use crate::compute::Compute;
use crate::cpus::pinned_to;
use crate::head::{Difference, Head, HeadCounts, HeadMode};
use crate::kv::{KvDtype, KvPool, PAGE_LEN};
use crate::load::{LoadError, Loading, load};
use crate::mlp::mlp;
use crate::parts::{Part, PartTimes};
use crate::scratch::Scratch;
use crate::segment::{Forward, Logits, Segment};
use crate::sparse::{LayerSparsity, Sparse, SparseMode};
use crate::weights::Weights;

/// What a model is given to work with.
#[derive(Clone, Copy, Debug)]
pub struct ModelOptions {
    /// How K and V are stored.
    pub kv: KvDtype,
    /// Pages of K/V to reserve.
    pub pages: usize,
    /// The most tokens of one step.
    pub max_batch_tokens: usize,
    /// How hidden states become scores.
    pub head: HeadMode,
    /// Whether the zeros of squared ReLU are skipped.
    pub sparse: SparseMode,
}

/// A network ready to run.
pub struct Model {
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
    pub(crate) rotary: RotaryTable,
    pub(crate) kv: KvPool,
    pub(crate) scratch: Scratch,
    pub(crate) compute: Compute,
    pub(crate) sparse: Sparse,
    head: Head,
    max_batch_tokens: usize,
}

impl Model {
    /// Reads every weight of `file`, repacked for the kernel, and reserves K/V and buffers.
    pub fn load(
        file: &ModelFile,
        compute: Compute,
        options: ModelOptions,
        progress: &mut dyn FnMut(Loading),
    ) -> Result<Self, LoadError> {
        // Whoever writes memory first gets it near by: weights belong to the thread that reads them.
        let weights = pinned_to(compute.first_cpu(), || load(file, &compute, progress))?;
        Ok(Self::from_weights(file.config().clone(), weights, compute, options))
    }

    /// A network of given weights, which must have the shapes of `config`.
    pub fn from_weights(
        config: ModelConfig,
        weights: Weights,
        compute: Compute,
        options: ModelOptions,
    ) -> Self {
        let rows = options.max_batch_tokens;
        let positions = positions(&config, options.pages);
        let mut model = Self {
            head: Head::new(&compute, &config, weights.head(), options.head),
            rotary: RotaryTable::new(config.head_dim, config.rope_theta, positions),
            kv: KvPool::new(&config, options.kv, options.pages),
            scratch: Scratch::new(&config, rows, positions, compute.threads()),
            sparse: Sparse::new(&config),
            max_batch_tokens: rows,
            config,
            weights,
            compute,
        };
        model.prepare_sparse(options.sparse);
        model
    }

    /// Computes on something else from now on. K/V stays; no later result changes.
    pub fn set_compute(&mut self, compute: Compute) {
        let positions = positions(&self.config, self.kv.pages());
        let (rows, threads) = (self.max_batch_tokens, compute.threads());
        self.scratch = Scratch::new(&self.config, rows, positions, threads);
        self.compute = compute;
    }

    /// Stores K and V in `kv` from now on; what they were stored in comes out.
    ///
    /// # Panics
    ///
    /// If it was not made for this network and as many pages.
    pub fn swap_kv(&mut self, kv: &mut KvPool) {
        assert!(kv.is_as_large_as(&self.kv), "pages for the same network, and as many");
        std::mem::swap(&mut self.kv, kv);
    }

    /// How often a step of one token hands work to the threads: for queries, keys and values, for
    /// the heads, to join what they took of each chunk of positions, for their output, for gate and
    /// up, and for down in each layer, and for the output head.
    pub fn shared_runs(&self) -> usize {
        6 * self.config.layers + 1
    }

    /// Notes from now on where the time of forward passes goes.
    pub fn start_clock(&mut self) {
        self.scratch.clock.start();
    }

    /// Stops to note it, and says where it went.
    pub fn stop_clock(&mut self) -> PartTimes {
        self.scratch.clock.stop()
    }

    /// What the model computes on.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Bytes of weights in memory, copies for the head and for skipping zeros included.
    pub fn size_bytes(&self) -> usize {
        self.weights.size_bytes() + self.head.size_bytes() + self.sparse.size_bytes()
    }

    /// Bytes of the head that a pick of the best token reads.
    pub fn head_bytes_per_pick(&self) -> usize {
        self.head.bytes_per_pick(self.weights.head())
    }

    /// What the scans of the head had to do so far, by name. Goes on counting.
    pub fn head_counts(&self) -> Vec<(&'static str, Arc<HeadCounts>)> {
        self.head.counts()
    }

    /// What the network is made of.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Runs the attention half of a layer on the rows in `scratch.hidden`.
    pub(crate) fn run_attention(&mut self, layer: usize, batch: &[Segment<'_>]) {
        let (cx, config, s) = (&self.compute, &self.config, &mut self.scratch);
        let weights = &self.weights.layers[layer].attention;
        attention(cx, config, weights, &self.rotary, (&mut self.kv, layer), batch, s);
    }

    /// Runs the feed-forward half.
    pub(crate) fn run_mlp(&mut self, layer: usize) {
        let rows = self.scratch.rows.len();
        let weights = &self.weights.layers[layer].mlp;
        let sparse = (&mut self.sparse.layers[layer], &mut self.sparse.step);
        mlp(&self.compute, &self.config, weights, sparse, rows, &mut self.scratch);
    }

    /// Norms the rows that want scores and runs the output head on them.
    fn score(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        let (cx, config, s) = (&self.compute, &self.config, &mut self.scratch);
        let len = config.hidden_len;
        logits.resize(batch.iter().map(|segment| segment.want.len()).sum());
        let (mut wanted, mut first_row) = (0, 0);
        // Neighbours that ask in the same way are scored together: the head is read once for all.
        for alike in batch.chunk_by(|a, b| a.scoring.is_like(b.scoring)) {
            let first_wanted = wanted;
            for segment in alike {
                for &want in segment.want {
                    let hidden = &s.hidden[(first_row + want) * len..][..len];
                    let normed = &mut s.normed[wanted * len..][..len];
                    cx.kernel.rms_norm(hidden, &self.weights.output_norm, config.norm_eps, normed);
                    wanted += 1;
                }
                first_row += segment.tokens.len();
            }
            if wanted == first_wanted {
                continue;
            }
            let normed = &s.normed[first_wanted * len..wanted * len];
            let out = logits.rows_mut(first_wanted, wanted - first_wanted);
            let scored = self.head.score(cx, self.weights.head(), (normed, alike), out);
            scored.unwrap_or_else(|difference| stop(alike, &difference));
        }
    }
}

impl Forward for Model {
    fn config(&self) -> &ModelConfig {
        &self.config
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

    fn zeros_seen(&self) -> LayerSparsity {
        self.sparsity().fold(LayerSparsity::default(), LayerSparsity::with)
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        self.scratch.place(batch);
        if self.scratch.rows.is_empty() {
            logits.resize(0);
            return;
        }
        self.scratch.clock.skip();
        embed(&self.compute.pool, &self.weights, &self.config, &mut self.scratch);
        self.scratch.clock.lap(Part::Embedding);
        for layer in 0..self.config.layers {
            self.run_attention(layer, batch);
            self.run_mlp(layer);
        }
        self.score(batch, logits);
        self.scratch.clock.lap(Part::Head);
    }

    fn hidden_state(&self, token: usize, out: &mut [f32]) {
        let len = self.config.hidden_len;
        let hidden = &self.scratch.hidden[token * len..][..len];
        let (weight, eps) = (&self.weights.output_norm, self.config.norm_eps);
        self.compute.kernel.rms_norm(hidden, weight, eps, out);
    }
}

/// What `--head check` is for.
fn stop(alike: &[Segment<'_>], difference: &Difference) {
    let positions = alike.iter().flat_map(|s| s.want.iter().map(|want| s.start + want));
    let position = positions.into_iter().nth(difference.row).unwrap_or_default();
    panic!("head check: at position {position}, {difference}");
}

/// Positions there is anything to reserve for: none lies beyond the context or the pages.
fn positions(config: &ModelConfig, pages: usize) -> usize {
    config.context_len.min(pages * PAGE_LEN)
}

/// Each row starts as its token's embedding.
fn embed(pool: &Pool, weights: &Weights, config: &ModelConfig, s: &mut Scratch) {
    let (rows, len) = (&s.rows[..], config.hidden_len);
    let scale = config.scaled_embedding.then(|| (len as f32).sqrt());
    pool.rows(&mut s.hidden[..rows.len() * len], len, |row, hidden| {
        weights.embedding.row(rows[row].token as usize, hidden);
        if let Some(scale) = scale {
            hidden.iter_mut().for_each(|value| *value *= scale);
        }
    });
}
