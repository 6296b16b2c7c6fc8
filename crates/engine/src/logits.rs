//! Pure functions on a row of logits: the best token, logprobs, and truncation to candidates.
//!
//! Candidates are ordered by logit, descending, then by token id, so that ties have one order everywhere. Sums
//! run in f64 over that order, and `exp` is our own.

use std::cmp::Ordering;

use wf_model::{TokenId, math};

use crate::decode::Confidence;
use crate::output::Logprobs;

/// A token that may be sampled.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) token: TokenId,
    pub(crate) logit: f32,
    /// Unnormalised probability; that of the best token is 1.
    pub(crate) weight: f64,
}

/// Returns the token of the highest finite logit, the lowest id among equals.
pub(crate) fn best(logits: &[f32]) -> Option<TokenId> {
    // Two loops without an early exit become vector code, which is far faster than one loop with it.
    let finite = |logit: f32| if logit.is_finite() { logit } else { f32::NEG_INFINITY };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, tail) = logits.as_chunks::<16>();
    for chunk in chunks {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            let logit = finite(logit);
            *lane = if logit > *lane { logit } else { *lane };
        }
    }
    let max = lanes.into_iter().chain(tail.iter().map(|&l| finite(l))).fold(f32::MIN, f32::max);
    logits.iter().position(|&logit| logit == max).map(|token| token as TokenId)
}

pub(crate) fn best_two(logits: &[f32]) -> [Option<TokenId>; 2] {
    let first = best(logits);
    let others = logits.iter().zip(0..).filter(|(l, token)| l.is_finite() && Some(*token) != first);
    let second =
        others.fold(None, |second: Option<(f32, TokenId)>, (&logit, token)| match second {
            Some((max, _)) if max >= logit => second,
            _ => Some((logit, token)),
        });
    [first, second.map(|(_, token)| token)]
}

/// Returns the log probability of `token` and those of the `top` most probable tokens. The sum runs in token
/// order.
pub(crate) fn logprobs(logits: &[f32], token: TokenId, top: usize) -> Logprobs {
    let max = logits.iter().copied().filter(|l| l.is_finite()).fold(f32::NEG_INFINITY, f32::max);
    let above = |logit: f32| f64::from(logit) - f64::from(max);
    let finite = || logits.iter().zip(0..).filter(|(logit, _)| logit.is_finite());
    let sum: f64 = finite().map(|(&logit, _)| math::exp(above(logit))).sum();
    let log_sum = math::ln(sum);
    let logprob = |logit: f32| (above(logit) - log_sum) as f32;
    let mut best: Vec<_> =
        finite().map(|(&logit, token)| Candidate { token, logit, weight: 0.0 }).collect();
    if top < best.len() {
        best.select_nth_unstable_by(top, rank);
        best.truncate(top);
    }
    best.sort_unstable_by(rank);
    Logprobs {
        logprob: logprob(logits[token as usize]),
        top: best.iter().map(|c| (c.token, logprob(c.logit))).collect(),
    }
}

/// Returns the probability of `token` among all tokens, and the entropy of the distribution.
pub(crate) fn confidence(logits: &[f32], token: TokenId, with_entropy: bool) -> Confidence {
    let max = f64::from(logits[token as usize]);
    let above = || logits.iter().filter(|l| l.is_finite()).map(|&logit| f64::from(logit) - max);
    let sum: f64 = above().map(math::exp).sum();
    let entropy = if with_entropy {
        // −Σ p ln p, where ln p = x − ln Σ.
        let weighted: f64 = above().map(|x| math::exp(x) * x).sum();
        math::ln(sum) - weighted / sum
    } else {
        0.0
    };
    Confidence { probability: (1.0 / sum) as f32, entropy: entropy as f32 }
}

/// Orders candidates by logit, descending; equal ones by token id.
pub(crate) fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

pub(crate) fn keep_top_k(kept: &mut Vec<Candidate>, k: Option<usize>) {
    let Some(k) = k else { return };
    if k < kept.len() {
        kept.select_nth_unstable_by(k - 1, rank);
        kept.truncate(k);
    }
    // Also if there are no more than `k`: the draw must not depend on logits that were not computed.
    kept.sort_unstable_by(rank);
}

/// Keeps the shortest run of best candidates that holds a share `p` of the weight.
pub(crate) fn keep_top_p(kept: &mut Vec<Candidate>, p: f64) {
    if p >= 1.0 || kept.is_empty() {
        return;
    }
    let total: f64 = kept.iter().map(|c| c.weight).sum();
    // All candidates below this floor together weigh less than the 1 - p that may be left out, so the run
    // ends before the first of them: the long tail need not be sorted.
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
