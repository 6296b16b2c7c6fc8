//! Position of a completion in its grammar, in token ids.

use std::sync::Arc;
use std::time::Duration;

use llguidance::Matcher;
use llguidance::api::StopReason;
use llguidance::toktrie::SimpleVob;
use wf_model::{LogitsRow, TokenId};

use super::Grammar;
use crate::clock;

/// Number of tokens in one word of a mask.
const WORD: usize = u32::BITS as usize;

/// Usual duration of computing a mask. Only the time beyond it counts as excess.
const USUAL_TIME: Duration = Duration::from_millis(1);

/// The grammar allows no token, or exceeded its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadEnd;

/// Minimum number of tokens between two restarts.
const RESTART_INTERVAL: usize = 32;
/// Number of tokens that are read again between two masks, which refill the fuel of the matcher.
const REPLAYED_TOKENS: usize = 64;

/// Position of a completion in its grammar.
pub(crate) struct Follower {
    matcher: Matcher,
    /// The beginning of the grammar, and the tokens since then.
    start: Arc<Matcher>,
    consumed: Vec<TokenId>,
    /// Number of tokens at the last restart.
    restarted_at: usize,
    /// True if the completion could have ended where the last mask was computed.
    pub(crate) accepts: bool,
    /// Mask of the tokens that may come next, computed once per position.
    next: Option<Result<Vec<u32>, DeadEnd>>,
    /// Time spent on masks beyond the usual.
    excess_time: Duration,
}

impl Follower {
    /// Starts at the beginning of the grammar. The copy shares no state with other completions, so one can
    /// neither stop nor speed up another.
    pub(crate) fn new(grammar: &Grammar) -> Self {
        Self {
            matcher: grammar.start.deep_clone(),
            start: Arc::clone(&grammar.start),
            consumed: Vec::new(),
            restarted_at: 0,
            accepts: false,
            next: None,
            excess_time: Duration::ZERO,
        }
    }

    /// Computes the mask of the next tokens, which does not need their logits.
    pub(crate) fn prepare_mask(&mut self, vocab_len: usize, stop_tokens: &[TokenId]) {
        if self.next.is_none() {
            let start = clock::now();
            self.next = Some(self.find_next(vocab_len, stop_tokens));
            self.excess_time += (clock::now() - start).saturating_sub(USUAL_TIME);
        }
    }

    /// Returns and resets the time spent beyond the usual.
    pub(crate) fn take_excess_time(&mut self) -> Duration {
        std::mem::take(&mut self.excess_time)
    }

    /// Returns the prepared mask, unless it is a dead end.
    pub(crate) fn prepared_mask(&self) -> Option<&[u32]> {
        self.next.as_ref()?.as_deref().ok()
    }

    /// Sets the logits of all tokens that may not come next to −∞.
    pub(crate) fn mask(
        &mut self,
        row: &mut LogitsRow<'_>,
        stop_tokens: &[TokenId],
    ) -> Result<(), DeadEnd> {
        if let LogitsRow::All(logits) = row {
            self.prepare_mask(logits.len(), stop_tokens);
        }
        // Some logits alone are computed only if the mask was known before.
        let allowed = self.prepared_mask().ok_or(DeadEnd)?;
        match row {
            LogitsRow::All(logits) => keep(allowed, logits),
            LogitsRow::Some(logits) => logits.retain(|row| {
                let token = row.token as usize;
                allowed[token / WORD] >> (token % WORD) & 1 == 1
            }),
        }
        Ok(())
    }

