//! Bounds of the weights before and after a token, which top-p compares.
//!
//! Top-p keeps a token if the tokens before it, in order of their scores, have less than a share `p` of all
//! weights: if `(1 - p) * before < p * rest`, where the rest begins with the token itself. Known scores count
//! exactly. All others are within an error of their estimates, which a histogram counts.

use wf_kernels::math;

use super::STRIP;
use crate::draw::Draw;
use crate::logits::TokenLogit;

/// Number of buckets of the histogram. The last one also holds everything below it.
const BUCKETS: usize = 2048;

/// Number of buckets in which weights fall by a factor of e.
const BUCKETS_PER_E: f64 = 64.0;

/// More than the relative rounding errors of sums of weights.
const SLACK: f64 = 1e-9;

/// The decision of top-p about a token, as far as bounds allow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    LeftOut,
    /// The bounds are too wide to tell.
    Open,
}

/// The scores that a [`Masses`] is about.
#[derive(Clone, Copy)]
pub(super) struct Scores<'a> {
    pub(super) draw: &'a Draw,
    /// Estimates of the unknown tokens, −∞ for tokens that do not count.
    pub(super) estimates: &'a [[f32; STRIP]],
    /// The highest score.
    pub(super) best: f32,
    /// Upper bound of the error of every estimate.
    pub(super) error: f64,
}

/// Buffers for the weights of one row.
pub(super) struct Masses {
    /// Score that weighs 1; no estimate is higher.
    top: f64,
    /// Number of buckets that a score of 1 spans.
    scale: f64,
    /// Upper bound of the error of estimates, and the factor that it makes of a weight.
    error: f64,
    error_factor: f64,
    /// Share that top-p keeps.
    p: f64,
    /// Number of estimates in each bucket, and of those that do not count.
    counts: Vec<u32>,
    /// Weight at the upper end of each bucket, and behind the last.
    weights: Vec<f64>,
    /// Weight of the buckets before each, with all scores at the upper ends, and at the lower ends.
    before: Ends,
    /// Weight of each bucket and those after it.
    after: Ends,
    /// The known tokens in order, and the weight before and after each.
    known: Vec<TokenLogit>,
    known_before: Vec<f64>,
    known_after: Vec<f64>,
}

/// Sums of weights for every bucket, and behind the last.
struct Ends {
    upper: Vec<f64>,
    lower: Vec<f64>,
}

impl Ends {
    fn new() -> Self {
        Self { upper: vec![0.0; BUCKETS + 1], lower: vec![0.0; BUCKETS + 1] }
    }
}

impl Masses {
    pub(super) fn new(vocab_len: usize) -> Self {
        let weight = |bucket: usize| math::exp(-(bucket as f64) / BUCKETS_PER_E);
        let mut weights: Vec<f64> = (0..=BUCKETS).map(weight).collect();
        weights[BUCKETS] = 0.0;
        Self {
            top: 0.0,
            scale: 1.0,
            error: 0.0,
            error_factor: 1.0,
            p: 1.0,
            counts: vec![0; BUCKETS + 1],
            weights,
            before: Ends::new(),
            after: Ends::new(),
            known: Vec::with_capacity(vocab_len),
            known_before: Vec::with_capacity(vocab_len + 1),
            known_after: Vec::with_capacity(vocab_len + 1),
        }
    }

    /// Counts the estimates of a row.
    pub(super) fn count(&mut self, scores: Scores<'_>) {
        let Scores { draw, estimates, best, error } = scores;
        self.p = f64::from(draw.top_p);
        self.scale = draw.factor() * BUCKETS_PER_E;
        self.top = f64::from(best) + error;
        // Buckets are found in f32.
        self.error = error + 1e-3 / self.scale + self.top.abs() * 1e-6;
        self.error_factor = math::exp(self.error * draw.factor());
        self.counts.fill(0);
        let (top, scale) = (self.top as f32, self.scale as f32);
        for strip in estimates {
            for bucket in strip.map(|estimate| bucket(estimate, top, scale)) {
                self.counts[bucket] += 1;
            }
        }
    }

    /// Moves tokens from the estimates to the known ones, all of which are given with their adjusted scores.
    pub(super) fn set_known(
        &mut self,
        scores: Scores<'_>,
        moved: &[TokenLogit],
        known: impl Iterator<Item = TokenLogit>,
    ) {
        let (top, scale) = (self.top as f32, self.scale as f32);
        for token in moved.iter().map(|moved| moved.token as usize) {
            let estimate = scores.estimates[token / STRIP][token % STRIP];
            self.counts[bucket(estimate, top, scale)] -= 1;
        }
        for i in 0..BUCKETS {
            let count = f64::from(self.counts[i]);
            self.before.upper[i + 1] = self.before.upper[i] + count * self.weights[i];
            self.before.lower[i + 1] = self.before.lower[i] + count * self.weights[i + 1];
        }
        for i in (0..BUCKETS).rev() {
            let count = f64::from(self.counts[i]);
            self.after.upper[i] = self.after.upper[i + 1] + count * self.weights[i];
            self.after.lower[i] = self.after.lower[i + 1] + count * self.weights[i + 1];
        }
        self.known.clear();
        self.known.extend(known);
        self.known.sort_unstable_by(TokenLogit::rank);
        let weights =
            self.known.iter().map(|known| scores.draw.weight_below(known.logit, self.top));
        running_sums(weights.clone(), &mut self.known_before);
        running_sums(weights.rev(), &mut self.known_after);
        self.known_after.reverse();
    }

