//! The draw of a token from a row of logits.
//!
//! A draw keeps the tokens that top-k, top-p and min-p allow, adds noise to their scaled logits, and takes the
//! largest sum. That is a sample of their softmax, and a search for a maximum: [`scan`](crate::scan) finds the
//! same token without most of the logits.
//!
//! Candidates are ordered by logit, descending, then by token id, so that ties have one order everywhere. Sums
//! of weights run in f64 over that order, and `exp` is our own.

use std::cmp::Ordering;

use wf_core::TokenId;
use wf_kernels::{NoiseKey, math};

use crate::adjustment::Adjustment;
use crate::logits::{LogitsRow, TokenLogit};

/// Parameters of a draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Divisor of the logits; 0 takes the best token.
    pub temperature: f32,
    /// Number of best tokens that are kept; `None` keeps all.
    pub top_k: Option<usize>,
    /// Share of the probability that the best tokens must have together to leave out the others.
    pub top_p: f32,
    /// Probability, relative to the best token's, below which tokens are left out.
    pub min_p: f32,
    /// Selects the noise.
    pub key: NoiseKey,
}

/// A draw from one scored token.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawQuery {
    /// Parameters of the draw.
    pub draw: Draw,
    /// Changes of logits before the draw, by ascending token, each token once.
    pub adjustments: Vec<Adjustment>,
}

impl DrawQuery {
    /// Draws a token from a row of logits, which are adjusted; `None` if no logit is finite. `kept` receives the
    /// tokens that could be drawn, if some could not.
    pub fn token(&self, mut row: LogitsRow<'_>, kept: &mut Vec<Candidate>) -> Option<TokenId> {
        row.adjust(&self.adjustments);
        match (&row, self.draw.temperature) {
            (_, 0.0) => row.best(),
            (LogitsRow::All(logits), _) => {
                let logits = logits.iter().zip(0..);
                self.draw.pick(logits.map(|(&logit, token)| TokenLogit { token, logit }), kept)
            }
            (LogitsRow::Some(logits), _) => self.draw.pick(logits.iter().copied(), kept),
        }
    }
}

/// A token that may be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The token.
    pub token: TokenId,
    /// Its logit.
    pub logit: f32,
    /// Unnormalised probability; that of the best token is 1.
    pub weight: f64,
}

impl Candidate {
    fn row(&self) -> TokenLogit {
        TokenLogit { token: self.token, logit: self.logit }
    }
}

impl Draw {
    /// Returns the number that logits are multiplied by.
    pub(crate) fn factor(&self) -> f64 {
        1.0 / f64::from(self.temperature)
    }

    /// Returns `true` if tokens can be left out.
    pub(crate) fn truncates(&self) -> bool {
        self.top_k.is_some() || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Returns the sum whose largest value decides.
    pub(crate) fn perturbed(&self, token: TokenId, logit: f32) -> f64 {
        f64::from(logit) * self.factor() + self.key.gumbel(token)
    }

    /// Returns the weight of a logit where `best` is the largest one.
    pub(crate) fn weight(&self, logit: f32, best: f32) -> f64 {
        self.weight_below(logit, f64::from(best))
    }

    /// Returns the weight of a logit where `top` weighs 1.
    pub(crate) fn weight_below(&self, logit: f32, top: f64) -> f64 {
        math::exp((f64::from(logit) - top) * self.factor())
    }

    fn pick(
        &self,
        logits: impl Iterator<Item = TokenLogit> + Clone,
        kept: &mut Vec<Candidate>,
    ) -> Option<TokenId> {
        let finite = logits.filter(|row| row.logit.is_finite());
        let drawn = if self.truncates() {
            self.truncate(finite, kept);
            self.largest_sum(kept.iter().map(Candidate::row))
        } else {
            self.largest_sum(finite)
        };
        drawn.map(|drawn| drawn.token)
    }

    /// Sets `kept` to the tokens that could be drawn, with their weights. All logits must be finite.
    pub fn truncate(
        &self,
        logits: impl Iterator<Item = TokenLogit> + Clone,
        kept: &mut Vec<Candidate>,
    ) {
        kept.clear();
        let Some(best) = logits.clone().map(|row| row.logit).reduce(f32::max) else { return };
        kept.extend(logits.map(|TokenLogit { token, logit }| Candidate {
            token,
            logit,
            weight: self.weight(logit, best),
        }));
        keep_top_k(kept, self.top_k);
        keep_top_p(kept, f64::from(self.top_p));
        // The best candidate weighs 1, so min-p applies to the weight itself.
        kept.retain(|c| c.weight >= f64::from(self.min_p));
    }

    /// Returns the token with the largest sum, the lowest id among equals.
    pub(crate) fn largest_sum(
        &self,
        logits: impl Iterator<Item = TokenLogit>,
    ) -> Option<TokenLogit> {
        let factor = self.factor();
        let mut best: Option<(f64, TokenLogit)> = None;
        for row in logits {
            // Most tokens cannot win, which a bound tells without logarithms.
            let bound = f64::from(row.logit) * factor + f64::from(self.key.upper_bound(row.token));
            if best.is_some_and(|(largest, _)| bound < largest) {
                continue;
            }
            let sum = self.perturbed(row.token, row.logit);
            let wins = |(largest, winner): (f64, TokenLogit)| {
                sum > largest || (sum == largest && row.token < winner.token)
            };
            if best.is_none_or(wins) {
                best = Some((sum, row));
            }
        }
        best.map(|(_, winner)| winner)
    }
}

fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    a.row().rank(&b.row())
}