    /// Computes the mask. A stop token is allowed where the text so far is complete; a stop token that is also
    /// text is allowed where the text including it is complete.
    fn find_next(
        &mut self,
        vocab_len: usize,
        stop_tokens: &[TokenId],
    ) -> Result<Vec<u32>, DeadEnd> {
        if self.matcher.is_error() {
            self.restart();
        }
        self.accepts = self.is_accepting();
        let mut allowed = match self.next_tokens() {
            Some(allowed) => allowed.as_slice().to_vec(),
            // The matcher may notice only now that nothing can follow.
            None if self.accepts => Vec::new(),
            None => return Err(DeadEnd),
        };
        allowed.resize(vocab_len.div_ceil(WORD), 0);
        for &token in stop_tokens {
            let (word, bit) = (token as usize / WORD, 1 << (token as usize % WORD));
            let follows = allowed[word] & bit != 0;
            let may_come = match self.is_text(token) {
                true => follows && self.is_accepting_after(token),
                false => follows || self.accepts,
            };
            allowed[word] = if may_come { allowed[word] | bit } else { allowed[word] & !bit };
        }
        // The only continuation may be a stop token that is not allowed.
        if !self.accepts && allowed.iter().all(|&word| word == 0) {
            return Err(DeadEnd);
        }
        Ok(allowed)
    }

    /// Advances by a token. A token that the mask does not allow leads to a dead end.
    pub(crate) fn consume(&mut self, token: TokenId) {
        self.next = None;
        self.consumed.push(token);
        // The matcher stays in an error state, which the next mask reports.
        let _ = self.matcher.consume_token(token);
    }

    /// Returns `true` before the first token.
    pub(crate) fn is_at_start(&self) -> bool {
        self.consumed.is_empty()
    }

    /// Returns `true` if the completion can only end here.
    pub(crate) fn is_complete(&self) -> bool {
        use StopReason::{EndOfSentence, NoExtension, NoExtensionBias};
        matches!(self.matcher.stop_reason(), NoExtension | NoExtensionBias | EndOfSentence)
    }

    /// Returns `true` if the completion may end here.
    pub(super) fn is_accepting(&mut self) -> bool {
        self.is_complete() || self.matcher.is_accepting().unwrap_or(false)
    }

    fn is_accepting_after(&mut self, token: TokenId) -> bool {
        let _ = self.matcher.consume_token(token);
        let is_accepting = self.is_accepting();
        // Only a matcher in an error state cannot roll back, and it stays in that state.
        let _ = self.matcher.rollback(1);
        is_accepting
    }

    fn next_tokens(&mut self) -> Option<SimpleVob> {
        if self.is_complete() {
            return None;
        }
        self.matcher.compute_mask().ok().or_else(|| {
            self.restart();
            self.matcher.compute_mask().ok()
        })
    }

    /// Reads all tokens again with a new matcher. Masks of a long text visit many more states than the text itself,
    /// and the number of states is limited: a new matcher has only those of the text. Whether to restart depends
    /// on the tokens alone, so a completion is always the same.
    fn restart(&mut self) {
        if self.consumed.len() < self.restarted_at + RESTART_INTERVAL {
            return;
        }
        self.restarted_at = self.consumed.len();
        // The old one is dropped first: both together would take twice the memory.
        self.matcher = self.start.deep_clone();
        for tokens in self.consumed.chunks(REPLAYED_TOKENS) {
            // A matcher in an error state stays in it, and the next mask reports it.
            let _ = self.matcher.consume_tokens(tokens);
            let _ = self.matcher.compute_mask();
        }
    }

    fn is_text(&self, token: TokenId) -> bool {
        let Ok(tokens) = self.matcher.tok_env() else { return false };
        let trie = tokens.tok_trie();
        (token as usize) < trie.vocab_size()
            && !trie.token(token).is_empty()
            && !trie.is_special_token(token)
    }
}

/// Sets the logits of tokens whose bit is not set to −∞.
fn keep(allowed: &[u32], logits: &mut [f32]) {
    for (logits, &word) in logits.chunks_mut(WORD).zip(allowed) {
        if word == 0 {
            logits.fill(f32::NEG_INFINITY);
            continue;
        }
        for (at, logit) in logits.iter_mut().enumerate() {
            if word >> at & 1 == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}
