//! Which guesses of a pass are kept: one pure function for each rule.
//!
//! A pass scores every mask of the part being filled. The rule sees what it would write and how sure
//! it is, and says which of it stays. Whatever the rule, at least `least` guesses stay, the surest
//! first, so every pass gets somewhere.

use std::cmp::Ordering;

/// What a pass would write in one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// How likely the token is.
    pub probability: f32,
    /// How undecided the model is among all tokens, in nats.
    pub entropy: f32,
}

/// Which guesses are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Those surer than this.
    Threshold(f32),
    /// As many of the surest, n, as have (n + 1) · (1 − the least sure one) below this.
    Factor(f32),
    /// No more than must be.
    Static,
    /// Those surer than this if they are enough, else no more than must be.
    Dynamic(f32),
    /// The most decided, while their entropies add up to less than this.
    Entropy(f32),
    /// Those surer than a threshold that rises to this from pass to pass.
    Adaptive(f32),
    /// All of them, after one pass.
    Single,
    /// Those surer than `mask`; and what was written before is changed where the model is surer than
    /// `edit` of another token.
    Edit {
        /// To fill a mask.
        mask: f32,
        /// To change a token.
        edit: f32,
    },
    /// The first ones, up to the first that is not surer than this.
    Prefix(f32),
}

impl Default for Rule {
    fn default() -> Self {
        Self::Threshold(0.9)
    }
}

impl Rule {
    /// The names of all rules, as they are asked for.
    pub const NAMES: [&str; 9] = [
        "threshold",
        "factor",
        "static",
        "dynamic",
        "entropy",
        "adaptive",
        "single",
        "edit",
        "prefix",
    ];

