//! The forward pass, top to bottom.

mod drafts;

use wf_core::{AttentionMode, Network};
use wf_formats::ModelInfo;
use wf_kernels::Upcoming;

use crate::attention::AttentionBlock;
use crate::delta_net::DeltaNetBlock;
use crate::experts::ExpertsBlock;
use crate::kv::PageId;
use crate::logits::Logits;
use crate::mlp::MlpBlock;
use crate::model::Model;
use crate::phases::Phase;
use crate::segment::{Forward, HiddenStates, Scoring, Segment};
use crate::sparse::LayerSparsity;
use crate::states::StatePool;
use crate::weights::{Ffn, Mixer};
use crate::zeros::ProductInput;

impl Model {
    /// Sets each row to its token's embedding.
    pub(crate) fn embed(&mut self) {
        let (cx, network, s) = (&self.compute, &self.network, &mut self.scratch);
        let (rows, len, table) = (&s.rows[..], network.hidden_len, &self.weights.embedding);
        let is_rotated = network.hadamard.as_ref().is_some_and(|hadamard| hadamard.embedding);
        let rotation = self.rotation.as_ref().filter(|_| is_rotated);
        let hidden = &mut s.hidden[..rows.len() * len];
        let stored = &mut s.delta[..rows.len() * len];
        cx.pool.row_pairs((hidden, len), (stored, len), |row, hidden, stored| {
            let token = rows[row].token as usize;
            match rotation {
                None => table.row(token, hidden),
                Some(rotation) => {
                    table.row(token, stored);
                    rotation.invert(cx, stored, hidden);
                }
            }
            if let Some(scale) = network.embedding.scale {
                hidden.iter_mut().for_each(|value| *value *= scale);
            }
        });
    }

