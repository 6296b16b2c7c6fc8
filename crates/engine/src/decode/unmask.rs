//! Rules that select the predictions of a pass to keep, each a pure function.
//!
//! A pass predicts every mask of the sub-block being filled. The rule sees the confidence of each
//! prediction. Whatever the rule, at least `min_kept` predictions are kept, most confident first, so every
//! pass makes progress.

use std::cmp::Ordering;
use std::mem::discriminant;

/// Confidence of the model in a predicted token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    /// Probability of the token.
    pub probability: f32,
    /// Entropy of the distribution over all tokens, in nats.
    pub entropy: f32,
}

/// Rule that selects the predictions to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnmaskRule {
    /// Keeps predictions with a probability above the threshold.
    Threshold(f32),
    /// Keeps the n most probable, for the largest n with (n + 1) · (1 − the lowest of them) below the factor.
    Factor(f32),
    /// Keeps the minimum.
    Static,
    /// Keeps those above the threshold if they reach the minimum, else the minimum.
    Dynamic(f32),
    /// Keeps those of lowest entropy while their entropies add up to less than the bound.
    Entropy(f32),
    /// Keeps those above a threshold that rises to this one over the first passes.
    Adaptive(f32),
    /// Keeps all after one pass.
    Single,
    /// Keeps those above `mask`, and replaces kept tokens where another token exceeds `edit`.
    Edit {
        /// Threshold to fill a mask.
        mask: f32,
        /// Threshold to replace a token.
        edit: f32,
    },
    /// Keeps the leading ones, up to the first that does not exceed the threshold.
    Prefix(f32),
}

const RULES: [(&str, UnmaskRule); 9] = [
    ("threshold", UnmaskRule::DEFAULT),
    ("factor", UnmaskRule::Factor(1.0)),
    ("static", UnmaskRule::Static),
    ("dynamic", UnmaskRule::Dynamic(0.85)),
    ("entropy", UnmaskRule::Entropy(0.35)),
    ("adaptive", UnmaskRule::Adaptive(0.9)),
    ("single", UnmaskRule::Single),
    ("edit", UnmaskRule::Edit { mask: 0.7, edit: 0.5 }),
    ("prefix", UnmaskRule::Prefix(0.6)),
];

impl UnmaskRule {
    /// The default rule.
    pub const DEFAULT: Self = Self::Threshold(0.9);

    /// Returns the names of all rules.
    pub fn names() -> [&'static str; RULES.len()] {
        RULES.map(|(name, _)| name)
    }

    /// Returns the rule of that name with its default thresholds.
    pub fn from_name(name: &str) -> Option<Self> {
        RULES.into_iter().find(|(known, _)| *known == name).map(|(_, rule)| rule)
    }