    /// The rule of a name, with the number that steers it if one is given.
    pub fn named(name: &str, number: Option<f32>, edit: Option<f32>) -> Option<Self> {
        let or = |default| number.unwrap_or(default);
        Some(match name {
            "threshold" => Self::Threshold(or(0.9)),
            "factor" => Self::Factor(or(1.0)),
            "static" => Self::Static,
            "dynamic" => Self::Dynamic(or(0.85)),
            "entropy" => Self::Entropy(or(0.35)),
            "adaptive" => Self::Adaptive(or(0.9)),
            "single" => Self::Single,
            "edit" => Self::Edit { mask: or(0.7), edit: edit.unwrap_or(0.5) },
            "prefix" => Self::Prefix(or(0.6)),
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threshold(_) => "threshold",
            Self::Factor(_) => "factor",
            Self::Static => "static",
            Self::Dynamic(_) => "dynamic",
            Self::Entropy(_) => "entropy",
            Self::Adaptive(_) => "adaptive",
            Self::Single => "single",
            Self::Edit { .. } => "edit",
            Self::Prefix(_) => "prefix",
        }
    }

    /// The number that steers it, if one does.
    pub fn number(self) -> Option<f32> {
        match self {
            Self::Threshold(n) | Self::Factor(n) | Self::Dynamic(n) | Self::Entropy(n) => Some(n),
            Self::Adaptive(n) | Self::Prefix(n) | Self::Edit { mask: n, .. } => Some(n),
            Self::Static | Self::Single => None,
        }
    }

    /// Whether it looks at entropies, which cost another look at every score.
    pub(crate) fn needs_entropy(self) -> bool {
        matches!(self, Self::Entropy(_))
    }

    /// Which of the guesses for masks, given from left to right, are kept in the `pass`-th pass over
    /// them (counted from 0): at least `least`, as far as there are so many.
    pub fn keep(self, guesses: &[Guess], pass: usize, least: usize) -> Vec<usize> {
        let mut kept = match self {
            Self::Threshold(t) | Self::Edit { mask: t, .. } => surer_than(guesses, t),
            Self::Factor(f) => factor(guesses, f),
            Self::Static => Vec::new(),
            Self::Dynamic(t) => {
                let sure = surer_than(guesses, t);
                if sure.len() >= least { sure } else { Vec::new() }
            }
            Self::Entropy(bound) => entropy(guesses, bound),
            Self::Adaptive(t) => surer_than(guesses, rising(t, pass)),
            Self::Single => (0..guesses.len()).collect(),
            Self::Prefix(t) => {
                guesses.iter().take_while(|g| g.probability > t).zip(0..).map(|(_, i)| i).collect()
            }
        };
        if kept.len() < least {
            let order: Vec<_> = match self {
                Self::Prefix(_) => (0..guesses.len()).collect(),
                Self::Entropy(_) => by_entropy(guesses),
                _ => by_probability(guesses),
            };
            kept = order.into_iter().take(least).collect();
        }
        kept.sort_unstable();
        kept
    }
}

/// The re-created system's thresholds: two bold passes, then the one asked for.
fn rising(threshold: f32, pass: usize) -> f32 {
    match pass {
        0 => (threshold - 0.4).max(0.5),
        1 => (threshold - 0.2).max(0.7),
        _ => threshold,
    }
}

fn surer_than(guesses: &[Guess], threshold: f32) -> Vec<usize> {
    (0..guesses.len()).filter(|&i| guesses[i].probability > threshold).collect()
}

/// The largest n whose surest n guesses have (n + 1) · (1 − the n-th) below `factor`.
fn factor(guesses: &[Guess], factor: f32) -> Vec<usize> {
    let mut order = by_probability(guesses);
    let fits = |n: usize| (n + 1) as f32 * (1.0 - guesses[order[n - 1]].probability) < factor;
    let n = (1..=order.len()).rev().find(|&n| fits(n)).unwrap_or(0);
    order.truncate(n);
    order
}

/// The most decided ones while their entropies add up to less than `bound`.
fn entropy(guesses: &[Guess], bound: f32) -> Vec<usize> {
    let mut sum = 0.0;
    let fits = |&i: &usize| {
        sum += guesses[i].entropy;
        sum < bound
    };
    by_entropy(guesses).into_iter().take_while(fits).collect()
}

/// Surest first; among equals from the left.
fn by_probability(guesses: &[Guess]) -> Vec<usize> {
    sorted(guesses, |a, b| b.probability.total_cmp(&a.probability))
}

/// Most decided first; among equals from the left.
fn by_entropy(guesses: &[Guess]) -> Vec<usize> {
    sorted(guesses, |a, b| a.entropy.total_cmp(&b.entropy))
}

fn sorted(guesses: &[Guess], order: impl Fn(&Guess, &Guess) -> Ordering) -> Vec<usize> {
    let mut indices: Vec<_> = (0..guesses.len()).collect();
    indices.sort_by(|&a, &b| order(&guesses[a], &guesses[b]));
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guesses(probabilities: &[f32]) -> Vec<Guess> {
        let guess = |&probability: &f32| Guess { probability, entropy: 1.0 - probability };
        probabilities.iter().map(guess).collect()
    }

    fn kept(rule: Rule, probabilities: &[f32]) -> Vec<usize> {
        rule.keep(&guesses(probabilities), 9, 1)
    }

    #[test]
    fn a_threshold_is_strict_and_the_surest_stays_in_any_case() {
        assert_eq!(kept(Rule::Threshold(0.9), &[0.95, 0.9, 0.91]), [0, 2]);
        assert_eq!(kept(Rule::Threshold(0.9), &[0.1, 0.3, 0.3]), [1], "of equals the left one");
        assert_eq!(kept(Rule::Threshold(1.0), &[1.0, 1.0]), [0], "1 means one by one");
    }

    #[test]
    fn a_factor_allows_more_the_surer_all_of_them_are() {
        // 2 · 0.02 and 3 · 0.1 are below 0.35, 4 · 0.1 is not.
        assert_eq!(kept(Rule::Factor(0.35), &[0.9, 0.98, 0.9]), [0, 1]);
        assert_eq!(kept(Rule::Factor(0.5), &[0.9, 0.98, 0.9]), [0, 1, 2]);
        assert_eq!(kept(Rule::Factor(0.01), &[0.9, 0.98]), [1]);
    }

    #[test]
    fn static_keeps_as_many_as_must_be() {
        assert_eq!(Rule::Static.keep(&guesses(&[0.2, 0.9, 0.5, 0.6]), 0, 2), [1, 3]);
        assert_eq!(Rule::Static.keep(&guesses(&[0.2]), 0, 2), [0]);
    }

    #[test]
    fn dynamic_keeps_the_sure_ones_only_if_they_are_enough() {
        let g = guesses(&[0.9, 0.86, 0.2, 0.99]);
        assert_eq!(Rule::Dynamic(0.85).keep(&g, 0, 2), [0, 1, 3]);
        assert_eq!(Rule::Dynamic(0.95).keep(&g, 0, 2), [0, 3]);
    }

    #[test]
    fn entropies_add_up_to_less_than_the_bound() {
        assert_eq!(kept(Rule::Entropy(0.35), &[0.5, 0.9, 0.8, 0.9]), [1, 3]);
        assert_eq!(kept(Rule::Entropy(0.05), &[0.5, 0.9]), [1]);
    }

    #[test]
    fn adaptive_thresholds_rise() {
        let g = guesses(&[0.55, 0.75, 0.95]);
        let kept = |pass| Rule::Adaptive(0.9).keep(&g, pass, 1);
        assert_eq!((kept(0), kept(1), kept(2)), (vec![0, 1, 2], vec![1, 2], vec![2]));
    }

    #[test]
    fn single_keeps_all_and_prefix_the_first_run() {
        assert_eq!(kept(Rule::Single, &[0.1, 0.2]), [0, 1]);
        assert_eq!(kept(Rule::Prefix(0.6), &[0.7, 0.8, 0.1, 0.9]), [0, 1]);
        assert_eq!(kept(Rule::Prefix(0.6), &[0.1, 0.9]), [0], "the first, not the surest");
    }

    #[test]
    fn every_rule_has_a_name_and_keeps_at_least_what_must_be() {
        for name in Rule::NAMES {
            let rule = Rule::named(name, None, None).unwrap();
            assert_eq!(rule.name(), name);
            for least in 1..4 {
                let kept = rule.keep(&guesses(&[0.01, 0.02, 0.03]), 5, least);
                assert!(kept.len() >= least && kept.is_sorted(), "{name}");
            }
        }
        assert_eq!(Rule::named("other", None, None), None);
    }
}
