//! The distance between two predictions of the next token, and its sums over a text.

use wf_engine::TokenId;
use wf_model::math;

/// Logits of one position as a distribution.
pub(super) struct Prediction<'l> {
    logits: &'l [f32],
    /// Logarithm of the sum of exponentials: a logit less this is a log probability.
    log_sum: f64,
}

impl<'l> Prediction<'l> {
    pub(super) fn new(logits: &'l [f32]) -> Self {
        let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|&logit| math::exp(f64::from(logit) - max)).sum();
        Self { logits, log_sum: math::ln(sum) + max }
    }

    /// Returns the logarithm of a token's probability.
    pub(super) fn log_probability(&self, token: TokenId) -> f64 {
        f64::from(self.logits[token as usize]) - self.log_sum
    }

    /// Returns the likeliest token; of equal ones, the first.
    pub(super) fn best(&self) -> TokenId {
        let mut best = 0;
        for (token, logit) in self.logits.iter().enumerate() {
            if *logit > self.logits[best] {
                best = token;
            }
        }
        best as TokenId
    }

    /// Returns the Kullback-Leibler divergence of `other` from this distribution, in nats.
    pub(super) fn divergence(&self, other: &Self) -> f64 {
        let terms = (0..self.logits.len() as TokenId).map(|token| {
            let log = self.log_probability(token);
            term(math::exp(log), log, other.log_probability(token))
        });
        // Rounding can leave a sum a little below zero.
        terms.sum::<f64>().max(0.0)
    }
}

/// Returns one term of a divergence: `p · (ln p − ln q)`. Tokens of no probability add nothing.
pub(super) fn term(p: f64, log_p: f64, log_q: f64) -> f64 {
    if p > 0.0 { p * (log_p - log_q) } else { 0.0 }
}

/// Sums over the predicted tokens of a text.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) tokens: usize,
    nll_a: f64,
    nll_b: f64,
    /// Sum of squared differences of −ln p.
    squares: f64,
    kl: f64,
    kl_max: f64,
    /// Number of the token, from 0, that has the largest divergence.
    kl_max_at: usize,
    agreeing: usize,
}

impl Tally {
    /// Adds a token: −ln p of the text's token in both runs, the divergence, and if the best tokens are equal.
    pub(super) fn add(&mut self, (nll_a, nll_b): (f64, f64), kl: f64, agrees: bool) {
        if kl > self.kl_max {
            (self.kl_max, self.kl_max_at) = (kl, self.tokens);
        }
        self.tokens += 1;
        self.nll_a += nll_a;
        self.nll_b += nll_b;
        self.squares += (nll_b - nll_a).powi(2);
        self.kl += kl;
        self.agreeing += usize::from(agrees);
    }

    pub(super) fn difference(&self) -> Difference {
        let n = self.tokens as f64;
        let (mean_nll_a, mean_nll_b) = (self.nll_a / n, self.nll_b / n);
        let mean = mean_nll_b - mean_nll_a;
        let variance = (self.squares / n - mean * mean).max(0.0);
        Difference {
            mean_nll_a,
            mean_nll_b,
            perplexity_change: math::exp(mean) - 1.0,
            perplexity_change_stderr: (variance / n).sqrt(),
            kl_mean: self.kl / n,
            kl_max: self.kl_max,
            kl_max_at: self.kl_max_at,
            agreement: self.agreeing as f64 / n,
        }
    }
}

/// The difference between two runs over the same text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    pub(super) mean_nll_a: f64,
    pub(super) mean_nll_b: f64,
    /// Increase of perplexity from a to b, as a fraction.
    pub(super) perplexity_change: f64,
    /// Standard error of the change over the tokens of the text.
    pub(super) perplexity_change_stderr: f64,
    pub(super) kl_mean: f64,
    pub(super) kl_max: f64,
    pub(super) kl_max_at: usize,
    /// Fraction of tokens for which both runs have the same best token.
    pub(super) agreement: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergences_of_known_distributions() {
        let logits = |p: [f64; 3]| p.map(|p| math::ln(p) as f32);
        let (a, b) = (logits([0.5, 0.25, 0.25]), logits([0.25, 0.5, 0.25]));
        let (a, b) = (Prediction::new(&a), Prediction::new(&b));
        // 0.5 ln 2 − 0.25 ln 2
        assert!((a.divergence(&b) - 0.25 * math::ln(2.0)).abs() < 1e-6);
        assert_eq!(a.divergence(&a), 0.0);
        assert_eq!((a.best(), b.best()), (0, 1));
        assert!((a.log_probability(1) - math::ln(0.25)).abs() < 1e-6);
        let impossible = [0.0, f32::NEG_INFINITY, 0.0];
        let impossible = Prediction::new(&impossible);
        assert!(impossible.divergence(&a).is_finite(), "a token that a never picks adds nothing");
        assert_eq!(a.divergence(&impossible), f64::INFINITY, "a possible token became impossible");
    }

    #[test]
    fn a_tally_has_means_and_the_largest() {
        let mut tally = Tally::default();
        tally.add((1.0, 1.5), 0.1, true);
        tally.add((2.0, 2.0), 0.4, false);
        tally.add((3.0, 3.1), 0.1, true);
        let difference = tally.difference();
        assert_eq!((difference.mean_nll_a, difference.kl_max, difference.kl_max_at), (2.0, 0.4, 1));
        assert!((difference.kl_mean - 0.2).abs() < 1e-12);
        assert!((difference.agreement - 2.0 / 3.0).abs() < 1e-12);
        assert!((difference.perplexity_change - (math::exp(0.2) - 1.0)).abs() < 1e-9);
        // Differences 0.5, 0, 0.1: variance 0.14/3 … of the mean over three.
        assert!((difference.perplexity_change_stderr - (0.14 / 9.0_f64).sqrt()).abs() < 1e-9);
    }
}
