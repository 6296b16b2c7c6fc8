//! A block of masks being filled: where it lies, what is known of it, which part comes next.

use wf_model::{Sees, TokenId};

use crate::request::Picked;

/// What blocks of a model are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockShape {
    /// Stands for what is not known.
    pub(crate) mask: TokenId,
    /// Tokens of a block.
    pub(crate) len: usize,
    /// Tokens of the parts it is filled in; divides `len`.
    pub(crate) part_len: usize,
    /// Whether a row scores the token after it (and not its own).
    pub(crate) shift: bool,
    /// Whether finished text attends causally. Then a block may start anywhere; else blocks are counted
    /// from position 0, and a finished one has K/V of its own that depends on all of it.
    pub(crate) causal: bool,
}

impl BlockShape {
    /// What finished text sees.
    pub(crate) fn context(&self) -> Sees {
        if self.causal { Sees::Causal } else { Sees::Block(self.len) }
    }

    /// How many of `tokens` tokens have to be in the pages before the next block can be filled; also
    /// where that block starts. A block's first row scores nothing if rows score their own token, and
    /// the first mask otherwise: then it is a token that is known.
    pub(crate) fn start(&self, tokens: usize) -> usize {
        match (self.causal, self.shift) {
            (true, true) => tokens - 1,
            (true, false) => tokens,
            (false, _) => tokens / self.len * self.len,
        }
    }

    /// The row that scores the place `at` of a block.
    pub(crate) fn row_of(&self, at: usize) -> usize {
        if self.shift { at - 1 } else { at }
    }
}

/// A block being filled.
#[derive(Debug)]
pub(crate) struct Block {
    shape: BlockShape,
    /// The position of its first row.
    pub(crate) start: usize,
    /// What stands in it: known text, what was kept, masks.
    pub(crate) tokens: Vec<TokenId>,
    /// How many of the tokens were there before.
    known: usize,
    picked: Vec<Option<Picked>>,
    part: usize,
    /// Passes spent on this part.
    pub(crate) passes: usize,
}

impl Block {
    /// The block after `tokens`, no longer than the context.
    pub(crate) fn new(shape: BlockShape, tokens: &[TokenId], context_len: usize) -> Self {
        let start = shape.start(tokens.len());
        let known = tokens.len() - start;
        let len = shape.len.min(context_len - start);
        let mut rows = tokens[start..].to_vec();
        rows.resize(len, shape.mask);
        let mut block =
            Self { shape, start, tokens: rows, known, picked: vec![None; len], part: 0, passes: 0 };
        block.next_part();
        block
    }

    pub(crate) fn end(&self) -> usize {
        self.start + self.tokens.len()
    }

    /// Places that were not known before.
    pub(crate) fn open(&self) -> std::ops::Range<usize> {
        self.known..self.tokens.len()
    }

    /// The places of the part being filled.
    pub(crate) fn part(&self) -> std::ops::Range<usize> {
        let first = self.part * self.shape.part_len;
        first.min(self.tokens.len())..(first + self.shape.part_len).min(self.tokens.len())
    }

    pub(crate) fn is_mask(&self, at: usize) -> bool {
        at >= self.known && self.picked[at].is_none()
    }

    /// The masks of the part being filled.
    pub(crate) fn masks(&self) -> Vec<usize> {
        self.part().filter(|&at| self.is_mask(at)).collect()
    }

    /// Keeps a guess.
    pub(crate) fn write(&mut self, at: usize, picked: Picked) {
        self.tokens[at] = picked.token;
        self.picked[at] = Some(picked);
    }

    /// Goes on to the first part that has masks.
    pub(crate) fn next_part(&mut self) {
        while !self.part().is_empty() && self.masks().is_empty() {
            self.part += 1;
            self.passes = 0;
        }
    }

    /// Whether no mask is left.
    pub(crate) fn is_full(&self) -> bool {
        self.first_mask() == self.tokens.len()
    }

    fn first_mask(&self) -> usize {
        self.open().find(|&at| self.is_mask(at)).unwrap_or(self.tokens.len())
    }

    /// The tokens that are final if nothing before the first mask changes any more.
    pub(crate) fn finished(&self) -> &[TokenId] {
        &self.tokens[self.known..self.first_mask()]
    }

    /// What was written up to the first mask.
    pub(crate) fn into_picked(mut self) -> Vec<Picked> {
        let end = self.first_mask();
        self.picked.truncate(end);
        self.picked.into_iter().skip(self.known).flatten().collect()
    }

    /// What stands in it beyond what was known.
    pub(crate) fn preview(&self) -> Vec<Option<TokenId>> {
        self.picked[self.known..].iter().map(|p| p.as_ref().map(|p| p.token)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(shift: bool, causal: bool) -> BlockShape {
        BlockShape { mask: 9, len: 8, part_len: 4, shift, causal }
    }

    fn picked(token: TokenId) -> Picked {
        Picked { token, logprobs: None }
    }

    #[test]
    fn a_block_starts_where_its_context_lets_it() {
        assert_eq!(shape(true, true).start(11), 10, "with the last token");
        assert_eq!(shape(false, true).start(11), 11, "after it");
        assert_eq!(shape(true, false).start(11), 8, "where blocks are counted");
        assert_eq!(shape(false, false).start(16), 16);
    }

    #[test]
    fn parts_are_filled_from_left_to_right() {
        let mut block = Block::new(shape(true, true), &[1, 2, 3], 100);
        assert_eq!((block.start, block.end(), block.open()), (2, 10, 1..8));
        assert_eq!(block.tokens, [3, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(block.masks(), [1, 2, 3]);
        for at in [2, 1, 3] {
            block.write(at, picked(at as TokenId));
            block.next_part();
        }
        assert_eq!(block.masks(), [4, 5, 6, 7]);
        block.write(5, picked(5));
        assert_eq!(block.finished(), [1, 2, 3]);
        assert_eq!(block.preview()[..5], [Some(1), Some(2), Some(3), None, Some(5)]);
        assert_eq!(block.into_picked().len(), 3);
    }

    #[test]
    fn text_may_reach_into_a_counted_block_and_the_context_may_cut_it() {
        let mut block = Block::new(shape(false, false), &[1; 13], 14);
        assert_eq!((block.start, block.tokens.len(), block.masks()), (8, 6, vec![5]));
        block.write(5, picked(4));
        block.next_part();
        assert!(block.is_full() && block.masks().is_empty());
    }
}
