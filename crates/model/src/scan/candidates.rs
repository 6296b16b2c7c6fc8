//! Candidates for the best tokens, and their exact scores.

use wf_core::TokenId;
use wf_kernels::ScoreBounds;

use super::row::RowScan;
use super::{Bounds, STRIP};
use crate::logits::TokenLogit;

/// Tokens whose exact scores are known, and buffers for choosing more.
pub(super) struct Candidates {
    /// The tokens that were scored, and their scores.
    pub(super) known: Vec<TokenLogit>,
    /// Largest difference of a score from its estimate, relative to the bound.
    pub(super) max_error: f32,
    /// One bit for each token that is known.
    is_known: Vec<u32>,
    candidates: Vec<Candidate>,
    values: Vec<f32>,
    strips: Vec<u32>,
    plain: Vec<ScoreBounds>,
    drawn: Vec<ScoreBounds>,
    tokens: Vec<TokenId>,
    scores: Vec<f32>,
}

/// A token that could be among the best, or be drawn.
#[derive(Clone, Copy)]
struct Candidate {
    token: TokenId,
    bounds: Bounds,
}

/// More tokens would have to be scored than pays.
#[derive(Debug)]
pub(super) struct TooMany;

impl Candidates {
    /// Allocates for the largest choice. Memory that no choice needs is never touched.
    pub(super) fn new(vocab_len: usize) -> Self {
        let strips = vocab_len.div_ceil(STRIP);
        Self {
            known: Vec::with_capacity(vocab_len),
            max_error: 0.0,
            is_known: vec![0; vocab_len.div_ceil(32)],
            candidates: Vec::with_capacity(vocab_len),
            values: Vec::with_capacity(strips),
            strips: Vec::with_capacity(strips),
            plain: Vec::with_capacity(strips),
            drawn: Vec::with_capacity(strips),
            tokens: Vec::with_capacity(vocab_len),
            scores: Vec::with_capacity(vocab_len),
        }
    }

    /// Forgets all tokens.
    pub(super) fn clear(&mut self) {
        for known in self.known.drain(..) {
            self.is_known[known.token as usize / 32] = 0;
        }
        self.max_error = 0.0;
    }

    /// Scores all tokens that could be among the `k` best.
    pub(super) fn add_best(
        &mut self,
        row: &RowScan<'_>,
        strips: &[Bounds],
        k: usize,
        max: usize,
    ) -> Result<(), TooMany> {
        let first = self.known.len();
        self.add_highest(row, strips, k, |b| b.estimate);
        let floor =
            self.known[first..].iter().map(|known| known.logit).fold(f32::INFINITY, f32::min);
        self.add_all(row, strips, max, |b| b.upper >= floor)
    }

    /// Scores the `k` unknown tokens with the highest `value`, the lowest ids among equals. The value of a strip
    /// must be the largest of its tokens' values. Those of −∞ are left out.
    pub(super) fn add_highest(
        &mut self,
        row: &RowScan<'_>,
        strips: &[Bounds],
        k: usize,
        value: impl Fn(&Bounds) -> f32,
    ) {
        let floor = self.kth_highest(strips, k, &value);
        self.list(row, strips, |b| value(b) >= floor && value(b) > f32::NEG_INFINITY);
        self.keep_highest(k, &value);
        self.score_candidates(row);
    }

    /// Scores the `k` unknown tokens with the highest estimates, which are given.
    pub(super) fn add_highest_estimates(
        &mut self,
        row: &RowScan<'_>,
        (strips, estimates): (&[Bounds], &[[f32; STRIP]]),
        k: usize,
    ) {
        let floor = self.kth_highest(strips, k, |b| b.estimate);
        self.candidates.clear();
        for ((strip, estimates), first) in strips.iter().zip(estimates).zip((0..).step_by(STRIP)) {
            if strip.estimate < floor {
                continue;
            }
            let known = self.known_in_strip(first);
            for (&estimate, at) in estimates.iter().zip(0..) {
                if estimate >= floor && estimate > f32::NEG_INFINITY && known >> at & 1 == 0 {
                    let bounds = Bounds { estimate, ..Bounds::NONE };
                    self.candidates.push(Candidate { token: first + at, bounds });
                }
            }
        }
        self.keep_highest(k, |b| b.estimate);
        let candidates = std::mem::take(&mut self.candidates);
        self.add(row, candidates.iter().map(|candidate| candidate.token));
        self.candidates = candidates;
    }

