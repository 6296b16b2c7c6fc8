//! A network and what is needed to run it: the tokens, the pages and the samplers the engine would
//! bring.
//!
//! Passes are the engine's own: prompts in chunks of which the last token is scored, and steps that
//! decode one token of each sequence and pick the next one greedily.

use std::time::{Duration, Instant};

use wf_engine::{Limits, Sampler, SamplingParams};
use wf_kernels::TernaryMatrix;
use wf_model::{
    Compute, Forward, KvDtype, KvPool, LayerSparsity, Logits, Model, PAGE_LEN, PageId, PartTimes,
    Segment, TokenId,
};

use super::random::Random;
use super::report::Sparsity;
use super::stats::{Repeats, Timing, timed};
use super::stream::Stream;

pub(super) struct Network {
    model: Model,
    kv: KvDtype,
    chunk: usize,
    /// A prompt as long as the context.
    tokens: Vec<TokenId>,
    pages: Vec<PageId>,
    logits: Logits,
    /// Positions whose K and V were computed, for whichever sequence.
    filled: usize,
    skips_zeros: bool,
    sampling: Duration,
    /// Prompts and steps run so far.
    passes: usize,
}

/// Where the time of some passes went.
pub(super) struct Split {
    pub(super) parts: PartTimes,
    pub(super) sampling: Duration,
    /// How many passes.
    pub(super) passes: usize,
}

