//! Guesses from what stood there before: a suffix automaton over prompt and reply.
//!
//! It knows every run of tokens that occurred, and where one ended last. Adding a token takes a few
//! steps whatever the length of the text, and the longest end of the text that occurred before is one
//! link away.

use std::collections::BTreeMap;

use wf_model::TokenId;

/// Shorter repeats are chance.
const SHORTEST_REPEAT: usize = 2;

/// How many shorter repeats are told where they ended last: beyond these an older place is used.
const REFRESHED: usize = 16;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Lookup {
    text: Vec<TokenId>,
    states: Vec<State>,
    last: usize,
}

/// Runs of tokens that always end together.
#[derive(Clone, Debug)]
struct State {
    /// The longest of them.
    len: usize,
    /// The state of the longest shorter run that ends in more places.
    link: Option<usize>,
    /// The position after a place where they ended, before the text's own end.
    end: usize,
    /// Where each token that followed leads to.
    next: BTreeMap<TokenId, usize>,
}

impl Default for Lookup {
    fn default() -> Self {
        let root = State { len: 0, link: None, end: 0, next: BTreeMap::new() };
        Self { text: Vec::new(), states: vec![root], last: 0 }
    }
}

impl Lookup {
    /// Takes in what was added to `tokens`, which only ever grow.
    pub(crate) fn follow(&mut self, tokens: &[TokenId]) {
        for &token in &tokens[self.text.len()..] {
            self.push(token);
        }
    }

    /// At most `len` tokens that followed when the text last ended as it does now.
    pub(crate) fn draft(&self, len: usize) -> Vec<TokenId> {
        let Some(link) = self.states[self.last].link else { return Vec::new() };
        let repeat = &self.states[link];
        if repeat.len < SHORTEST_REPEAT {
            return Vec::new();
        }
        // What followed may reach the text's end: then it goes on with what was just guessed.
        let mut draft: Vec<TokenId> = Vec::with_capacity(len);
        let told = self.text.len() - repeat.end;
        for at in 0..len {
            draft.push(if at < told { self.text[repeat.end + at] } else { draft[at - told] });
        }
        draft
    }

    fn push(&mut self, token: TokenId) {
        // Where runs ended becomes "before" only now: they end at the text's end too, which has nothing
        // to follow it until this token came.
        let end = self.text.len();
        let mut older = self.states[self.last].link;
        for _ in 0..REFRESHED {
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

    /// The state of exactly the runs of `at` with `token` after them.
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

    /// The same by looking everywhere: the longest end of `text` that occurred before.
    fn longest_repeat(text: &[TokenId]) -> usize {
        let occurred =
            |run: &[TokenId]| text[..text.len() - 1].windows(run.len()).any(|w| w == run);
        (1..text.len()).rev().find(|&len| occurred(&text[text.len() - len..])).unwrap_or(0)
    }

    #[test]
    fn what_followed_the_longest_repeat_is_guessed() {
        let mut lookup = Lookup::default();
        lookup.follow(&[1, 2, 3, 4, 5, 9, 2, 3]);
        assert_eq!(lookup.draft(5), [4, 5, 9, 2, 3]);
        assert_eq!(lookup.draft(8), [4, 5, 9, 2, 3, 4, 5, 9], "and so on");
        assert_eq!(lookup.draft(2), [4, 5]);
        lookup.follow(&[1, 2, 3, 4, 5, 9, 2, 3, 7]);
        assert_eq!(lookup.draft(10), [0; 0], "nothing ended in 7 before");
    }

    #[test]
    fn the_last_time_counts() {
        let mut lookup = Lookup::default();
        lookup.follow(&[1, 2, 3, 0, 1, 2, 4, 0, 1, 2]);
        assert_eq!(lookup.draft(1), [4]);
    }

    #[test]
    fn guesses_follow_a_longest_repeat_in_any_text() {
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
                if repeat < SHORTEST_REPEAT {
                    assert!(draft.is_empty());
                    continue;
                }
                let guessed = [&text[text.len() - repeat..], &draft[..]].concat();
                let whole = [&text[..], &draft[..]].concat();
                let earlier = &whole[..whole.len() - 1];
                assert!(earlier.windows(guessed.len()).any(|w| w == guessed), "{text:?}");
            }
        }
    }

    #[test]
    fn a_text_of_one_token_is_no_trap() {
        let mut lookup = Lookup::default();
        lookup.follow(&vec![5; 20_000]);
        assert_eq!(lookup.draft(3).first(), Some(&5));
    }
}