    /// Runs the mixer of a layer on the rows in `scratch.hidden`.
    pub(crate) fn run_mixer(&mut self, layer: usize, batch: &[Segment<'_>]) {
        self.scratch.attn_in.set_zeroing(self.zeroing(layer, ProductInput::Mixer));
        self.scratch.attn_out.set_zeroing(self.zeroing(layer, ProductInput::Heads));
        let (cx, place, residual_scale) =
            (&self.compute, self.places[layer], self.network.residual_scale);
        let columns =
            [ProductInput::Mixer, ProductInput::Heads].map(|input| self.columns.of(layer, input));
        // Nobody knows the columns that the next product needs.
        let skips_next =
            self.scratch.rows.len() == 1 && !self.columns.of(layer, ProductInput::Ffn).is_empty();
        let next = match skips_next {
            true => Upcoming::Unknown,
            false => self.weights.layers[layer].ffn.upcoming(),
        };
        match (&self.network.layers[layer].mixer, &self.weights.layers[layer].mixer) {
            (wf_core::Mixer::Attention(recipe), Mixer::Attention(weights)) => {
                let rotary = self.rotary.of_layer(layer);
                let block = AttentionBlock {
                    layer: place,
                    recipe,
                    weights,
                    rotary,
                    columns,
                    next,
                    residual_scale,
                };
                block.run(cx, &mut self.kv, batch, &mut self.scratch);
            }
            (wf_core::Mixer::DeltaNet(recipe), Mixer::DeltaNet(weights)) => {
                let hadamard = self.network.hadamard.as_ref();
                let groups = hadamard.is_some_and(|hadamard| hadamard.grouped_values);
                let block =
                    DeltaNetBlock { recipe, weights, groups, columns, next, residual_scale };
                block.run(cx, self.states.layer(place), batch, &mut self.scratch);
            }
            _ => unreachable!("weights are read by the recipe"),
        }
    }

    /// Runs the feed-forward block of a layer on the rows in `scratch.hidden`.
    pub(crate) fn run_ffn(&mut self, layer: usize) {
        self.scratch.ffn_in.set_zeroing(self.zeroing(layer, ProductInput::Ffn));
        self.scratch.ffn_mid.set_zeroing(self.zeroing(layer, ProductInput::Neurons));
        let residual_scale = self.network.residual_scale;
        let next_layer = self.weights.layers.get(layer + 1);
        let skips_next = self.scratch.rows.len() == 1
            && !self.columns.of(layer + 1, ProductInput::Mixer).is_empty();
        let next = match next_layer {
            Some(next) if !skips_next => next.mixer.upcoming(),
            _ => Upcoming::Unknown,
        };
        let columns =
            [ProductInput::Ffn, ProductInput::Neurons].map(|input| self.columns.of(layer, input));
        match (&self.network.layers[layer].ffn, &self.weights.layers[layer].ffn) {
            (wf_core::Ffn::Dense(recipe), Ffn::Dense(weights)) => {
                let (sparse, step) = (&mut self.sparse.layers[layer], &mut self.sparse.step);
                let block =
                    MlpBlock { recipe, weights, sparse, step, columns, next, residual_scale };
                block.run(&self.compute, &mut self.scratch);
            }
            (wf_core::Ffn::Experts(recipe), Ffn::Experts(weights)) => {
                ExpertsBlock { recipe, weights, residual_scale }
                    .run(&self.compute, &mut self.scratch);
            }
            _ => unreachable!("weights are read by the recipe"),
        }
    }

    /// Norms the scored rows and runs the output head on them. The norm is that of the network, or that of its
    /// prediction head.
    pub(crate) fn score(&mut self, batch: &[Segment<'_>], logits: &mut Logits, of_mtp: bool) {
        let (cx, s) = (&self.compute, &mut self.scratch);
        let norm = match &self.weights.mtp {
            Some(mtp) if of_mtp => &mtp.norm,
            _ => &self.weights.output_norm,
        };
        let len = self.network.hidden_len;
        let rotates_head = self.network.hadamard.as_ref().is_some_and(|hadamard| hadamard.head);
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
                    cx.kernel.rms_norm(hidden, norm.as_rms(), normed);
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
            let mut normed = &s.normed[first_scored * len..scored * len];
            if let (Some(rotation), true) = (&self.rotation, rotates_head) {
                // Blocks have filled this buffer, and are done.
                let rotated = &mut s.delta[..normed.len()];
                rotation.apply(cx, normed, len, rotated);
                normed = rotated;
            }
            let out = (&mut *logits, first_scored);
            let result = self.head.score(cx, self.weights.head(), normed, alike, out);
            result.unwrap_or_else(|difference| difference.stop(alike));
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

    fn attention(&self) -> AttentionMode {
        self.attention
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

    fn max_drafts(&self) -> usize {
        if self.network.is_recurrent() { StatePool::MAX_DRAFTS } else { usize::MAX }
    }

    fn keep_drafts(&mut self, state: usize, len: usize) {
        self.replay_drafts(state, len);
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
        self.rotary.place(&self.scratch.rows);
        self.states.begin(batch);
        if self.scratch.rows.is_empty() {
            logits.resize(0);
            return self;
        }
        self.scratch.clock.skip();
        self.embed();
        self.scratch.clock.lap(Phase::Embedding);
        for layer in 0..self.network.layers.len() {
            self.run_mixer(layer, batch);
            self.observe(layer, [ProductInput::Mixer, ProductInput::Heads]);
            self.run_ffn(layer);
            self.observe(layer, [ProductInput::Ffn, ProductInput::Neurons]);
        }
        self.score(batch, logits, false);
        if batch.iter().any(|segment| segment.predicts) {
            self.follow(batch);
        }
        self.scratch.clock.lap(Phase::Head);
        self
    }

    fn predict(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        self.run_mtp(batch, logits);
    }
}

impl HiddenStates for Model {
    fn read(&self, token: usize, out: &mut [f32]) {
        let (len, norm) = (self.network.hidden_len, &self.weights.output_norm);
        let hidden = &self.scratch.hidden[token * len..][..len];
        self.compute.kernel.rms_norm(hidden, norm.as_rms(), out);
    }
}
