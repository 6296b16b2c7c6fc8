//! The whole pass, top to bottom.

use wf_formats::{ModelConfig, ModelFile};
use wf_kernels::{Pool, RotaryTable};

use crate::attention::attention;
use crate::compute::Compute;
use crate::kv::{KvDtype, KvPool, PAGE_LEN};
use crate::load::{LoadError, Loading, load};
use crate::mlp::mlp;
use crate::scratch::Scratch;
use crate::segment::{Forward, Logits, Segment};
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
}

/// A network ready to run.
pub struct Model {
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
    pub(crate) rotary: RotaryTable,
    pub(crate) kv: KvPool,
    pub(crate) scratch: Scratch,
    pub(crate) compute: Compute,
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
        let weights = load(file, &compute, progress)?;
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
        // No position lies beyond the pages: what is reserved for each position stops there too.
        let positions = config.context_len.min(options.pages * PAGE_LEN);
        Self {
            rotary: RotaryTable::new(config.head_dim, config.rope_theta, positions),
            kv: KvPool::new(&config, options.kv, options.pages),
            scratch: Scratch::new(&config, rows, positions, compute.threads()),
            max_batch_tokens: rows,
            config,
            weights,
            compute,
        }
    }

    /// What the model computes on.
    pub fn compute(&self) -> &Compute {
        &self.compute
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
        mlp(&self.compute, &self.config, weights, rows, &mut self.scratch);
    }

    /// Norms the rows that want scores and multiplies them by the output head.
    fn score(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        let (cx, config, s) = (&self.compute, &self.config, &mut self.scratch);
        let len = config.hidden_len;
        let mut wanted = 0;
        let mut first_row = 0;
        for segment in batch {
            for &want in segment.want {
                let hidden = &s.hidden[(first_row + want) * len..][..len];
                let normed = &mut s.normed[wanted * len..][..len];
                cx.kernel.rms_norm(hidden, &self.weights.output_norm, config.norm_eps, normed);
                wanted += 1;
            }
            first_row += segment.tokens.len();
        }
        logits.resize(wanted);
        let normed = &s.normed[..wanted * len];
        self.weights.head().scores(cx, normed, logits.rows_mut(0, wanted), &mut s.table_rows);
    }
}

impl Forward for Model {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn max_batch_tokens(&self) -> usize {
        self.max_batch_tokens
    }

    fn pages(&self) -> usize {
        self.kv.pages()
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        self.scratch.place(batch);
        if self.scratch.rows.is_empty() {
            logits.resize(0);
            return;
        }
        embed(&self.compute.pool, &self.weights, self.config.hidden_len, &mut self.scratch);
        for layer in 0..self.config.layers {
            self.run_attention(layer, batch);
            self.run_mlp(layer);
        }
        self.score(batch, logits);
    }
}

/// Each row starts as its token's embedding.
fn embed(pool: &Pool, weights: &Weights, hidden_len: usize, s: &mut Scratch) {
    let rows = &s.rows[..];
    pool.rows(&mut s.hidden[..rows.len() * hidden_len], hidden_len, |row, hidden| {
        weights.embedding.row(rows[row].token as usize, hidden);
    });
}
