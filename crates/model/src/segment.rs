//! The interface to the engine: the input and output of a step.

use wf_core::{AttentionMode, Network, TokenId};
use wf_formats::ModelInfo;

use crate::draw::DrawQuery;
use crate::kv::{PAGE_LEN, PageId};
use crate::logits::Logits;
use crate::sparse::LayerSparsity;

/// Positions that a token attends to. Keys and values written under one rule must not be read under
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// The token itself and all tokens before it.
    Causal,
    /// All positions up to the end of the token's block; blocks are counted from position 0.
    Block(usize),
    /// All positions before this one, which must have been written: the tokens of a block see each
    /// other, wherever the block starts.
    Until(usize),
}

impl Visibility {
    /// Returns the number of positions, counted from 0, that the token at `position` sees in a segment
    /// that ends before `end`.
    pub fn visible(self, position: usize, end: usize) -> usize {
        match self {
            Self::Causal => position + 1,
            Self::Block(len) => ((position / len + 1) * len).min(end),
            Self::Until(position) => position,
        }
    }
}

/// Logits that a scored row needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scoring {
    /// The logits of the best tokens, this many with all ties; others may be missing. The best tokens
    /// are the same as under `All`, and finding them reads much less memory.
    Top(usize),
    /// The logits of enough tokens for the row's draw to give the token that it gives for `All`.
    Draw,
    /// The logits of all tokens.
    #[default]
    All,
}

impl Scoring {
    /// The logit of the best token.
    pub const BEST: Self = Self::Top(1);
}

/// One sequence's share of a step.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Tokens to run, the first of them at position `start`.
    pub tokens: &'a [TokenId],
    /// Position of the first token.
    pub start: usize,
    /// Pages of every position that these tokens see, in order of position. With a window, those of other
    /// positions may be any number.
    pub pages: &'a [PageId],
    /// State of the sequence in a network with recurrent layers, which requires causal visibility. A segment
    /// begins where the tokens end that were kept of the one before it, or at position 0.
    pub state: usize,
    /// Number of tokens at the end that may not be kept, because they are a draft. In a network with recurrent
    /// layers there are at most [`Forward::max_drafts`] in a step, and [`Forward::keep_drafts`] says which are kept.
    pub drafts: usize,
    /// True if the prediction head of the network follows the sequence, so that [`Forward::predict`] can continue
    /// it. It has to follow from the first token on, or from a copied state of a sequence that it follows.
    pub predicts: bool,
    /// Positions that each token attends to.
    pub visibility: Visibility,
    /// Indices of the tokens whose logits are computed, ascending.
    pub scored: &'a [usize],
    /// Logits that those tokens need.
    pub scoring: Scoring,
    /// Bit mask of the tokens that may follow, one bit per token of the vocabulary for each scored
    /// token. The logits of other tokens may be missing or −∞. Empty if all tokens are allowed.
    pub allowed: &'a [u32],
    /// The draw of each scored token. Under [`Scoring::Draw`] it decides which logits are needed; under
    /// [`Scoring::Top`], the logits of the tokens that it adjusts are computed too, and the best are those of
    /// the others. Empty if no token is adjusted.
    pub draws: &'a [DrawQuery],
}

impl<'a> Segment<'a> {
    /// Creates a causal segment with all logits of the `scored` tokens.
    pub fn causal(
        tokens: &'a [TokenId],
        start: usize,
        pages: &'a [PageId],
        scored: &'a [usize],
    ) -> Self {
        Self {
            tokens,
            start,
            pages,
            state: 0,
            drafts: 0,
            predicts: false,
            visibility: Visibility::Causal,
            scored,
            scoring: Scoring::All,
            allowed: &[],
            draws: &[],
        }
    }

    /// Returns the position after the last token.
    pub fn end(&self) -> usize {
        self.start + self.tokens.len()
    }

