//! A network with the tokens, pages and samplers that the engine would provide.
//!
//! Passes are those of the engine: prompts in chunks, with logits for the last token, and steps that
//! decode one token of each sequence greedily.

use std::slice::from_ref;
use std::time::{Duration, Instant};

use serde::Serialize;
use wf_engine::{Limits, Sampler, SamplingParams};
use wf_kernels::TernaryMatrix;
use wf_model::weights::Ffn;
use wf_model::{
    Forward, KvDtype, KvPool, LayerSparsity, Logits, Model, PAGE_LEN, PageId, PhaseTimes, Segment,
    TokenId,
};

use super::stream::Stream;
use crate::random::Random;
use crate::stats::{Repeats, Timing, timed};

pub(super) struct Network {
    pub(super) model: Model,
    kv: KvDtype,
    chunk: usize,
    /// A prompt as long as the context.
    pub(super) tokens: Vec<TokenId>,
    pages: Vec<PageId>,
    logits: Logits,
    /// Number of positions whose K and V have been computed.
    filled: usize,
    sampling: Duration,
    /// Number of prompts and steps so far.
    passes: usize,
}

/// Zeros by squared ReLU in the layers that skip them.
#[derive(Debug, Serialize)]
pub(super) struct Sparsity {
    pub(super) layers: usize,
    /// Fraction of gates that were not positive.
    pub(super) closed_gates: f64,
    /// Fraction of the inputs of `down` whose int8 code was zero.
    pub(super) zero_codes: f64,
    /// Additional memory, in bytes.
    pub(super) copies_bytes: usize,
}

/// A way to decode one sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecodeCase {
    pub(super) context: usize,
    pub(super) skips_zeros: bool,
}

/// Time of some passes, by part.
pub(super) struct Split {
    pub(super) parts: PhaseTimes,
    pub(super) sampling: Duration,
    pub(super) passes: usize,
    /// Barriers of a pass; known for decoding alone.
    pub(super) barriers: Option<usize>,
}

impl Network {
    /// Creates a network that prefills prompts in chunks of `chunk` tokens, up to `positions` positions.
    pub(super) fn new(model: Model, kv: KvDtype, chunk: usize, positions: usize) -> Self {
        model.enter_thread();
        let vocab_len = model.network().vocab_len;
        let pages: Vec<PageId> = (0..model.pages() as PageId).collect();
        Self {
            chunk: chunk.min(model.max_batch_tokens()),
            tokens: Random::new(0, 0).tokens(positions, vocab_len),
            logits: Logits::new(vocab_len),
            filled: 0,
            sampling: Duration::ZERO,
            passes: 0,
            model,
            kv,
            pages,
        }
    }