impl Network {
    /// Reads prompts in chunks of `chunk` tokens, and goes no further than `positions` positions.
    pub(super) fn new(model: Model, kv: KvDtype, chunk: usize, positions: usize) -> Self {
        model.enter_thread();
        let vocab_len = model.config().vocab_len;
        let pages: Vec<PageId> = (0..model.pages() as PageId).collect();
        Self {
            chunk: chunk.min(model.max_batch_tokens()),
            tokens: Random::new(0, 0).tokens(positions, vocab_len),
            logits: Logits::new(vocab_len),
            filled: 0,
            skips_zeros: true,
            sampling: Duration::ZERO,
            passes: 0,
            model,
            kv,
            pages,
        }
    }

    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    /// How far a sequence can go.
    pub(super) fn positions(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn set_compute(&mut self, compute: Compute) {
        self.model.set_compute(compute);
    }

    /// Trits of the network: what a token multiplies, the output head not counted.
    pub(super) fn trits(&self) -> usize {
        let layer = |layer: &wf_model::weights::Layer| {
            let (a, m) = (&layer.attention, &layer.mlp);
            let matrices = [&a.query, &a.key, &a.value, &a.output, &m.gate, &m.up, &m.down];
            matrices.iter().map(|w| w.rows() * w.cols()).sum::<usize>()
        };
        self.model.weights().layers.iter().map(layer).sum()
    }

    /// Whether to skip zeros from now on.
    pub(super) fn skip_zeros(&mut self, skips: bool) {
        self.model.skip_zeros(skips);
        self.skips_zeros = skips;
    }

    /// The zeros of the layers where zeros are skipped, if there are any.
    pub(super) fn sparsity(&self) -> Option<Sparsity> {
        let skipping: Vec<_> = self.model.sparsity().filter(|layer| layer.skips).collect();
        let mean = |share: fn(&LayerSparsity) -> f64| {
            skipping.iter().map(share).sum::<f64>() / skipping.len() as f64
        };
        (!skipping.is_empty()).then(|| Sparsity {
            layers: skipping.len(),
            closed_gates: mean(LayerSparsity::closed_share),
            zero_codes: mean(LayerSparsity::zero_share),
            copies_bytes: self.model.sparse_size_bytes(),
        })
    }

    /// Bytes of `up` and `down` that a token does not read because it skips zeros, by what was seen.
    fn skipped_bytes(&self) -> usize {
        let layers = self.model.sparsity().zip(&self.model.weights().layers);
        let skipping = layers.filter(|(seen, _)| self.skips_zeros && seen.skips);
        let skipped = |w: &TernaryMatrix, zeros: f64| {
            // The copy that is read instead has two bits a trit.
            let copy = w.rows() * w.cols() / 4;
            w.bytes_len().saturating_sub((copy as f64 * (1.0 - zeros)) as usize)
        };
        skipping
            .map(|(seen, layer)| {
                skipped(&layer.mlp.up, seen.closed_share())
                    + skipped(&layer.mlp.down, seen.zero_share())
            })
            .sum()
    }

    /// Bytes that have to be read to decode one token after `context` others: every weight that is
    /// not skipped, the head and the K/V of all positions, each once.
    pub(super) fn bytes_per_token(&self, context: usize) -> usize {
        let weights = self.model.weights();
        let layers = weights.size_bytes()
            - weights.embedding.size_bytes()
            - weights.output.as_ref().map_or(0, |table| table.size_bytes());
        let position = KvPool::size_bytes(self.model.config(), self.kv, 1) / PAGE_LEN;
        layers - self.skipped_bytes() + self.model.head_bytes_per_pick() + position * (context + 1)
    }

    /// Times the prefill of a prompt of `len` tokens.
    pub(super) fn prefill(&mut self, len: usize, repeats: Repeats) -> Timing {
        repeats.time(|| self.run_prompt(0..len))
    }

    /// Times single steps after `context` tokens, in turn with reading memory.
    pub(super) fn decode(
        &mut self,
        context: usize,
        repeats: Repeats,
        stream: &mut Stream,
    ) -> (Timing, Timing) {
        let step = self.steps(context, repeats.most);
        repeats.time_beside(step, || {
            stream.read();
        })
    }

    /// Seconds of `count` steps from the first token on.
    pub(super) fn decode_run(&mut self, count: usize) -> f64 {
        let mut step = self.steps(0, count);
        timed(|| (0..count).for_each(|_| step()))
    }

    /// Seconds of the prefill of `len` tokens.
    pub(super) fn prefill_run(&mut self, len: usize) -> f64 {
        timed(|| self.run_prompt(0..len))
    }

    /// Seconds of one pass over `rows` tokens after `context` others, every one of them scored as for a
    /// pick of the best.
    pub(super) fn rows_run(&mut self, context: usize, rows: usize) -> f64 {
        self.fill(context);
        let want: Vec<usize> = (0..rows).collect();
        let tokens = &self.tokens[context..context + rows];
        let causal = Segment::causal(tokens, context, &self.pages, &want);
        let segment = Segment { scoring: sampler().scoring(rows), ..causal };
        timed(|| self.model.forward(&[segment], &mut self.logits))
    }

    /// What decodes one token after the other, after `context` tokens. After `most` of them, or at
    /// the end of the context, steps go over the same positions again.
    fn steps(&mut self, context: usize, most: usize) -> impl FnMut() {
        self.fill(context);
        let mut sampler = sampler();
        let (mut token, mut position) = (self.tokens[context], context);
        let last = (context + most).min(self.tokens.len() - 1);
        move || {
            token = self.step(token, position, &mut sampler);
            position = if position < last { position + 1 } else { context };
        }
    }

    /// Times steps of `sequences` sequences at once, from their first tokens on.
    pub(super) fn batch(&mut self, sequences: usize, repeats: Repeats) -> Timing {
        let mut samplers: Vec<Sampler> = (0..sequences).map(|_| sampler()).collect();
        let mut tokens = vec![self.tokens[0]; sequences];
        let mut position = 0;
        repeats.time(|| {
            let segments: Vec<Segment<'_>> = (0..sequences)
                .map(|i| Segment {
                    scoring: samplers[i].scoring(1),
                    ..Segment::causal(&tokens[i..=i], position, &self.pages[i..=i], &[0])
                })
                .collect();
            self.model.forward(&segments, &mut self.logits);
            for (i, (token, sampler)) in tokens.iter_mut().zip(&mut samplers).enumerate() {
                let scores = self.logits.rows_mut(i, 1);
                *token = sampler.pick(scores, position + 1).map_or(0, |picked| picked.token);
            }
            position = (position + 1) % PAGE_LEN.min(self.tokens.len());
        })
    }

    /// Where the time of decoding after `context` tokens goes.
    pub(super) fn split_decode(&mut self, context: usize, repeats: Repeats) -> Split {
        self.fill(context);
        self.split(|network| repeats.time(network.steps(context, repeats.most)))
    }

    /// Where the time of a prompt of `len` tokens goes.
    pub(super) fn split_prefill(&mut self, len: usize, repeats: Repeats) -> Split {
        self.split(|network| network.prefill(len, repeats))
    }

    /// Runs passes under the clock: all of them, also the one that warms up.
    fn split(&mut self, run: impl FnOnce(&mut Self) -> Timing) -> Split {
        (self.sampling, self.passes) = (Duration::ZERO, 0);
        self.model.start_clock();
        run(self);
        let parts = self.model.stop_clock();
        Split { parts, sampling: self.sampling, passes: self.passes }
    }

    /// Computes K and V of the first `len` positions, where that was not done yet.
    fn fill(&mut self, len: usize) {
        if self.filled < len {
            self.run_prompt(self.filled..len);
        }
    }

    fn run_prompt(&mut self, positions: std::ops::Range<usize>) {
        let end = positions.end;
        let sampler = sampler();
        for start in positions.step_by(self.chunk) {
            let tokens = &self.tokens[start..end.min(start + self.chunk)];
            let last = [tokens.len() - 1];
            let want = if start + tokens.len() == end { &last[..] } else { &[] };
            let causal = Segment::causal(tokens, start, &self.pages, want);
            let segment = Segment { scoring: sampler.scoring(1), ..causal };
            self.model.forward(&[segment], &mut self.logits);
        }
        self.filled = self.filled.max(end);
        self.passes += 1;
    }

    /// Decodes one token, as a user would wait for it.
    fn step(&mut self, token: TokenId, position: usize, sampler: &mut Sampler) -> TokenId {
        let causal = Segment::causal(std::slice::from_ref(&token), position, &self.pages, &[0]);
        let segment = Segment { scoring: sampler.scoring(1), ..causal };
        self.model.forward(&[segment], &mut self.logits);
        let start = Instant::now();
        let picked = sampler.pick(self.logits.rows_mut(0, 1), position + 1);
        self.sampling += start.elapsed();
        self.passes += 1;
        picked.map_or(0, |picked| picked.token)
    }
}

fn sampler() -> Sampler {
    let limits = Limits { max_tokens: usize::MAX, ..Limits::default() };
    Sampler::new(SamplingParams::default(), &limits, &[])
}
