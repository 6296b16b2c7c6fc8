//! A block of masks being filled.

use wf_model::{TokenId, Visibility};

use crate::output::SampledToken;

/// Layout of a model's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockShape {
    pub(crate) mask: TokenId,
    pub(crate) len: usize,
    /// Number of tokens of a sub-block; divides `len`.
    pub(crate) part_len: usize,
    /// True if a row predicts the token after it, false if it predicts its own.
    pub(crate) shift: bool,
    /// True if finished text attends causally: a block may then start anywhere. Otherwise blocks are aligned
    /// to multiples of `len`, and the K/V of a finished block depends on all of it.
    pub(crate) causal: bool,
}

impl BlockShape {
    pub(crate) fn context(&self) -> Visibility {
        if self.causal { Visibility::Causal } else { Visibility::Block(self.len) }
    }

    /// Returns the start of the block after `tokens` tokens; all tokens before it must be in the pages. If
    /// rows predict the next token, a block starts with the last known token, which predicts its first mask.
    pub(crate) fn start(&self, tokens: usize) -> usize {
        match (self.causal, self.shift) {
            (true, true) => tokens - 1,
            (true, false) => tokens,
            (false, _) => tokens / self.len * self.len,
        }
    }

    /// Returns the row that predicts index `at` of a block.
    pub(crate) fn row_of(&self, at: usize) -> usize {
        if self.shift { at - 1 } else { at }
    }
}

#[derive(Debug)]
pub(crate) struct Block {
    shape: BlockShape,
    /// Position of the first row.
    pub(crate) start: usize,
    /// Known text, kept predictions and masks.
    pub(crate) tokens: Vec<TokenId>,
    /// Number of leading tokens that were known before.
    known: usize,
    sampled: Vec<Option<SampledToken>>,
    part: usize,
    /// Number of passes over the current sub-block.
    pub(crate) passes: usize,
}

impl Block {
    /// Creates the block after `tokens`, cut at the end of the context.
    pub(crate) fn new(shape: BlockShape, tokens: &[TokenId], context_len: usize) -> Self {
        let start = shape.start(tokens.len());
        let known = tokens.len() - start;
        let len = shape.len.min(context_len - start);
        let mut rows = tokens[start..].to_vec();
        rows.resize(len, shape.mask);
        let sampled = vec![None; len];
        let mut block = Self { shape, start, tokens: rows, known, sampled, part: 0, passes: 0 };
        block.next_part();
        block
    }

    pub(crate) fn end(&self) -> usize {
        self.start + self.tokens.len()
    }

    /// Returns the indices that were not known before.
    pub(crate) fn open(&self) -> std::ops::Range<usize> {
        self.known..self.tokens.len()
    }

    /// Returns the indices of the current sub-block.
    pub(crate) fn part(&self) -> std::ops::Range<usize> {
        let first = self.part * self.shape.part_len;
        first.min(self.tokens.len())..(first + self.shape.part_len).min(self.tokens.len())
    }

    pub(crate) fn is_mask(&self, at: usize) -> bool {
        at >= self.known && self.sampled[at].is_none()
    }

    pub(crate) fn masks(&self) -> Vec<usize> {
        self.part().filter(|&at| self.is_mask(at)).collect()
    }

    pub(crate) fn write(&mut self, at: usize, sampled: SampledToken) {
        self.tokens[at] = sampled.token;
        self.sampled[at] = Some(sampled);
    }

    /// Advances to the first sub-block with masks.
    pub(crate) fn next_part(&mut self) {
        while !self.part().is_empty() && self.masks().is_empty() {
            self.part += 1;
            self.passes = 0;
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.first_mask() == self.tokens.len()
    }

    fn first_mask(&self) -> usize {
        self.open().find(|&at| self.is_mask(at)).unwrap_or(self.tokens.len())
    }

    /// Returns the position of the first mask.
    pub(crate) fn finished_end(&self) -> usize {
        self.start + self.first_mask()
    }

    /// Returns the sampled tokens before the first mask.
    pub(crate) fn finished(&self) -> &[TokenId] {
        &self.tokens[self.known..self.first_mask()]
    }

    /// Returns the sampled tokens before the first mask, with their logprobs.
    pub(crate) fn into_sampled(mut self) -> Vec<SampledToken> {
        let end = self.first_mask();
        self.sampled.truncate(end);
        self.sampled.into_iter().skip(self.known).flatten().collect()
    }

    /// Returns the tokens after the known ones, `None` for a mask.
    pub(crate) fn preview(&self) -> Vec<Option<TokenId>> {
        self.sampled[self.known..].iter().map(|p| p.as_ref().map(|p| p.token)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(shift: bool, causal: bool) -> BlockShape {
        BlockShape { mask: 9, len: 8, part_len: 4, shift, causal }
    }

    fn sampled(token: TokenId) -> SampledToken {
        SampledToken { token, logprobs: None }
    }

    #[test]
    fn a_block_starts_where_its_attention_allows() {
        assert_eq!(shape(true, true).start(11), 10, "with the last token");
        assert_eq!(shape(false, true).start(11), 11, "after it");
        assert_eq!(shape(true, false).start(11), 8, "aligned");
        assert_eq!(shape(false, false).start(16), 16);
    }

    #[test]
    fn sub_blocks_are_filled_from_left_to_right() {
        let mut block = Block::new(shape(true, true), &[1, 2, 3], 100);
        assert_eq!((block.start, block.end(), block.open()), (2, 10, 1..8));
        assert_eq!(block.tokens, [3, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(block.masks(), [1, 2, 3]);
        for at in [2, 1, 3] {
            block.write(at, sampled(at as TokenId));
            block.next_part();
        }
        assert_eq!(block.masks(), [4, 5, 6, 7]);
        block.write(5, sampled(5));
        assert_eq!(block.finished(), [1, 2, 3]);
        assert_eq!(block.preview()[..5], [Some(1), Some(2), Some(3), None, Some(5)]);
        assert_eq!(block.into_sampled().len(), 3);
    }

    #[test]
    fn text_may_reach_into_an_aligned_block_and_the_context_may_cut_it() {
        let mut block = Block::new(shape(false, false), &[1; 13], 14);
        assert_eq!((block.start, block.tokens.len(), block.masks()), (8, 6, vec![5]));
        block.write(5, sampled(4));
        block.next_part();
        assert!(block.is_full() && block.masks().is_empty());
    }
}
