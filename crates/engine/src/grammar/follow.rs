//! One reply's way through a grammar, in token numbers.

use std::time::{Duration, Instant};

use llguidance::Matcher;
use llguidance::api::StopReason;
use llguidance::toktrie::SimpleVob;
use wf_model::TokenId;

use super::Grammar;

/// Tokens of one word of a mask.
const WORD: usize = u32::BITS as usize;

/// What finding out takes usually. Only what is above it counts.
const USUAL: Duration = Duration::from_millis(1);

/// The grammar allows no token, or became too large to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadEnd;

/// Where a reply stands in its grammar.
pub(crate) struct Follower {
    matcher: Matcher,
    accepts: bool,
    /// A bit for every token, set if it may come next; found out once for each place.
    next: Option<Result<Vec<u32>, DeadEnd>>,
    /// How long it took to find out, above the usual.
    spent: Duration,
}

impl Follower {
    /// At the start. The copy shares nothing with those of other replies: what one of them ran into
    /// can neither stop nor speed another.
    pub(crate) fn new(grammar: &Grammar) -> Self {
        Self {
            matcher: grammar.start.deep_clone(),
            accepts: false,
            next: None,
            spent: Duration::ZERO,
        }
    }

    /// Finds out which tokens may come next, which needs no scores and can be done before there are any.
    pub(crate) fn look_ahead(&mut self, vocab_len: usize, stop_tokens: &[TokenId]) {
        if self.next.is_none() {
            let start = Instant::now();
            self.next = Some(self.find_next(vocab_len, stop_tokens));
            self.spent += start.elapsed().saturating_sub(USUAL);
        }
    }

    /// How much longer than usual it took to find out, since this was last asked.
    pub(crate) fn take_spent(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
    }

    /// What was found out, if that was done and there is a way on.
    pub(crate) fn seen_ahead(&self) -> Option<&[u32]> {
        self.next.as_ref()?.as_deref().ok()
    }

    /// Leaves only the scores of tokens that may come next.
    pub(crate) fn mask(
        &mut self,
        scores: &mut [f32],
        stop_tokens: &[TokenId],
    ) -> Result<(), DeadEnd> {
        self.look_ahead(scores.len(), stop_tokens);
        keep(self.seen_ahead().ok_or(DeadEnd)?, scores);
        Ok(())
    }

    /// A stop token may come where the text so far is whole; one that stands for text itself where the
    /// text with it is whole.
    fn find_next(
        &mut self,
        vocab_len: usize,
        stop_tokens: &[TokenId],
    ) -> Result<Vec<u32>, DeadEnd> {
        self.accepts = self.is_whole();
        let mut allowed = match self.next_tokens() {
            Some(allowed) => allowed.as_slice().to_vec(),
            // That nothing can follow may come out only now.
            None if self.accepts => Vec::new(),
            None => return Err(DeadEnd),
        };
        allowed.resize(vocab_len.div_ceil(WORD), 0);
        for &token in stop_tokens {
            let (word, bit) = (token as usize / WORD, 1 << (token as usize % WORD));
            let follows = allowed[word] & bit != 0;
            let may_come = match self.is_text(token) {
                true => follows && self.is_whole_after(token),
                false => follows || self.accepts,
            };
            allowed[word] = if may_come { allowed[word] | bit } else { allowed[word] & !bit };
        }
        // A text may need a token that is to stop it.
        if !self.accepts && allowed.iter().all(|&word| word == 0) {
            return Err(DeadEnd);
        }
        Ok(allowed)
    }

    /// Goes on past a token that the last mask left. One that it did not leave is a dead end.
    pub(crate) fn consume(&mut self, token: TokenId) {
        self.next = None;
        // A failure stays with the matcher, and the next mask tells it.
        let _ = self.matcher.consume_token(token);
    }

    /// Whether the reply can only end here.
    pub(crate) fn is_complete(&self) -> bool {
        use StopReason::{EndOfSentence, NoExtension, NoExtensionBias};
        matches!(self.matcher.stop_reason(), NoExtension | NoExtensionBias | EndOfSentence)
    }

    /// Whether the reply could have ended where the last mask was made.
    pub(crate) fn accepted(&self) -> bool {
        self.accepts
    }

    pub(super) fn is_whole(&mut self) -> bool {
        self.is_complete() || self.matcher.is_accepting().unwrap_or(false)
    }

    fn is_whole_after(&mut self, token: TokenId) -> bool {
        let _ = self.matcher.consume_token(token);
        let is_whole = self.is_whole();
        // Only a matcher that failed cannot go back, and it stays failed.
        let _ = self.matcher.rollback(1);
        is_whole
    }

    fn next_tokens(&mut self) -> Option<SimpleVob> {
        if self.is_complete() { None } else { self.matcher.compute_mask().ok() }
    }

    /// Whether a token stands for bytes of the reply.
    fn is_text(&self, token: TokenId) -> bool {
        let Ok(tokens) = self.matcher.tok_env() else { return false };
        let trie = tokens.tok_trie();
        (token as usize) < trie.vocab_size()
            && !trie.token(token).is_empty()
            && !trie.is_special_token(token)
    }
}

/// Takes every score away whose token's bit is not set.
fn keep(allowed: &[u32], scores: &mut [f32]) {
    for (scores, &word) in scores.chunks_mut(WORD).zip(allowed) {
        if word == 0 {
            scores.fill(f32::NEG_INFINITY);
            continue;
        }
        for (at, score) in scores.iter_mut().enumerate() {
            if word >> at & 1 == 0 {
                *score = f32::NEG_INFINITY;
            }
        }
    }
}
