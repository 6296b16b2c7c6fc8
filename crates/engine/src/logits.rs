//! Pure functions on a row of logits: the two best tokens, logprobs, confidence.
//!
//! Sums run in f64 in token order, and `exp` is our own.

use wf_model::{LogitsRow, TokenId, TokenLogit, math};

use crate::decode::Confidence;
use crate::output::Logprobs;

/// Returns the tokens of the two highest finite logits, the lowest ids among equals.
pub(crate) fn best_two(row: &LogitsRow<'_>) -> [Option<TokenId>; 2] {
    match row {
        LogitsRow::All(logits) => {
            let logits = logits.iter().zip(0..);
            best_two_of(logits.map(|(&logit, token)| TokenLogit { token, logit }))
        }
        LogitsRow::Some(logits) => best_two_of(logits.iter().copied()),
    }
}

fn best_two_of(logits: impl Iterator<Item = TokenLogit>) -> [Option<TokenId>; 2] {
    let mut best: [Option<TokenLogit>; 2] = [None; 2];
    for row in logits.filter(|row| row.logit.is_finite()) {
        let precedes = |other: &Option<TokenLogit>| other.is_none_or(|o| row.rank(&o).is_lt());
        if precedes(&best[0]) {
            best = [Some(row), best[0]];
        } else if precedes(&best[1]) {
            best[1] = Some(row);
        }
    }
    best.map(|row| row.map(|row| row.token))
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
    let mut best: Vec<_> = finite().map(|(&logit, token)| TokenLogit { token, logit }).collect();
    if top < best.len() {
        best.select_nth_unstable_by(top, TokenLogit::rank);
        best.truncate(top);
    }
    best.sort_unstable_by(TokenLogit::rank);
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