    /// Returns the name of the rule.
    pub fn name(self) -> &'static str {
        let same = |(_, rule): &&(&str, Self)| discriminant(rule) == discriminant(&self);
        RULES.iter().find(same).map_or("", |(name, _)| name)
    }

    /// Sets the threshold, factor or bound of the rule, if it has one.
    pub fn set_threshold(&mut self, number: f32) {
        match self {
            Self::Threshold(n) | Self::Factor(n) | Self::Dynamic(n) | Self::Entropy(n) => {
                *n = number
            }
            Self::Adaptive(n) | Self::Prefix(n) | Self::Edit { mask: n, .. } => *n = number,
            Self::Static | Self::Single => {}
        }
    }

    /// Sets the second threshold of the rule `edit`.
    pub fn set_edit_threshold(&mut self, number: f32) {
        if let Self::Edit { edit, .. } = self {
            *edit = number;
        }
    }

    /// Checks the ranges of the thresholds. NaN is outside of every range.
    pub(super) fn check(self) -> Result<(), String> {
        let in_range = |name: &str, value: f32, max: f32| match (0.0..=max).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} is {value}: must be between 0 and {max}")),
        };
        match self {
            Self::Factor(n) => in_range("threshold (of the rule factor)", n, 1000.0),
            Self::Entropy(n) => in_range("threshold (of the rule entropy)", n, 1000.0),
            Self::Edit { mask, edit } => {
                in_range("threshold", mask, 1.0)?;
                in_range("edit_threshold", edit, 1.0)
            }
            Self::Threshold(n) | Self::Dynamic(n) | Self::Adaptive(n) | Self::Prefix(n) => {
                in_range("threshold", n, 1.0)
            }
            Self::Static | Self::Single => Ok(()),
        }
    }

    /// Returns `true` if the rule needs entropies, which take another pass over the logits.
    pub(super) fn needs_entropy(self) -> bool {
        matches!(self, Self::Entropy(_))
    }

    /// Returns the indices of the predictions to keep, ascending. `pass` counts from 0; at least `min_kept`
    /// are kept as far as there are so many.
    pub fn keep(self, predictions: &[Confidence], pass: usize, min_kept: usize) -> Vec<usize> {
        let mut kept = match self {
            Self::Threshold(t) | Self::Edit { mask: t, .. } => above(predictions, t),
            Self::Factor(f) => factor(predictions, f),
            Self::Static => Vec::new(),
            Self::Dynamic(t) => {
                let above = above(predictions, t);
                if above.len() >= min_kept { above } else { Vec::new() }
            }
            Self::Entropy(bound) => entropy(predictions, bound),
            Self::Adaptive(t) => above(predictions, rising(t, pass)),
            Self::Single => (0..predictions.len()).collect(),
            Self::Prefix(t) => {
                let leading = predictions.iter().take_while(|p| p.probability > t);
                (0..leading.count()).collect()
            }
        };
        if kept.len() < min_kept {
            let order: Vec<_> = match self {
                Self::Prefix(_) => (0..predictions.len()).collect(),
                Self::Entropy(_) => by_entropy(predictions),
                _ => by_probability(predictions),
            };
            kept = order.into_iter().take(min_kept).collect();
        }
        kept.sort_unstable();
        kept
    }
}

