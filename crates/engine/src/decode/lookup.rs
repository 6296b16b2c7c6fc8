//! Drafts by prompt lookup: a suffix automaton over prompt and completion.
//!
//! The automaton knows every run of tokens that occurred and where it last ended. Appending a token takes
//! amortised constant time, and the longest suffix of the text that occurred before is one link away.

use std::collections::BTreeMap;

use wf_model::TokenId;

/// Minimum length of a repeat: shorter ones are chance.
const MIN_REPEAT: usize = 2;

/// Number of shorter repeats whose end is refreshed per token. Others draft from an older occurrence.
const MAX_REFRESHED: usize = 16;

/// Suffix automaton over the tokens of a sequence.
#[derive(Debug)]
pub(crate) struct Lookup {
    text: Vec<TokenId>,
    states: Vec<State>,
    last: usize,
}

/// Runs of tokens that end at the same positions.
#[derive(Clone, Debug)]
struct State {
    /// Length of the longest run.
    len: usize,
    /// State of the longest suffix that ends at more positions.
    link: Option<usize>,
    /// Position after an earlier occurrence.
    end: usize,
    next: BTreeMap<TokenId, usize>,
}

impl Default for Lookup {
    fn default() -> Self {
        let root = State { len: 0, link: None, end: 0, next: BTreeMap::new() };
        Self { text: Vec::new(), states: vec![root], last: 0 }
    }
}

impl Lookup {
    /// Appends what was added to `tokens`, which only ever grow.
    pub(crate) fn follow(&mut self, tokens: &[TokenId]) {
        for &token in &tokens[self.text.len()..] {
            self.push(token);
        }
    }

    /// Returns `len` tokens that followed the last occurrence of the longest repeated suffix.
    pub(crate) fn draft(&self, len: usize) -> Vec<TokenId> {
        let Some(link) = self.states[self.last].link else { return Vec::new() };
        let repeat = &self.states[link];
        if repeat.len < MIN_REPEAT {
            return Vec::new();
        }
        // Past the end of the text, the draft continues itself.
        let mut draft: Vec<TokenId> = Vec::with_capacity(len);
        let known = self.text.len() - repeat.end;
        for at in 0..len {
            draft.push(if at < known { self.text[repeat.end + at] } else { draft[at - known] });
        }
        draft
    }

    fn push(&mut self, token: TokenId) {
        // The suffixes of the text end here. That is an earlier occurrence from now on, because only this
        // token gives it a successor.
        let end = self.text.len();
        let mut older = self.states[self.last].link;
        for _ in 0..MAX_REFRESHED {
            let Some(at) = older else { break };
            self.states[at].end = end;
            older = self.states[at].link;
        }
        self.text.push(token);

        let new = self.add(State { len: end + 1, link: None, end: end + 1, next: BTreeMap::new() });
        let mut from = Some(self.last);
        while let Some(at) = from.filter(|&at| !self.states[at].next.contains_key(&token)) {
            self.states[at].next.insert(token, new);
            from = self.states[at].link;
        }
        self.states[new].link = Some(match from {
            None => 0,
            Some(at) => self.split(at, token),
        });
        self.last = new;
    }

    /// Returns the state of exactly the runs of `at` followed by `token`.
    fn split(&mut self, at: usize, token: TokenId) -> usize {
        let target = self.states[at].next[&token];
        let len = self.states[at].len + 1;
        if self.states[target].len == len {
            return target;
        }
        let copy = self.add(State { len, ..self.states[target].clone() });
        self.states[target].link = Some(copy);
        let mut from = Some(at);
        while let Some(at) = from.filter(|&at| self.states[at].next.get(&token) == Some(&target)) {
            self.states[at].next.insert(token, copy);
            from = self.states[at].link;
        }
        copy
    }

    fn add(&mut self, state: State) -> usize {
        self.states.push(state);
        self.states.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the longest suffix of `text` that occurred before by exhaustive search.
    fn longest_repeat(text: &[TokenId]) -> usize {
        let occurred =
            |run: &[TokenId]| text[..text.len() - 1].windows(run.len()).any(|w| w == run);
        (1..text.len()).rev().find(|&len| occurred(&text[text.len() - len..])).unwrap_or(0)
    }

    #[test]
    fn drafts_what_followed_the_longest_repeat() {
        let mut lookup = Lookup::default();
        lookup.follow(&[1, 2, 3, 4, 5, 9, 2, 3]);
        assert_eq!(lookup.draft(5), [4, 5, 9, 2, 3]);
        assert_eq!(lookup.draft(8), [4, 5, 9, 2, 3, 4, 5, 9], "it continues itself");
        assert_eq!(lookup.draft(2), [4, 5]);
        lookup.follow(&[1, 2, 3, 4, 5, 9, 2, 3, 7]);
        assert_eq!(lookup.draft(10), [0; 0], "nothing ended in 7 before");
    }

    #[test]
    fn drafts_from_the_last_occurrence() {
        let mut lookup = Lookup::default();
        lookup.follow(&[1, 2, 3, 0, 1, 2, 4, 0, 1, 2]);
        assert_eq!(lookup.draft(1), [4]);
    }

    #[test]
    fn drafts_follow_a_longest_repeat_in_any_text() {
        for (alphabet, seed) in (2..7).flat_map(|a| (0..8).map(move |s| (a, s))) {
            let mut state = seed * 7919 + 1;
            let mut text = Vec::new();
            let mut lookup = Lookup::default();
            for _ in 0..200 {
                state = (state * 48_271_u64 + 11) % 2_147_483_647;
                text.push((state >> 8) as TokenId % alphabet);
                lookup.follow(&text);
                let repeat = longest_repeat(&text);
                let draft = lookup.draft(3);
                if repeat < MIN_REPEAT {
                    assert!(draft.is_empty());
                    continue;
                }
                let drafted = [&text[text.len() - repeat..], &draft[..]].concat();
                let whole = [&text[..], &draft[..]].concat();
                let earlier = &whole[..whole.len() - 1];
                assert!(earlier.windows(drafted.len()).any(|w| w == drafted), "{text:?}");
            }
        }
    }

    #[test]
    fn a_text_of_one_repeated_token_takes_linear_time() {
        let mut lookup = Lookup::default();
        lookup.follow(&vec![5; 20_000]);
        assert_eq!(lookup.draft(3).first(), Some(&5));
    }
}
