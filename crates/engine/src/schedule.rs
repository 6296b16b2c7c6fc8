//! Who gets how many tokens of a step: a pure function.

use crate::decode::Need;

/// The share of each sequence in a step of `budget` tokens, given what each needs, first in turn first.
///
/// Sequences that wait for their next token come first, so a long prompt never stalls them; what
/// is left goes to prompts. Who could do nothing with what is left gets nothing.
pub(crate) fn shares(needs: &[Need], budget: usize) -> Vec<usize> {
    let mut left = budget;
    let mut shares = vec![0; needs.len()];
    for reads in [false, true] {
        for (share, need) in shares.iter_mut().zip(needs) {
            if need.reads == reads && need.least <= left {
                *share = need.tokens.min(left);
                left -= *share;
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(tokens: &[usize]) -> Vec<Need> {
        tokens.iter().map(|&tokens| Need { tokens, least: 1, reads: tokens > 1 }).collect()
    }

    #[test]
    fn decoding_comes_before_prompts() {
        assert_eq!(shares(&tokens(&[100, 1, 1]), 10), [8, 1, 1]);
    }

    #[test]
    fn prompts_are_served_oldest_first() {
        assert_eq!(shares(&tokens(&[6, 6, 6]), 10), [6, 4, 0]);
    }

    #[test]
    fn nobody_gets_more_than_there_is() {
        assert_eq!(shares(&tokens(&[1, 1, 1]), 2), [1, 1, 0]);
        assert_eq!(shares(&[], 2), [0; 0]);
    }

    #[test]
    fn a_block_runs_whole_or_not_at_all() {
        let block = Need { tokens: 8, least: 8, reads: false };
        let one = Need { tokens: 1, least: 1, reads: false };
        assert_eq!(shares(&[block, block, one], 15), [8, 0, 1]);
        assert_eq!(shares(&[one, block, block], 17), [1, 8, 8]);
    }
}