fn keep_top_k(kept: &mut Vec<Candidate>, k: Option<usize>) {
    let Some(k) = k else { return };
    if k < kept.len() {
        kept.select_nth_unstable_by(k - 1, rank);
        kept.truncate(k);
    }
    // Also if there are no more than `k`: sums must not depend on logits that were not computed.
    kept.sort_unstable_by(rank);
}

/// Keeps the shortest run of best candidates that holds a share `p` of the weight.
fn keep_top_p(kept: &mut Vec<Candidate>, p: f64) {
    if p >= 1.0 || kept.is_empty() {
        return;
    }
    // All candidates below this floor together weigh less than the 1 - p that may be left out, so the run
    // ends before the first of them: the long tail need not be sorted.
    let total: f64 = kept.iter().map(|c| c.weight).sum();
    let floor = (1.0 - p) * total / kept.len() as f64;
    kept.retain(|c| c.weight >= floor);
    kept.sort_unstable_by(rank);
    let mut sum = 0.0;
    let last = kept.iter().position(|c| {
        sum += c.weight;
        sum >= p * total
    });
    kept.truncate(last.map_or(kept.len(), |last| last + 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARM: Draw =
        Draw { temperature: 1.0, top_k: None, top_p: 1.0, min_p: 0.0, key: NoiseKey([1, 2, 3, 4]) };

    fn logits() -> impl Iterator<Item = TokenLogit> + Clone {
        (0..500).map(|token| TokenLogit { token, logit: ((token * 7919) % 500) as f32 * 0.02 })
    }

    #[test]
    fn the_floor_of_top_p_changes_nothing() {
        for p in [0.01, 0.3, 0.5, 0.9, 0.95, 0.999] {
            let mut kept = Vec::new();
            WARM.truncate(logits(), &mut kept);
            let mut all = kept.clone();
            keep_top_p(&mut kept, p);
            let total: f64 = all.iter().map(|c| c.weight).sum();
            all.sort_unstable_by(rank);
            let mut sum = 0.0;
            let enough = all.iter().position(|c| {
                sum += c.weight;
                sum >= p * total
            });
            all.truncate(enough.unwrap() + 1);
            let tokens = |c: Vec<Candidate>| c.iter().map(|c| c.token).collect::<Vec<_>>();
            assert_eq!(tokens(kept), tokens(all), "p = {p}");
        }
    }

    #[test]
    fn tokens_that_a_bound_rules_out_would_not_have_won() {
        for i in 0..200 {
            let draw = Draw { key: NoiseKey([i, 5, 6, 7]), temperature: 0.7, ..WARM };
            let sum = |row: &TokenLogit| draw.perturbed(row.token, row.logit);
            let expected = logits().max_by(|a, b| sum(a).total_cmp(&sum(b)));
            assert_eq!(draw.largest_sum(logits()), expected);
        }
    }

    #[test]
    fn some_logits_give_the_draw_of_all_if_they_have_the_drawn_token() {
        let adjustments = vec![Adjustment { bias: 5.0, ..Adjustment::none(3) }];
        let query = DrawQuery { draw: Draw { top_p: 0.9, ..WARM }, adjustments };
        let mut all: Vec<f32> = logits().map(|row| row.logit).collect();
        let token = query.token(LogitsRow::All(&mut all), &mut Vec::new());
        let mut some: Vec<_> = logits().filter(|row| Some(row.token) == token).collect();
        assert_eq!(query.token(LogitsRow::Some(&mut some), &mut Vec::new()), token);
    }
}
