//! Thinking of a completion, in token ids: the tag that ends it, and the tokens that end it at a limit.

use std::sync::Arc;

use wf_model::TokenId;

use crate::token_pattern::{PatternState, TokenPattern};

/// The end of thinking, for all completions of a model.
#[derive(Debug)]
pub struct ThinkingEnd {
    /// The tag that ends thinking.
    pub tag: TokenPattern,
    /// Tokens with the tag that a completion continues with at its limit.
    pub closing: Vec<TokenId>,
}

/// Thinking that the prompt of a completion has opened.
#[derive(Clone, Debug)]
pub struct Thinking {
    /// The end of thinking.
    pub end: Arc<ThinkingEnd>,
    /// Maximum number of tokens before it is ended.
    pub max_tokens: Option<usize>,
}

/// Thinking in progress. It depends on the tokens alone, so a completion is always the same.
#[derive(Debug)]
pub(crate) struct OpenThinking {
    thinking: Thinking,
    tokens: usize,
    tag: PatternState,
    /// Number of closing tokens written, once the limit is reached.
    closing: Option<usize>,
}

impl OpenThinking {
    pub(crate) fn new(thinking: Thinking) -> Self {
        let closing = (thinking.max_tokens == Some(0)).then_some(0);
        Self { thinking, tokens: 0, tag: PatternState::default(), closing }
    }

    /// Returns the token that has to come next, if thinking is being ended.
    pub(crate) fn forced(&self) -> Option<TokenId> {
        self.thinking.end.closing.get(self.closing?).copied()
    }

    /// Advances by a token. Returns `true` if thinking ends with it.
    pub(crate) fn push(&mut self, token: TokenId) -> bool {
        if let Some(written) = &mut self.closing {
            *written += 1;
            return *written >= self.thinking.end.closing.len();
        }
        self.tokens += 1;
        let Some(tag) = self.thinking.end.tag.advance(self.tag, token) else { return true };
        self.tag = tag;
        if self.thinking.max_tokens.is_some_and(|max| self.tokens >= max) {
            self.closing = Some(0);
        }
        false
    }

    /// Returns the tokens that would end thinking and begin the answer at once, after the tokens `drafted`.
    pub(crate) fn overhanging(&self, drafted: &[TokenId]) -> &[TokenId] {
        let tag = &self.thinking.end.tag;
        let state = drafted.iter().try_fold(self.tag, |state, &token| tag.advance(state, token));
        // Tokens after the end are drafted again.
        state.map_or(&[], |state| tag.overhanging(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thinking that token 1 ends, or at the limit tokens 2 and 1 and 3.
    fn thinking(max_tokens: Option<usize>) -> OpenThinking {
        let texts: [&[u8]; 5] = [b"a", b"</think>", b"\n", b"\n\n", b"</think>x"];
        let tag = TokenPattern::new(b"</think>", texts.into_iter());
        let end = Arc::new(ThinkingEnd { tag, closing: vec![2, 1, 3] });
        OpenThinking::new(Thinking { end, max_tokens })
    }

    #[test]
    fn the_tag_ends_thinking() {
        let mut open = thinking(None);
        assert!(!open.push(0) && !open.push(2) && open.push(1));
        assert!(thinking(None).push(4));
        assert_eq!(thinking(None).overhanging(&[0]), [4]);
    }

    #[test]
    fn at_the_limit_the_tag_is_forced() {
        let mut open = thinking(Some(2));
        assert!(!open.push(0));
        assert_eq!(open.forced(), None);
        assert!(!open.push(0));
        for (token, ends) in [(2, false), (1, false), (3, true)] {
            assert_eq!(open.forced(), Some(token));
            assert_eq!(open.push(token), ends);
        }
        assert_eq!(thinking(Some(0)).forced(), Some(2));
    }

    #[test]
    fn a_tag_at_the_limit_is_not_forced_again() {
        let mut open = thinking(Some(2));
        assert!(!open.push(0) && open.push(1));
    }
}
