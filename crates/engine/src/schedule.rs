//! Who gets how many tokens of a step: a pure function.

/// The share of each sequence in a step of `budget` tokens, given how many tokens each has that
/// are not yet in the pages, oldest sequence first.
///
/// Sequences that wait for their next token come first, so a long prompt never stalls them; what
/// is left goes to prompts, oldest first.
pub(crate) fn shares(pending: &[usize], budget: usize) -> Vec<usize> {
    let mut left = budget;
    let mut shares = vec![0; pending.len()];
    for prompts in [false, true] {
        for (share, &tokens) in shares.iter_mut().zip(pending) {
            if (tokens > 1) == prompts {
                *share = tokens.min(left);
                left -= *share;
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_comes_before_prompts() {
        assert_eq!(shares(&[100, 1, 1], 10), [8, 1, 1]);
    }

    #[test]
    fn prompts_are_served_oldest_first() {
        assert_eq!(shares(&[6, 6, 6], 10), [6, 4, 0]);
    }

    #[test]
    fn nobody_gets_more_than_there_is() {
        assert_eq!(shares(&[1, 1, 1], 2), [1, 1, 0]);
        assert_eq!(shares(&[], 2), [0; 0]);
    }
}
