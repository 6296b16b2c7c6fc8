//! Which tokens could be among the best, and their exact scores.

use std::cmp::Ordering;

use wf_kernels::ScoreBounds;

use super::guess::STRIP;

/// Room for choosing.
pub(super) struct Candidates {
    /// The largest guess of every strip.
    best: Vec<f32>,
    ranked: Vec<(f32, u32)>,
    tokens: Vec<u32>,
    scores: Vec<f32>,
}

/// What came of a choice.
pub(super) struct Chosen {
    /// How many tokens were scored.
    pub(super) tokens: usize,
    /// How far the furthest of them was from its guess, as a part of what was allowed.
    pub(super) furthest_off: f32,
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
    /// others; `exact` scores tokens. Nothing if more than `most` tokens are candidates.
    pub(super) fn choose(
        &mut self,
        guesses: &[ScoreBounds],
        (k, most): (usize, usize),
        out: &mut [f32],
        exact: &mut impl FnMut(&[u32], &mut [f32]),
    ) -> Option<Chosen> {
        out.fill(f32::NEG_INFINITY);
        self.look_best(guesses, k);
        let mut chosen = Chosen { tokens: 0, furthest_off: 0.0 };
        let floor = self.score(guesses, out, exact, &mut chosen);
        self.tokens.clear();
        for (strip, guess) in guesses.iter().enumerate().filter(|(_, g)| g.best_upper >= floor) {
            let first = strip * STRIP;
            let strip_tokens = (first..).zip(&guess.upper).take(out.len() - first);
            // Those that looked best have their scores.
            let possible = strip_tokens
                .filter(|&(token, &upper)| upper >= floor && out[token] == f32::NEG_INFINITY);
            self.tokens.extend(possible.map(|(token, _)| token as u32));
        }
        if chosen.tokens + self.tokens.len() > most {
            return None;
        }
        self.score(guesses, out, exact, &mut chosen);
        Some(chosen)
    }

    /// Scores `tokens`; the worst score is returned.
    fn score(
        &mut self,
        guesses: &[ScoreBounds],
        out: &mut [f32],
        exact: &mut impl FnMut(&[u32], &mut [f32]),
        chosen: &mut Chosen,
    ) -> f32 {
        let scores = &mut self.scores[..self.tokens.len()];
        exact(&self.tokens, scores);
        let mut worst = f32::INFINITY;
        for (&token, &score) in self.tokens.iter().zip(scores.iter()) {
            let token = token as usize;
            let (guess, place) = (&guesses[token / STRIP], token % STRIP);
            let (middle, upper) = (guess.middle[place], guess.upper[place]);
            chosen.furthest_off =
                chosen.furthest_off.max((score - middle).abs() / (upper - middle));
            worst = worst.min(score);
            out[token] = score;
        }
        chosen.tokens += self.tokens.len();
        worst
    }

    /// Leaves in `tokens` the `k` whose guesses are best, the lowest numbers among equals.
    fn look_best(&mut self, guesses: &[ScoreBounds], k: usize) {
        self.best.clear();
        self.best.extend(guesses.iter().map(|guess| guess.best_middle));
        // At least `k` strips have a token as good as this, so none of the `k` best is worse.
        let floor = if k > self.best.len() {
            f32::NEG_INFINITY
        } else {
            *self.best.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
        };
        self.ranked.clear();
        for (strip, guess) in guesses.iter().enumerate().filter(|(_, g)| g.best_middle >= floor) {
            let tokens = (strip * STRIP..).zip(&guess.middle);
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
        // Neighbours in memory one after the other.
        self.tokens.sort_unstable();
    }
}
