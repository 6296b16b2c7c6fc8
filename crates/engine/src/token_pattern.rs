//! A text in a sequence of tokens, found by token ids alone.

use wf_model::TokenId;

/// Automaton that finds the first occurrence of a text, however the tokens divide it.
///
/// A state is the number of bytes of the text that the tokens so far end with. The table has the next state for each
/// token and state, so the engine needs no bytes.
#[derive(Debug)]
pub struct TokenPattern {
    /// Length of the text, which is the number of states before it is found.
    len: usize,
    /// Next state by token and state; `len` if the text ends with the token, `len + 1` if it ends inside of it.
    next: Vec<u8>,
    /// Tokens by state in which the text ends before the token does.
    overhanging: Vec<Vec<TokenId>>,
}

/// State of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatternState(u8);

impl TokenPattern {
    /// Creates an automaton for `text`, which must have 1 to 250 bytes, over tokens with these bytes.
    pub fn new<'a>(text: &[u8], tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        let len = text.len();
        assert!((1..=250).contains(&len), "a state is one byte");
        let fallback = borders(text);
        let mut pattern = Self { len, next: Vec::new(), overhanging: vec![Vec::new(); len] };
        for (token, bytes) in (0..).zip(tokens) {
            for state in 0..len {
                let next = advance(text, &fallback, state, bytes);
                pattern.next.push(next as u8);
                if next > len {
                    pattern.overhanging[state].push(token);
                }
            }
        }
        pattern
    }

    /// Advances by a token. Returns `None` once the text is found. Unknown tokens have no bytes.
    pub(crate) fn advance(&self, state: PatternState, token: TokenId) -> Option<PatternState> {
        let at = token as usize * self.len + usize::from(state.0);
        let next = self.next.get(at).copied().unwrap_or(state.0);
        (usize::from(next) < self.len).then_some(PatternState(next))
    }

    /// Returns the tokens that would end the text, and continue after it.
    pub(crate) fn overhanging(&self, state: PatternState) -> &[TokenId] {
        &self.overhanging[usize::from(state.0)]
    }
}

/// Returns the length of the longest proper border of each prefix.
fn borders(text: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; text.len()];
    for at in 1..text.len() {
        borders[at] = extend(text, &borders, borders[at - 1], text[at]);
    }
    borders
}

/// Returns the state after one byte.
fn extend(text: &[u8], borders: &[usize], mut state: usize, byte: u8) -> usize {
    while state > 0 && text[state] != byte {
        state = borders[state - 1];
    }
    state + usize::from(text[state] == byte)
}

/// Returns the state after some bytes.
fn advance(text: &[u8], borders: &[usize], mut state: usize, bytes: &[u8]) -> usize {
    for (at, &byte) in bytes.iter().enumerate() {
        state = extend(text, borders, state, byte);
        if state == text.len() {
            return state + usize::from(at + 1 < bytes.len());
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [&str; 8] = ["</", "think", ">", ">\n", "<", "/think>", "x</th", "ink"];

    fn pattern() -> TokenPattern {
        TokenPattern::new(b"</think>", TOKENS.iter().map(|token| token.as_bytes()))
    }

    /// Returns how many of the tokens are read until the text is found.
    fn found_after(tokens: &[TokenId]) -> Option<usize> {
        let pattern = pattern();
        let mut state = PatternState::default();
        for (at, &token) in tokens.iter().enumerate() {
            match pattern.advance(state, token) {
                Some(next) => state = next,
                None => return Some(at + 1),
            }
        }
        None
    }

    #[test]
    fn a_text_is_found_however_it_is_divided() {
        assert_eq!(found_after(&[0, 1, 2, 2]), Some(3));
        assert_eq!(found_after(&[4, 4, 5]), Some(3));
        assert_eq!(found_after(&[6, 7, 3]), Some(3));
        assert_eq!(found_after(&[0, 6, 7, 2]), Some(4));
        assert_eq!(found_after(&[0, 1, 0, 1]), None);
        assert_eq!(found_after(&[0, 99, 1, 2]), Some(4), "an unknown token is empty");
    }

    #[test]
    fn tokens_that_continue_after_the_text_are_known() {
        let pattern = pattern();
        let after = |tokens: &[TokenId]| {
            let start = PatternState::default();
            let state = tokens.iter().try_fold(start, |state, &t| pattern.advance(state, t));
            pattern.overhanging(state.unwrap()).to_vec()
        };
        assert_eq!(after(&[0, 1]), [3]);
        assert!(after(&[0]).is_empty());
    }
}