    /// Returns the sparsity of the layers that skip zeros, if there are any.
    pub(super) fn sparsity(&self) -> Option<Sparsity> {
        let skipping: Vec<_> = self.model.layer_sparsity().filter(|layer| layer.skips).collect();
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

    /// Returns the bytes of `up` and `down` that skipping zeros saves for a token, by the sparsity
    /// observed.
    fn skipped_bytes(&self) -> usize {
        let layers = self.model.layer_sparsity().zip(&self.model.weights().layers);
        let skipping = layers.filter(|(seen, _)| seen.skips);
        let skipped = |w: &TernaryMatrix, zeros: f64| {
            // The copy that is read instead has two bits per trit.
            let copy = w.rows() * w.cols() / 4;
            w.bytes_len().saturating_sub((copy as f64 * (1.0 - zeros)) as usize)
        };
        skipping
            .map(|(seen, layer)| {
                layer.ffn.dense().map_or(0, |mlp| {
                    skipped(&mlp.up, seen.closed_share()) + skipped(&mlp.down, seen.zero_share())
                })
            })
            .sum()
    }

    /// Returns the bytes of the experts that are not active for a token.
    fn idle_expert_bytes(&self) -> usize {
        let recipes = self.model.network().layers.iter().map(|layer| layer.ffn.experts());
        let layers = recipes.zip(&self.model.weights().layers).filter_map(|(recipe, layer)| {
            let (Some(recipe), Ffn::Experts(weights)) = (recipe, &layer.ffn) else { return None };
            let expert = weights.experts.first()?;
            let matrices = [&expert.gate, &expert.up, &expert.down];
            let bytes: usize = matrices.iter().map(|matrix| matrix.size_bytes()).sum();
            Some(bytes * (recipe.experts - recipe.active))
        });
        layers.sum()
    }

    /// Returns the bytes that decoding a token must read: every weight that is not skipped, the active
    /// experts only, the head, the K/V of all positions and the state of recurrent layers, each once.
    pub(super) fn bytes_per_token(&self, case: DecodeCase) -> usize {
        let weights = self.model.weights();
        let layers = weights.size_bytes()
            - weights.embedding.size_bytes()
            - weights.output.as_ref().map_or(0, |table| table.size_bytes());
        let position = KvPool::size_bytes(self.model.network(), self.kv, 1) / PAGE_LEN;
        let skipped = if case.skips_zeros { self.skipped_bytes() } else { 0 };
        let skipped = skipped + self.idle_expert_bytes();
        let state = Model::state_bytes(self.model.network());
        layers - skipped + self.model.head_bytes_per_pick() + position * (case.context + 1) + state
    }

    /// Times the prefill of a prompt of `len` tokens.
    pub(super) fn prefill(&mut self, len: usize, repeats: Repeats) -> Timing {
        repeats.time(|| self.run_prompt(0..len))
    }

    /// Fills the first `len` positions with rows of keys and values instead of computing them.
    pub(super) fn fill_with(&mut self, len: usize, rows: &[f32]) {
        self.model.fill_context(&self.pages, len, rows);
        self.filled = self.filled.max(len);
    }

    /// Returns the seconds of single steps after `context` tokens, alternating: before each, `switch` gets 0 or 1 and
    /// sets the model up.
    pub(super) fn decode_both_ways(
        &mut self,
        context: usize,
        repeats: Repeats,
        mut switch: impl FnMut(&mut Model, usize),
    ) -> [Vec<f64>; 2] {
        let mut sequences = self.sequences(1, context, repeats.max);
        let results = repeats.rounds(2, |way| {
            switch(&mut self.model, way);
            timed(|| self.step(&mut sequences))
        });
        let mut results = results.into_iter();
        [(); 2].map(|()| results.next().unwrap_or_default())
    }

    /// Times single steps of each case, alternating with each other and with reads of memory. Returns the
    /// timing of the steps and of the reads.
    ///
    /// A read replaces everything in the caches. If all that a step reads fits into `cache_bytes`, it
    /// would be there in use, so a step that is not timed puts it back.
    pub(super) fn decode(
        &mut self,
        cases: &[DecodeCase],
        repeats: Repeats,
        stream: &mut Stream,
        cache_bytes: Option<usize>,
    ) -> Vec<(Timing, Timing)> {
        let mut sequences: Vec<Sequences> =
            cases.iter().map(|case| self.sequences(1, case.context, repeats.max)).collect();
        let results = repeats.rounds(cases.len(), |case| {
            self.model.enable_sparse(cases[case].skips_zeros);
            if self.is_cached(cases[case], cache_bytes) {
                self.step(&mut sequences[case]);
            }
            let step = timed(|| self.step(&mut sequences[case]));
            let read = timed(|| {
                stream.read();
            });
            (step, read)
        });
        self.model.enable_sparse(true);
        let timings = |(steps, reads)| (Timing::of(steps), Timing::of(reads));
        results.into_iter().map(|seconds| timings(seconds.into_iter().unzip())).collect()
    }

    /// Returns `true` if a cache of `cache_bytes` holds everything that a step reads.
    pub(super) fn is_cached(&self, case: DecodeCase, cache_bytes: Option<usize>) -> bool {
        cache_bytes.is_some_and(|bytes| self.bytes_per_token(case) <= bytes)
    }

    /// Returns the seconds of `count` steps from the first token on.
    pub(super) fn decode_run(&mut self, count: usize) -> f64 {
        let mut sequences = self.sequences(1, 0, count);
        timed(|| (0..count).for_each(|_| self.step(&mut sequences)))
    }

    /// Returns the seconds of a pass over `rows` tokens after `context` others, with greedy logits for
    /// each.
    pub(super) fn rows_run(&mut self, context: usize, rows: usize) -> f64 {
        self.fill(context);
        let want: Vec<usize> = (0..rows).collect();
        let tokens = &self.tokens[context..context + rows];
        let causal = Segment::causal(tokens, context, &self.pages, &want);
        let segment = Segment { scoring: sampler().scoring(), ..causal };
        self.model.assume_states(context);
        timed(|| {
            self.model.forward(&[segment], &mut self.logits);
        })
    }

    /// Times steps of `sequences` sequences together, from their first tokens on.
    pub(super) fn batch(&mut self, sequences: usize, repeats: Repeats) -> Timing {
        self.time_steps(sequences, 0, PAGE_LEN - 1, repeats)
    }

    fn time_steps(
        &mut self,
        sequences: usize,
        context: usize,
        max: usize,
        repeats: Repeats,
    ) -> Timing {
        let mut sequences = self.sequences(sequences, context, max);
        repeats.time(|| self.step(&mut sequences))
    }

    /// Returns `count` sequences of `context` tokens. After `max` further tokens, or at the end of the
    /// context, they start over.
    fn sequences(&mut self, count: usize, context: usize, max: usize) -> Sequences {
        self.fill(context);
        Sequences {
            tokens: vec![self.tokens[context]; count],
            samplers: (0..count).map(|_| sampler()).collect(),
            context,
            position: context,
            last: (context + max).min(self.tokens.len() - 1),
        }
    }

    /// Measures the parts of decoding after `context` tokens.
    pub(super) fn split_decode(&mut self, context: usize, repeats: Repeats) -> Split {
        self.fill(context);
        let split = self.split(|network| network.time_steps(1, context, repeats.max, repeats));
        Split { barriers: Some(self.model.parallel_runs()), ..split }
    }

    /// Measures the parts of the prefill of `len` tokens.
    pub(super) fn split_prefill(&mut self, len: usize, repeats: Repeats) -> Split {
        self.split(|network| network.prefill(len, repeats))
    }

    /// Measures the parts of a step of `sequences` sequences.
    pub(super) fn split_batch(&mut self, sequences: usize, repeats: Repeats) -> Split {
        self.split(|network| network.batch(sequences, repeats))
    }

    /// Runs passes with the clock on, including the warm-up.
    fn split(&mut self, run: impl FnOnce(&mut Self) -> Timing) -> Split {
        (self.sampling, self.passes) = (Duration::ZERO, 0);
        self.model.start_clock();
        run(self);
        let parts = self.model.stop_clock();
        Split { parts, sampling: self.sampling, passes: self.passes, barriers: None }
    }

    /// Computes K and V of the first `len` positions, unless that is done already.
    fn fill(&mut self, len: usize) {
        if self.filled < len {
            self.run_prompt(self.filled..len);
        }
    }

    pub(super) fn run_prompt(&mut self, positions: std::ops::Range<usize>) {
        let end = positions.end;
        let sampler = sampler();
        for start in positions.step_by(self.chunk) {
            let tokens = &self.tokens[start..end.min(start + self.chunk)];
            let last = [tokens.len() - 1];
            let want = if start + tokens.len() == end { &last[..] } else { &[] };
            let causal = Segment::causal(tokens, start, &self.pages, want);
            let segment = Segment { scoring: sampler.scoring(), ..causal };
            self.model.assume_states(start);
            self.model.forward(&[segment], &mut self.logits);
        }
        self.filled = self.filled.max(end);
        self.passes += 1;
    }

    /// Decodes the next token of each sequence. A single one has all pages, several have one each.
    fn step(&mut self, sequences: &mut Sequences) {
        let Sequences { tokens, samplers, position, .. } = sequences;
        let next = *position + 1;
        let draws: Vec<_> =
            samplers.iter().map(|sampler| sampler.draw_query(next, next, &[])).collect();
        let segment = |(i, token)| {
            let pages = if samplers.len() == 1 { &self.pages[..] } else { &self.pages[i..=i] };
            let causal = Segment::causal(from_ref(token), *position, pages, &[0]);
            let draws = from_ref(&draws[i]);
            Segment { scoring: samplers[i].scoring(), draws, state: i, ..causal }
        };
        let segments: Vec<Segment<'_>> = tokens.iter().enumerate().map(segment).collect();
        self.model.assume_states(*position);
        self.model.forward(&segments, &mut self.logits);
        let start = Instant::now();
        for (i, (token, sampler)) in tokens.iter_mut().zip(samplers).enumerate() {
            let picked = sampler.sample(self.logits.row_mut(i), next);
            *token = picked.map_or(0, |picked| picked.token);
        }
        self.sampling += start.elapsed();
        self.passes += 1;
        sequences.advance();
    }
}

/// Sequences that are decoded together, one token of each per step.
struct Sequences {
    tokens: Vec<TokenId>,
    samplers: Vec<Sampler>,
    /// Position at which they start over after the last one.
    context: usize,
    position: usize,
    last: usize,
}

impl Sequences {
    fn advance(&mut self) {
        self.position = if self.position < self.last { self.position + 1 } else { self.context };
    }
}

fn sampler() -> Sampler {
    let limits = Limits { max_tokens: usize::MAX, ..Limits::default() };
    Sampler::new(SamplingParams::default(), &limits, &[])
}
