//! Tokens that penalties consider: all of prompt and completion, or the last of them.

use std::collections::{HashMap, VecDeque};

use wf_core::TokenId;

/// Tokens of prompt and completion, or the last of them.
#[derive(Debug)]
pub(super) struct Penalized {
    /// Number of occurrences, by token. A token that is not here does not occur.
    known: HashMap<TokenId, Occurrences>,
    /// The last tokens in order, if only those count.
    window: Option<Window>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Occurrences {
    /// In prompt and completion. Not counted without a window, where no token ever leaves.
    all: u32,
    in_completion: u32,
}

#[derive(Debug)]
struct Window {
    len: usize,
    /// Each with true if it is of the completion.
    tokens: VecDeque<(TokenId, bool)>,
}

impl Penalized {
    /// Creates the tokens of a prompt, of which the last `window` count, or all.
    pub(super) fn new(window: Option<usize>, prompt: &[TokenId]) -> Self {
        let window = window.map(|len| Window { len, tokens: VecDeque::new() });
        let first = window.as_ref().map_or(0, |window| prompt.len().saturating_sub(window.len));
        let mut new = Self { known: HashMap::new(), window };
        prompt[first..].iter().for_each(|&token| new.add(token, false));
        new
    }

    /// Adds a token of the completion.
    pub(super) fn push(&mut self, token: TokenId) {
        self.add(token, true);
    }

    fn add(&mut self, token: TokenId, in_completion: bool) {
        let known = self.known.entry(token).or_default();
        known.in_completion += u32::from(in_completion);
        let Some(window) = &mut self.window else { return };
        known.all += 1;
        window.tokens.push_back((token, in_completion));
        if window.tokens.len() > window.len
            && let Some((first, was_in_completion)) = window.tokens.pop_front()
        {
            self.remove(first, was_in_completion);
        }
    }

    fn remove(&mut self, token: TokenId, in_completion: bool) {
        let Some(known) = self.known.get_mut(&token) else { return };
        known.all -= 1;
        known.in_completion -= u32::from(in_completion);
        if known.all == 0 {
            self.known.remove(&token);
        }
    }

    /// Returns all tokens that count after these drafted ones, and perhaps some that do not, in any order.
    pub(super) fn tokens<'a>(
        &'a self,
        drafted: &'a [TokenId],
    ) -> impl Iterator<Item = TokenId> + 'a {
        self.known.keys().chain(drafted).copied()
    }

    /// Returns the number of occurrences of a token in the completion, after these drafted ones, which are part of
    /// it. Returns `None` for a token that does not count.
    pub(super) fn times(&self, token: TokenId, drafted: &[TokenId]) -> Option<u32> {
        let mut found = self.known.get(&token).copied();
        let mut drafted = drafted;
        if let Some(Window { len, tokens }) = &self.window {
            let leaving = (tokens.len() + drafted.len()).saturating_sub(*len);
            for (_, in_completion) in tokens.iter().take(leaving).filter(|(old, _)| *old == token) {
                if let Some(known) = &mut found {
                    known.all -= 1;
                    known.in_completion -= u32::from(*in_completion);
                }
            }
            found = found.filter(|known| known.all > 0);
            drafted = &drafted[leaving.saturating_sub(tokens.len()).min(drafted.len())..];
        }
        let again = drafted.iter().filter(|drafted| **drafted == token).count() as u32;
        match found {
            Some(known) => Some(known.in_completion + again),
            None => (again > 0).then_some(again),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts in the list of all tokens, as the definition says.
    fn expected(
        window: Option<usize>,
        prompt: &[TokenId],
        completion: &[TokenId],
        token: TokenId,
    ) -> Option<u32> {
        let all: Vec<_> = prompt
            .iter()
            .map(|&token| (token, false))
            .chain(completion.iter().map(|&token| (token, true)))
            .collect();
        let first = window.map_or(0, |len| all.len().saturating_sub(len));
        let found: Vec<_> = all[first..].iter().filter(|(other, _)| *other == token).collect();
        let times = found.iter().filter(|(_, in_completion)| *in_completion).count() as u32;
        (!found.is_empty()).then_some(times)
    }

    #[test]
    fn the_last_tokens_count_whether_drafted_or_not() {
        let prompt = [1, 2, 3, 1, 4];
        let completion = [5, 1, 5, 6, 2, 5, 5, 3];
        for window in [None, Some(0), Some(1), Some(2), Some(4), Some(7), Some(13), Some(99)] {
            for drafted in 0..=completion.len() {
                let (committed, drafted) = completion.split_at(completion.len() - drafted);
                let mut penalized = Penalized::new(window, &prompt);
                committed.iter().for_each(|&token| penalized.push(token));
                for token in 0..8 {
                    let times = penalized.times(token, drafted);
                    let expected = expected(window, &prompt, &completion, token);
                    assert_eq!(times, expected, "{token} of {window:?} after {drafted:?}");
                    let is_listed = penalized.tokens(drafted).any(|listed| listed == token);
                    assert!(is_listed || times.is_none(), "{token} is listed");
                }
            }
        }
    }

    #[test]
    fn tokens_before_the_window_are_forgotten() {
        let mut penalized = Penalized::new(Some(3), &[0; 100]);
        (0..100).for_each(|token| penalized.push(token));
        assert_eq!(penalized.known.len(), 3);
    }
}
