//! The seam to the engine: what goes into a step and what comes out.

use wf_formats::ModelConfig;

use crate::kv::PageId;
use crate::sparse::LayerSparsity;

/// A token's number in the vocabulary.
pub type TokenId = u32;

/// Which positions a token sees. K/V written under one answer must not be read under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sees {
    /// Itself and everything before it.
    Causal,
    /// Everything up to the end of its own block; blocks are counted from position 0.
    Block(usize),
    /// Everything before this position, which must have been written: the rows of one block see each
    /// other, wherever it starts.
    Until(usize),
}

impl Sees {
    /// How many positions, counted from 0, the token at `position` sees in a segment that ends
    /// before `end`.
    pub fn visible(self, position: usize, end: usize) -> usize {
        match self {
            Self::Causal => position + 1,
            Self::Block(len) => ((position / len + 1) * len).min(end),
            Self::Until(position) => position,
        }
    }
}

/// Which scores a wanted row gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scoring {
    /// At least those of tokens that could be among this many best; any other token's may be −∞. The
    /// best ones, ties included, are the same as under `All`, and much less memory may be read to
    /// find them.
    Top(usize),
    /// Every token's.
    #[default]
    All,
}

impl Scoring {
    /// The best token's alone.
    pub const BEST: Self = Self::Top(1);

    /// Whether rows of both may be scored together, as the larger of the two asks.
    pub(crate) fn is_like(self, other: Self) -> bool {
        matches!((self, other), (Self::All, Self::All) | (Self::Top(_), Self::Top(_)))
    }
}

/// One sequence's share of a step.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The tokens to run, the first of them at position `start`.
    pub tokens: &'a [TokenId],
    /// The position of the first token.
    pub start: usize,
    /// The pages that hold every position these tokens may see, in order of position.
    pub pages: &'a [PageId],
    /// What each token sees.
    pub sees: Sees,
    /// Which of the tokens want scores, ascending. The output head runs for these only.
    pub want: &'a [usize],
    /// Which scores they get.
    pub scoring: Scoring,
    /// Which tokens they can become: for each that wants scores a bit for every token of the vocabulary,
    /// from the lowest on, in words of its own. The scores of others may be −∞, and the best are the best
    /// of these. Nothing stands for all tokens.
    pub allowed: &'a [u32],
}

impl<'a> Segment<'a> {
    /// Tokens that see what came before them, with every score of the wanted ones.
    pub fn causal(
        tokens: &'a [TokenId],
        start: usize,
        pages: &'a [PageId],
        want: &'a [usize],
    ) -> Self {
        Self { tokens, start, pages, sees: Sees::Causal, want, scoring: Scoring::All, allowed: &[] }
    }

    /// The position after the last token.
    pub fn end(&self) -> usize {
        self.start + self.tokens.len()
    }
}

/// Which tokens each of the rows can become that neighbouring segments want scores for.
#[derive(Clone, Copy)]
pub(crate) struct Allowed<'a> {
    segments: &'a [Segment<'a>],
    /// Rows left out at the start.
    skipped: usize,
}

impl<'a> Allowed<'a> {
    pub(crate) fn new(segments: &'a [Segment<'a>]) -> Self {
        Self { segments, skipped: 0 }
    }

    /// Without the first `rows`.
    pub(crate) fn skip(self, rows: usize) -> Self {
        Self { skipped: self.skipped + rows, ..self }
    }

    /// The bits of a row; nothing where all tokens are allowed.
    pub(crate) fn row(self, row: usize) -> Option<&'a [u32]> {
        let mut row = row + self.skipped;
        for segment in self.segments {
            if row < segment.want.len() {
                let words = segment.allowed.len() / segment.want.len();
                return Some(&segment.allowed[row * words..][..words])
                    .filter(|row| !row.is_empty());
            }
            row -= segment.want.len();
        }
        None
    }
}

/// The tokens whose bits are set.
pub(crate) fn tokens_of(bits: &[u32]) -> impl Iterator<Item = TokenId> {
    let words = bits.iter().zip((0..).step_by(u32::BITS as usize));
    words.flat_map(|(&word, first)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let at = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(first + at)
        })
    })
}

/// Scores over the vocabulary: a row for each token that wanted them, in batch order.
#[derive(Debug)]
pub struct Logits {
    vocab_len: usize,
    values: Vec<f32>,
}

impl Logits {
    /// No rows yet, of `vocab_len` scores each.
    pub fn new(vocab_len: usize) -> Self {
        Self { vocab_len, values: Vec::new() }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.values.len() / self.vocab_len
    }

    /// Whether no token wanted scores.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The scores of one row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.vocab_len..][..self.vocab_len]
    }

    /// The rows `first .. first + rows`, one after another: a decoder may scribble on its own.
    pub fn rows_mut(&mut self, first: usize, rows: usize) -> &mut [f32] {
        &mut self.values[first * self.vocab_len..][..rows * self.vocab_len]
    }

    /// Makes room for `rows` rows. Memory is kept from step to step.
    pub fn resize(&mut self, rows: usize) {
        self.values.resize(rows * self.vocab_len, 0.0);
    }
}

/// A thing that can run a step: the real model, or a fake one in tests.
pub trait Forward: Send {
    /// The sizes and token numbers of the network.
    fn config(&self) -> &ModelConfig;

    /// The most tokens one step may hold, over all segments.
    fn max_batch_tokens(&self) -> usize;

    /// How many pages of K/V there are to hand out.
    fn pages(&self) -> usize;

    /// Called once on the thread that will run forward passes.
    fn enter_thread(&self) {}

    /// How many zeros were seen, in all layers together.
    fn zeros_seen(&self) -> LayerSparsity {
        LayerSparsity::default()
    }

    /// Writes K/V for every token, then scores the rows asked for.
    ///
    /// It cannot fail: token numbers below the vocabulary's length, positions below the context's
    /// length, and enough pages are the caller's promise.
    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits);

    /// What the network made of a token of the last pass, after its last norm: where a head would
    /// start. Tokens are counted over all segments of the pass.
    fn hidden_state(&self, token: usize, out: &mut [f32]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_causal_token_sees_itself_and_what_came_before() {
        assert_eq!(Sees::Causal.visible(0, 9), 1);
        assert_eq!(Sees::Causal.visible(8, 9), 9);
    }

    #[test]
    fn a_block_is_counted_from_position_zero_and_ends_with_the_segment() {
        assert_eq!(Sees::Block(4).visible(4, 12), 8);
        assert_eq!(Sees::Block(4).visible(7, 12), 8);
        assert_eq!(Sees::Block(4).visible(9, 10), 10);
        assert_eq!(Sees::Block(1).visible(5, 12), Sees::Causal.visible(5, 12));
    }

    #[test]
    fn a_block_may_start_anywhere_and_run_in_part() {
        assert_eq!(Sees::Until(9).visible(5, 9), 9);
        assert_eq!(Sees::Until(12).visible(5, 9), 12);
    }
}
