//! Candidates for the best tokens, and their exact scores.

use std::cmp::Ordering;

use wf_kernels::ScoreBounds;

use super::{STRIP, StripBest};

/// Buffers for choosing candidates.
pub(super) struct Candidates {
    estimates: Vec<f32>,
    strips: Vec<u32>,
    bounds: Vec<ScoreBounds>,
    candidates: Vec<Candidate>,
    tokens: Vec<u32>,
    scores: Vec<f32>,
}

/// A token that could be among the best.
#[derive(Clone, Copy)]
struct Candidate {
    token: u32,
    estimate: f32,
    upper: f32,
}

/// Result of a choice.
pub(super) struct Chosen {
    /// Number of tokens that were scored.
    pub(super) tokens: usize,
    /// Largest difference of a score from its estimate, relative to the bound.
    pub(super) max_error: f32,
}

/// Functions that compute the bounds of the scores of strips, and exact scores of tokens.
pub(super) struct Source<B, E> {
    pub(super) bounds: B,
    pub(super) exact: E,
}

impl Candidates {
    /// Allocates for the largest choice. Memory that no choice needs is never touched.
    pub(super) fn new(vocab_len: usize) -> Self {
        let strips = vocab_len.div_ceil(STRIP);
        Self {
            estimates: Vec::with_capacity(strips),
            strips: Vec::with_capacity(strips),
            bounds: Vec::with_capacity(strips),
            candidates: Vec::with_capacity(vocab_len),
            tokens: Vec::with_capacity(vocab_len),
            scores: Vec::with_capacity(vocab_len),
        }
    }

    /// Writes the scores of all tokens that could be among the `k` best to `out`, and −∞ for all
    /// others. Returns `None` if more than `max` tokens are candidates.
    ///
    /// The bounds of strips are computed again rather than kept by the scan: few strips matter.
    pub(super) fn choose(
        &mut self,
        best: &[StripBest],
        k: usize,
        max: usize,
        source: &Source<impl Fn(&[u32], &mut [ScoreBounds]), impl Fn(&[u32], &mut [f32])>,
        out: &mut [f32],
    ) -> Option<Chosen> {
        out.fill(f32::NEG_INFINITY);
        let mut chosen = Chosen { tokens: 0, max_error: 0.0 };
        self.pick_best(best, k, &source.bounds);
        let floor = self.score(&source.exact, out, &mut chosen);
        self.list(
            best,
            |strip| strip.upper >= floor,
            &source.bounds,
            |candidate| {
                // The tokens with the best estimates have their scores.
                candidate.upper >= floor && out[candidate.token as usize] == f32::NEG_INFINITY
            },
        );
        if chosen.tokens + self.candidates.len() > max {
            return None;
        }
        self.score(&source.exact, out, &mut chosen);
        Some(chosen)
    }

    /// Scores the candidates and returns the worst score.
    fn score(
        &mut self,
        exact: &impl Fn(&[u32], &mut [f32]),
        out: &mut [f32],
        chosen: &mut Chosen,
    ) -> f32 {
        self.tokens.clear();
        self.tokens.extend(self.candidates.iter().map(|candidate| candidate.token));
        self.scores.resize(self.tokens.len(), 0.0);
        exact(&self.tokens, &mut self.scores);
        let mut worst = f32::INFINITY;
        for (&Candidate { token, estimate, upper }, &score) in
            self.candidates.iter().zip(&self.scores)
        {
            chosen.max_error = chosen.max_error.max((score - estimate).abs() / (upper - estimate));
            worst = worst.min(score);
            out[token as usize] = score;
        }
        chosen.tokens += self.candidates.len();
        worst
    }

    /// Sets the candidates to the `k` tokens with the best estimates, the lowest ids among equals, in
    /// order of memory.
    fn pick_best(
        &mut self,
        best: &[StripBest],
        k: usize,
        bounds: &impl Fn(&[u32], &mut [ScoreBounds]),
    ) {
        self.estimates.clear();
        self.estimates.extend(best.iter().map(|strip| strip.estimate));
        // At least `k` strips have a token this good, so none of the `k` best is worse.
        let floor = if k > self.estimates.len() {
            f32::NEG_INFINITY
        } else {
            *self.estimates.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
        };
        self.list(
            best,
            |strip| strip.estimate >= floor,
            bounds,
            |candidate| candidate.estimate >= floor && candidate.estimate.is_finite(),
        );
        let rank = |a: &Candidate, b: &Candidate| -> Ordering {
            b.estimate.total_cmp(&a.estimate).then(a.token.cmp(&b.token))
        };
        if k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(k - 1, rank);
            self.candidates.truncate(k);
        }
        self.candidates.sort_unstable_by_key(|candidate| candidate.token);
    }

    /// Sets the candidates to the tokens for which `is_candidate` returns `true`, in the strips for which
    /// `is_possible` does.
    fn list(
        &mut self,
        best: &[StripBest],
        is_possible: impl Fn(&StripBest) -> bool,
        bounds: &impl Fn(&[u32], &mut [ScoreBounds]),
        is_candidate: impl Fn(&Candidate) -> bool,
    ) {
        self.strips.clear();
        let possible = best.iter().zip(0..).filter(|(strip, _)| is_possible(strip));
        self.strips.extend(possible.map(|(_, strip)| strip));
        self.bounds.resize(self.strips.len(), ScoreBounds::EMPTY);
        bounds(&self.strips, &mut self.bounds);
        self.candidates.clear();
        for (&strip, bounds) in self.strips.iter().zip(&self.bounds) {
            let scores = bounds.estimate.iter().zip(&bounds.upper);
            for (token, (&estimate, &upper)) in (strip * STRIP as u32..).zip(scores) {
                let candidate = Candidate { token, estimate, upper };
                // Padding, and tokens that are not allowed, have no bound.
                if upper > f32::NEG_INFINITY && is_candidate(&candidate) {
                    self.candidates.push(candidate);
                }
            }
        }
    }
}