    /// Scores the unknown tokens for which `is_possible` returns `true`, unless more than `max` would be known. It
    /// must return `true` for a strip if it does for one of its tokens.
    pub(super) fn add_all(
        &mut self,
        row: &RowScan<'_>,
        strips: &[Bounds],
        max: usize,
        is_possible: impl Fn(&Bounds) -> bool,
    ) -> Result<(), TooMany> {
        self.list(row, strips, is_possible);
        if self.known.len() + self.candidates.len() > max {
            return Err(TooMany);
        }
        self.score_candidates(row);
        Ok(())
    }

    /// Returns a value that at least `k` strips reach, so none of the `k` best tokens is worse.
    fn kth_highest(&mut self, strips: &[Bounds], k: usize, value: impl Fn(&Bounds) -> f32) -> f32 {
        self.values.clear();
        self.values.extend(strips.iter().map(value));
        match k <= self.values.len() {
            true => *self.values.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1,
            false => f32::NEG_INFINITY,
        }
    }

    /// Keeps the `k` candidates with the highest `value`, in order of memory.
    fn keep_highest(&mut self, k: usize, value: impl Fn(&Bounds) -> f32) {
        if k < self.candidates.len() {
            let order = |c: &Candidate| value(&c.bounds);
            self.candidates.select_nth_unstable_by(k - 1, |a, b| {
                order(b).total_cmp(&order(a)).then(a.token.cmp(&b.token))
            });
            self.candidates.truncate(k);
        }
        self.candidates.sort_unstable_by_key(|candidate| candidate.token);
    }

    /// Returns a bit for each known token of a strip.
    fn known_in_strip(&self, first: TokenId) -> u32 {
        self.is_known[first as usize / 32] >> (first % 32)
    }

    /// Scores tokens, none of which is known.
    pub(super) fn add(&mut self, row: &RowScan<'_>, tokens: impl Iterator<Item = TokenId>) {
        self.tokens.clear();
        self.tokens.extend(tokens);
        self.scores.resize(self.tokens.len(), 0.0);
        row.scores(&self.tokens, &mut self.scores);
        for (&token, &logit) in self.tokens.iter().zip(&self.scores) {
            self.is_known[token as usize / 32] |= 1 << (token % 32);
            self.known.push(TokenLogit { token, logit });
        }
    }

    fn score_candidates(&mut self, row: &RowScan<'_>) {
        let candidates = std::mem::take(&mut self.candidates);
        let first = self.known.len();
        self.add(row, candidates.iter().map(|candidate| candidate.token));
        for (Candidate { bounds, .. }, known) in candidates.iter().zip(&self.known[first..]) {
            let error = (known.logit - bounds.estimate).abs() / (bounds.upper - bounds.estimate);
            self.max_error = self.max_error.max(error);
        }
        self.candidates = candidates;
    }

    /// Sets the candidates to the unknown tokens for which `is_possible` returns `true`.
    fn list(
        &mut self,
        row: &RowScan<'_>,
        strips: &[Bounds],
        is_possible: impl Fn(&Bounds) -> bool,
    ) {
        self.strips.clear();
        let possible = strips.iter().zip(0..).filter(|(strip, _)| is_possible(strip));
        self.strips.extend(possible.map(|(_, strip)| strip));
        self.plain.resize(self.strips.len(), ScoreBounds::EMPTY);
        row.bounds(&self.strips, &mut self.plain);
        self.drawn.clone_from(&self.plain);
        row.perturb(&self.strips, &mut self.drawn);
        self.candidates.clear();
        for ((&strip, plain), drawn) in self.strips.iter().zip(&self.plain).zip(&self.drawn) {
            let first = strip * STRIP as u32;
            let known = self.known_in_strip(first);
            for at in 0..STRIP {
                let bounds = Bounds {
                    estimate: plain.estimate[at],
                    upper: plain.upper[at],
                    drawn_estimate: drawn.estimate[at],
                    drawn_upper: drawn.upper[at],
                };
                // Padding, and tokens that are not searched, have no bound.
                let is_open = bounds.upper > f32::NEG_INFINITY && known >> at & 1 == 0;
                if is_open && is_possible(&bounds) {
                    self.candidates.push(Candidate { token: first + at as u32, bounds });
                }
            }
        }
    }
}
