//! Scheduling of a step: the order of sequences and their shares, as pure functions.

use std::cmp::Reverse;

use crate::decode::TokenDemand;

/// Order of sequences: higher priority first, then order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: Reverse<i32>,
    arrival: u64,
}

impl Rank {
    /// `arrival` grows from request to request.
    pub(crate) fn new(priority: i32, arrival: u64) -> Self {
        Self { priority: Reverse(priority), arrival }
    }
}

/// Divides a step of `budget` tokens among sequences in rank order.
///
/// Sequences that decode come first, so a long prompt never stalls them; prefill gets the rest. A sequence
/// whose minimum exceeds the rest gets nothing.
pub(crate) fn shares(demands: &[TokenDemand], budget: usize) -> Vec<usize> {
    let mut left = budget;
    let mut shares = vec![0; demands.len()];
    for is_prefill in [false, true] {
        for (share, demand) in shares.iter_mut().zip(demands) {
            if demand.is_prefill == is_prefill && demand.min_tokens <= left {
                *share = demand.tokens.min(left);
                left -= *share;
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demands(tokens: &[usize]) -> Vec<TokenDemand> {
        let demand = |&tokens| TokenDemand { tokens, min_tokens: 1, is_prefill: tokens > 1 };
        tokens.iter().map(demand).collect()
    }

    #[test]
    fn decoding_comes_before_prefill() {
        assert_eq!(shares(&demands(&[100, 1, 1]), 10), [8, 1, 1]);
    }

    #[test]
    fn prompts_are_served_in_order() {
        assert_eq!(shares(&demands(&[6, 6, 6]), 10), [6, 4, 0]);
    }

    #[test]
    fn shares_never_exceed_the_budget() {
        assert_eq!(shares(&demands(&[1, 1, 1]), 2), [1, 1, 0]);
        assert_eq!(shares(&[], 2), [0; 0]);
    }

    #[test]
    fn a_block_runs_whole_or_not_at_all() {
        let block = TokenDemand { tokens: 8, min_tokens: 8, is_prefill: false };
        let one = TokenDemand { tokens: 1, min_tokens: 1, is_prefill: false };
        assert_eq!(shares(&[block, block, one], 15), [8, 0, 1]);
        assert_eq!(shares(&[one, block, block], 17), [1, 8, 8]);
    }
}
