//! The forward pass, top to bottom.

use wf_core::Network;
use wf_formats::ModelInfo;
use wf_kernels::{Pool, Upcoming};

use crate::attention::AttentionBlock;
use crate::delta_net::DeltaNetBlock;
use crate::experts::ExpertsBlock;
use crate::head::Difference;
use crate::kv::PageId;
use crate::logits::Logits;
use crate::mlp::MlpBlock;
use crate::model::Model;
use crate::phases::Phase;
use crate::scratch::Scratch;
use crate::segment::{Forward, HiddenStates, Scoring, Segment};
use crate::sparse::LayerSparsity;
use crate::weights::{Ffn, Mixer, Weights};

impl Model {
    /// Runs the mixer of a layer on the rows in `scratch.hidden`.
    pub(crate) fn run_mixer(&mut self, layer: usize, batch: &[Segment<'_>]) {
        let (cx, place, residual_scale) =
            (&self.compute, self.places[layer], self.network.residual_scale);
        let next = self.weights.layers[layer].ffn.upcoming();
        match (&self.network.layers[layer].mixer, &self.weights.layers[layer].mixer) {
            (wf_core::Mixer::Attention(recipe), Mixer::Attention(weights)) => {
                let rotary = self.rotary[layer].as_deref();
                let block =
                    AttentionBlock { layer: place, recipe, weights, rotary, next, residual_scale };
                block.run(cx, &mut self.kv, batch, &mut self.scratch);
            }
            (wf_core::Mixer::DeltaNet(recipe), Mixer::DeltaNet(weights)) => {
                let block = DeltaNetBlock { recipe, weights, next, residual_scale };
                block.run(cx, self.states.layer(place), batch, &mut self.scratch);
            }
            _ => unreachable!("weights are read by the recipe"),
        }
    }

    /// Runs the feed-forward block of a layer on the rows in `scratch.hidden`.
    pub(crate) fn run_ffn(&mut self, layer: usize) {
        let residual_scale = self.network.residual_scale;
        let next_layer = self.weights.layers.get(layer + 1);
        let next = next_layer.map_or(Upcoming::Unknown, |next| next.mixer.upcoming());
        match (&self.network.layers[layer].ffn, &self.weights.layers[layer].ffn) {
            (wf_core::Ffn::Dense(recipe), Ffn::Dense(weights)) => {
                let (sparse, step) = (&mut self.sparse.layers[layer], &mut self.sparse.step);
                let block = MlpBlock { recipe, weights, sparse, step, next, residual_scale };
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

    fn states(&self) -> usize {
        self.states.slots()
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        self.states.copy(from, to);
    }

    fn page_size_bytes(&self) -> usize {
        self.kv.page_size_bytes()
    }

    fn read_page(&self, page: PageId, out: &mut Vec<u8>) {
        self.kv.read_page(page, out);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.kv.write_page(page, bytes);
    }

    fn total_sparsity(&self) -> LayerSparsity {
        self.layer_sparsity().fold(LayerSparsity::default(), LayerSparsity::with)
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        self.scratch.place(batch);
        self.states.begin(batch);
        if self.scratch.rows.is_empty() {
            logits.resize(0);
            return self;
        }
        self.scratch.clock.skip();
        embed(&self.compute.pool, &self.weights, &self.network, &mut self.scratch);
        self.scratch.clock.lap(Phase::Embedding);
        for layer in 0..self.network.layers.len() {
            self.run_mixer(layer, batch);
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
