//! Candidates for the best tokens, and their exact scores.

use std::cmp::Ordering;

use wf_kernels::ScoreBounds;

use super::STRIP;

pub(super) struct Candidates {
    /// Largest estimate of every strip.
    best: Vec<f32>,
    ranked: Vec<(f32, u32)>,
    tokens: Vec<u32>,
    scores: Vec<f32>,
}

pub(super) struct Chosen {
    /// Number of tokens that were scored.
    pub(super) tokens: usize,
    /// Largest difference of a score from its estimate, relative to the bound.
    pub(super) max_error: f32,
}

impl Candidates {
    pub(super) fn new(vocab_len: usize) -> Self {
        Self {
            best: Vec::with_capacity(vocab_len.div_ceil(STRIP)),
            ranked: Vec::with_capacity(vocab_len),
            tokens: Vec::with_capacity(vocab_len),
            scores: vec![0.0; vocab_len],
        }
    }

    /// Writes the scores of all tokens that could be among the `k` best to `out`, and −∞ for all
    /// others; `exact` scores tokens. Returns `None` if more than `max` tokens are candidates.
    pub(super) fn choose(
        &mut self,
        estimates: &[ScoreBounds],
        k: usize,
        max: usize,
        out: &mut [f32],
        exact: &mut impl FnMut(&[u32], &mut [f32]),
    ) -> Option<Chosen> {
        out.fill(f32::NEG_INFINITY);
        self.pick_best(estimates, k);
        let mut chosen = Chosen { tokens: 0, max_error: 0.0 };
        let floor = self.score(estimates, out, exact, &mut chosen);
        self.tokens.clear();
        for (strip, estimate) in estimates.iter().enumerate().filter(|(_, g)| g.best_upper >= floor)
        {
            let first = strip * STRIP;
            let strip_tokens = (first..).zip(&estimate.upper).take(out.len() - first);
            // The tokens with the best estimates have their scores.
            let possible = strip_tokens
                .filter(|&(token, &upper)| upper >= floor && out[token] == f32::NEG_INFINITY);
            self.tokens.extend(possible.map(|(token, _)| token as u32));
        }
        if chosen.tokens + self.tokens.len() > max {
            return None;
        }
        self.score(estimates, out, exact, &mut chosen);
        Some(chosen)
    }

    /// Scores `tokens` and returns the worst score.
    fn score(
        &mut self,
        estimates: &[ScoreBounds],
        out: &mut [f32],
        exact: &mut impl FnMut(&[u32], &mut [f32]),
        chosen: &mut Chosen,
    ) -> f32 {
        let scores = &mut self.scores[..self.tokens.len()];
        exact(&self.tokens, scores);
        let mut worst = f32::INFINITY;
        for (&token, &score) in self.tokens.iter().zip(scores.iter()) {
            let token = token as usize;
            let (estimate, index) = (&estimates[token / STRIP], token % STRIP);
            let (middle, upper) = (estimate.estimate[index], estimate.upper[index]);
            chosen.max_error = chosen.max_error.max((score - middle).abs() / (upper - middle));
            worst = worst.min(score);
            out[token] = score;
        }
        chosen.tokens += self.tokens.len();
        worst
    }

    /// Sets `tokens` to the `k` tokens with the best estimates, the lowest ids among equals.
    fn pick_best(&mut self, estimates: &[ScoreBounds], k: usize) {
        self.best.clear();
        self.best.extend(estimates.iter().map(|estimate| estimate.best_estimate));
        // At least `k` strips have a token this good, so none of the `k` best is worse.
        let floor = if k > self.best.len() {
            f32::NEG_INFINITY
        } else {
            *self.best.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
        };
        self.ranked.clear();
        for (strip, estimate) in
            estimates.iter().enumerate().filter(|(_, g)| g.best_estimate >= floor)
        {
            let tokens = (strip * STRIP..).zip(&estimate.estimate);
            let good = tokens.filter(|&(_, &middle)| middle >= floor && middle.is_finite());
            self.ranked.extend(good.map(|(token, &middle)| (middle, token as u32)));
        }
        let rank = |a: &(f32, u32), b: &(f32, u32)| -> Ordering {
            b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
        };
        if k < self.ranked.len() {
            self.ranked.select_nth_unstable_by(k - 1, rank);
            self.ranked.truncate(k);
        }
        self.tokens.clear();
        self.tokens.extend(self.ranked.iter().map(|&(_, token)| token));
        // In order of memory.
        self.tokens.sort_unstable();
    }
}