    /// Returns the pages that its tokens are written to and of which they see every position.
    ///
    /// A row that sees a page whole sees one of these, or one that was full before. If tokens are
    /// overwritten later, because they were a draft, those that fill the page again return it again.
    pub(crate) fn filled_pages(&self) -> &'a [PageId] {
        let visible = self.visibility.visible(self.end().saturating_sub(1), self.end());
        let written = self.start / PAGE_LEN..self.end().div_ceil(PAGE_LEN).min(visible / PAGE_LEN);
        self.pages.get(written).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) token: TokenId,
    /// Index of the token's segment.
    pub(crate) segment: usize,
    pub(crate) position: usize,
}

/// A model that can run a step: the real one, or a fake in tests.
pub trait Forward: Send {
    /// The recipe of the network.
    fn network(&self) -> &Network;

    /// Facts about the model that are not part of its network.
    fn info(&self) -> &ModelInfo;

    /// Maximum number of tokens of a step, over all segments.
    fn max_batch_tokens(&self) -> usize;

    /// Positions that attention reads.
    fn attention(&self) -> AttentionMode {
        AttentionMode::Dense
    }

    /// Number of pages in the KV cache.
    fn pages(&self) -> usize;

    /// Number of states of sequences; 0 if the network has no recurrent layers.
    fn states(&self) -> usize {
        0
    }

    /// Copies the state of a sequence.
    fn copy_state(&mut self, _from: usize, _to: usize) {}

    /// Maximum number of draft tokens of a step, over all segments.
    fn max_drafts(&self) -> usize {
        usize::MAX
    }

    /// Moves the state of a sequence, which had drafts in the last step, on to the end of its first `len` tokens:
    /// a state cannot be wound back, so drafts do not change it before.
    fn keep_drafts(&mut self, _state: usize, _len: usize) {}

    /// Runs the prediction head on segments of one token each, and computes the logits of the tokens that may follow.
    ///
    /// A segment begins where the state of its sequence ends, or behind the one before it that this ran. Nothing but
    /// keys and values of the head changes. The caller guarantees what it does for [`forward`](Self::forward),
    /// and that the network has a prediction head.
    fn predict(&mut self, _batch: &[Segment<'_>], _logits: &mut Logits) {
        unreachable!("the network has no prediction head");
    }

    /// Returns the size of a page of the KV cache in bytes; 0 if pages cannot be read.
    fn page_size_bytes(&self) -> usize {
        0
    }

    /// Appends the bytes of a page to `out`.
    fn read_page(&self, page: PageId, out: &mut Vec<u8>) {
        let _ = (page, out);
    }

    /// Sets a page to bytes that were read from one: as many as a page has.
    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        let _ = (page, bytes);
    }

    /// Prepares the thread that will run forward passes. Called once.
    fn enter_thread(&self) {}

    /// Returns the sparsity of all layers together.
    fn total_sparsity(&self) -> LayerSparsity {
        LayerSparsity::default()
    }

    /// Writes keys and values of every token, computes the logits of the scored ones, and returns the
    /// hidden states of all.
    ///
    /// It cannot fail: the caller guarantees token ids below the vocabulary size, positions below the
    /// context length ([`AttentionMode::max_len`] with a window), and enough pages.
    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates;
}

/// Hidden states of the tokens of a step, after the final norm.
pub trait HiddenStates {
    /// Writes the hidden state of a token. Tokens are counted over all segments of the step.
    fn read(&self, token: usize, out: &mut [f32]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_causal_token_sees_itself_and_what_came_before() {
        assert_eq!(Visibility::Causal.visible(0, 9), 1);
        assert_eq!(Visibility::Causal.visible(8, 9), 9);
    }

    #[test]
    fn a_block_is_counted_from_position_zero_and_ends_with_the_segment() {
        assert_eq!(Visibility::Block(4).visible(4, 12), 8);
        assert_eq!(Visibility::Block(4).visible(7, 12), 8);
        assert_eq!(Visibility::Block(4).visible(9, 10), 10);
        assert_eq!(Visibility::Block(1).visible(5, 12), Visibility::Causal.visible(5, 12));
    }

    #[test]
    fn a_block_may_start_anywhere_and_run_in_part() {
        assert_eq!(Visibility::Until(9).visible(5, 9), 9);
        assert_eq!(Visibility::Until(12).visible(5, 9), 12);
    }
}