    /// Returns what the bounds tell about a known token.
    pub(super) fn verdict(&self, token: TokenLogit) -> Verdict {
        let at = self.known.partition_point(|known| known.rank(&token).is_lt());
        self.verdict_at(f64::from(token.logit), at)
    }

    /// Returns a score such that all unknown tokens with lower ones are left out.
    pub(super) fn cut(&self) -> f64 {
        let scores = (0..BUCKETS).map(|i| self.top - i as f64 / self.scale);
        let is_left_out = |score: &f64| {
            let at = self.known.partition_point(|known| f64::from(known.logit) > *score);
            self.verdict_at(*score, at) == Verdict::LeftOut
        };
        scores.into_iter().find(is_left_out).unwrap_or(f64::NEG_INFINITY)
    }

    /// Returns the verdict about a token with this score that comes before known token `at`.
    fn verdict_at(&self, score: f64, at: usize) -> Verdict {
        let (known_before, known_after) = (self.known_before[at], self.known_after[at]);
        // Unknown tokens whose scores could be higher count before, all others after.
        let split = self.bucket_of(score - self.error) + 1;
        let before = known_before + self.before.upper[split] * self.error_factor;
        let rest = known_after + self.after.lower[split] / self.error_factor;
        if (1.0 - self.p) * before * (1.0 + SLACK) < self.p * rest {
            return Verdict::Kept;
        }
        // Only those whose scores are certainly higher count before.
        let split = self.bucket_of(score + self.error);
        let before = known_before + self.before.lower[split] / self.error_factor;
        let rest = known_after + self.after.upper[split] * self.error_factor;
        if (1.0 - self.p) * before > self.p * rest * (1.0 + SLACK) {
            return Verdict::LeftOut;
        }
        Verdict::Open
    }

    /// Returns the bucket of a score, below the last one for scores as low as that.
    fn bucket_of(&self, score: f64) -> usize {
        (((self.top - score) * self.scale).max(0.0) as usize).min(BUCKETS - 1)
    }
}

/// Returns the bucket of an estimate: [`BUCKETS`], which does not count, if it is −∞.
fn bucket(estimate: f32, top: f32, scale: f32) -> usize {
    let below = ((top - estimate) * scale).min(BUCKETS as f32 - 1.0) as u32;
    let bucket = if estimate == f32::NEG_INFINITY { BUCKETS as u32 } else { below };
    bucket as usize
}

/// Writes the sum of the weights before each, and of all.
fn running_sums(weights: impl Iterator<Item = f64>, sums: &mut Vec<f64>) {
    sums.clear();
    sums.push(0.0);
    let mut sum = 0.0;
    sums.extend(weights.map(|weight| {
        sum += weight;
        sum
    }));
}

#[cfg(test)]
mod tests {
    use wf_kernels::NoiseKey;

    use super::*;
    use crate::draw::Candidate;

    /// Verdicts agree with top-p on the true scores, whichever of them are known.
    #[test]
    fn verdicts_are_those_of_the_true_scores() {
        let noise = NoiseKey([5, 6, 7, 8]);
        let (tokens, error) = (1600_u32, 0.05);
        let mut verdicts = [0; 2];
        for (round, spread) in [0.2, 1.0, 3.0].into_iter().enumerate() {
            let random = |token: u32, i: u32| noise.gumbel(token * 7 + i + 100_000 * round as u32);
            let truth: Vec<TokenLogit> = (0..tokens)
                .map(|token| TokenLogit { token, logit: (random(token, 0) * spread) as f32 })
                .collect();
            let shift = |token: u32| (math::sin(random(token, 1)) * error * 0.99) as f32;
            let mut estimates = vec![[0.0; STRIP]; tokens as usize / STRIP];
            for known in &truth {
                estimates[known.token as usize / STRIP][known.token as usize % STRIP] =
                    known.logit + shift(known.token);
            }
            for top_p in [0.1, 0.5, 0.9, 0.99] {
                let draw = Draw {
                    temperature: 0.8,
                    top_k: None,
                    top_p,
                    min_p: 0.0,
                    key: NoiseKey::default(),
                };
                let mut kept: Vec<Candidate> = Vec::new();
                draw.truncate(truth.iter().copied(), &mut kept);
                let is_kept = |token: u32| kept.iter().any(|c| c.token == token);
                let best = truth.iter().map(|t| t.logit).fold(f32::MIN, f32::max);
                let scores = Scores { draw: &draw, estimates: &estimates, best, error };
                let mut masses = Masses::new(tokens as usize);
                for step in [1, 7, 400] {
                    masses.count(scores);
                    let known: Vec<_> = truth.iter().copied().step_by(step).collect();
                    masses.set_known(scores, &known, known.iter().copied());
                    let cut = masses.cut();
                    for &token in &truth {
                        let expected = is_kept(token.token);
                        if f64::from(token.logit) < cut
                            && !(token.token as usize).is_multiple_of(step)
                        {
                            assert!(!expected, "{token:?} below {cut}");
                        }
                    }
                    for &token in &known {
                        match masses.verdict(token) {
                            Verdict::Kept => assert!(is_kept(token.token), "{token:?}"),
                            Verdict::LeftOut => assert!(!is_kept(token.token), "{token:?}"),
                            Verdict::Open => {
                                assert_ne!(step, 1, "nothing is open if all scores are known");
                                verdicts[1] += 1;
                                continue;
                            }
                        }
                        verdicts[0] += 1;
                    }
                }
            }
        }
        assert!(verdicts[0] > 10 * verdicts[1], "{verdicts:?}");
    }
}