impl Default for UnmaskRule {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Returns the threshold of a pass: two lower ones, then the configured one.
fn rising(threshold: f32, pass: usize) -> f32 {
    match pass {
        0 => (threshold - 0.4).max(0.5),
        1 => (threshold - 0.2).max(0.7),
        _ => threshold,
    }
}

fn above(predictions: &[Confidence], threshold: f32) -> Vec<usize> {
    (0..predictions.len()).filter(|&i| predictions[i].probability > threshold).collect()
}

fn factor(predictions: &[Confidence], factor: f32) -> Vec<usize> {
    let mut order = by_probability(predictions);
    let fits = |n: usize| (n + 1) as f32 * (1.0 - predictions[order[n - 1]].probability) < factor;
    let n = (1..=order.len()).rev().find(|&n| fits(n)).unwrap_or(0);
    order.truncate(n);
    order
}

fn entropy(predictions: &[Confidence], bound: f32) -> Vec<usize> {
    let mut sum = 0.0;
    let fits = |&i: &usize| {
        sum += predictions[i].entropy;
        sum < bound
    };
    by_entropy(predictions).into_iter().take_while(fits).collect()
}

/// Orders by probability, highest first; equal ones from left to right.
fn by_probability(predictions: &[Confidence]) -> Vec<usize> {
    sorted(predictions, |a, b| b.probability.total_cmp(&a.probability))
}

/// Orders by entropy, lowest first; equal ones from left to right.
fn by_entropy(predictions: &[Confidence]) -> Vec<usize> {
    sorted(predictions, |a, b| a.entropy.total_cmp(&b.entropy))
}

fn sorted(
    predictions: &[Confidence],
    order: impl Fn(&Confidence, &Confidence) -> Ordering,
) -> Vec<usize> {
    let mut indices: Vec<_> = (0..predictions.len()).collect();
    indices.sort_by(|&a, &b| order(&predictions[a], &predictions[b]));
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(probabilities: &[f32]) -> Vec<Confidence> {
        let confidence =
            |&probability: &f32| Confidence { probability, entropy: 1.0 - probability };
        probabilities.iter().map(confidence).collect()
    }

    fn kept(rule: UnmaskRule, probabilities: &[f32]) -> Vec<usize> {
        rule.keep(&predictions(probabilities), 9, 1)
    }

    #[test]
    fn a_threshold_is_strict_and_the_most_probable_is_always_kept() {
        assert_eq!(kept(UnmaskRule::Threshold(0.9), &[0.95, 0.9, 0.91]), [0, 2]);
        assert_eq!(kept(UnmaskRule::Threshold(0.9), &[0.1, 0.3, 0.3]), [1], "the left of equals");
        assert_eq!(kept(UnmaskRule::Threshold(1.0), &[1.0, 1.0]), [0], "1 means one by one");
    }

    #[test]
    fn a_factor_keeps_more_the_more_probable_all_of_them_are() {
        // 2 · 0.02 and 3 · 0.1 are below 0.35, 4 · 0.1 is not.
        assert_eq!(kept(UnmaskRule::Factor(0.35), &[0.9, 0.98, 0.9]), [0, 1]);
        assert_eq!(kept(UnmaskRule::Factor(0.5), &[0.9, 0.98, 0.9]), [0, 1, 2]);
        assert_eq!(kept(UnmaskRule::Factor(0.01), &[0.9, 0.98]), [1]);
    }

    #[test]
    fn static_keeps_the_minimum() {
        assert_eq!(UnmaskRule::Static.keep(&predictions(&[0.2, 0.9, 0.5, 0.6]), 0, 2), [1, 3]);
        assert_eq!(UnmaskRule::Static.keep(&predictions(&[0.2]), 0, 2), [0]);
    }

    #[test]
    fn dynamic_keeps_those_above_the_threshold_only_if_they_reach_the_minimum() {
        let p = predictions(&[0.9, 0.86, 0.2, 0.99]);
        assert_eq!(UnmaskRule::Dynamic(0.85).keep(&p, 0, 2), [0, 1, 3]);
        assert_eq!(UnmaskRule::Dynamic(0.95).keep(&p, 0, 2), [0, 3]);
    }

    #[test]
    fn entropies_add_up_to_less_than_the_bound() {
        assert_eq!(kept(UnmaskRule::Entropy(0.35), &[0.5, 0.9, 0.8, 0.9]), [1, 3]);
        assert_eq!(kept(UnmaskRule::Entropy(0.05), &[0.5, 0.9]), [1]);
    }

    #[test]
    fn adaptive_thresholds_rise() {
        let p = predictions(&[0.55, 0.75, 0.95]);
        let kept = |pass| UnmaskRule::Adaptive(0.9).keep(&p, pass, 1);
        assert_eq!((kept(0), kept(1), kept(2)), (vec![0, 1, 2], vec![1, 2], vec![2]));
    }

    #[test]
    fn single_keeps_all_and_prefix_the_leading_ones() {
        assert_eq!(kept(UnmaskRule::Single, &[0.1, 0.2]), [0, 1]);
        assert_eq!(kept(UnmaskRule::Prefix(0.6), &[0.7, 0.8, 0.1, 0.9]), [0, 1]);
        assert_eq!(
            kept(UnmaskRule::Prefix(0.6), &[0.1, 0.9]),
            [0],
            "the first, not the most probable"
        );
    }

    #[test]
    fn every_rule_has_a_name_and_keeps_at_least_the_minimum() {
        for name in UnmaskRule::names() {
            let rule = UnmaskRule::from_name(name).unwrap();
            assert_eq!(rule.name(), name);
            for min_kept in 1..4 {
                let kept = rule.keep(&predictions(&[0.01, 0.02, 0.03]), 5, min_kept);
                assert!(kept.len() >= min_kept && kept.is_sorted(), "{name}");
            }
        }
        assert_eq!(UnmaskRule::from_name("other"), None);
    }
}
