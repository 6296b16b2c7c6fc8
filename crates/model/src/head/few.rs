//! Rows whose constraint allows few tokens: only those are scored.

use wf_core::TokenId;

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::logits::{MAX_SHARE, TokenLogit};
use crate::row_query::{RowQueries, tokens_of};

pub(super) struct Few {
    tokens: Vec<TokenId>,
    scores: Vec<f32>,
}

impl Few {
    pub(super) fn new(vocab_len: usize) -> Self {
        let max = vocab_len / MAX_SHARE;
        Self { tokens: Vec::with_capacity(max), scores: vec![0.0; max] }
    }

    /// Scores only the allowed tokens and returns `true`, if they are few enough for this to be fastest.
    pub(super) fn score(
        &mut self,
        cx: &Compute,
        table: &FloatTable,
        hidden: &[f32],
        queries: RowQueries<'_>,
        out: &mut [Vec<TokenLogit>],
    ) -> bool {
        let max = self.scores.len();
        let count = |bits: &[u32]| bits.iter().map(|word| word.count_ones() as usize).sum();
        let counts = |row| queries.row(row).allowed.map_or(max + 1, count);
        let mut left = max;
        for row in 0..out.len() {
            match left.checked_sub(counts(row)) {
                Some(less) => left = less,
                None => return false,
            }
        }
        let hidden = hidden.chunks_exact(table.cols());
        for (row, (x, out)) in hidden.zip(out).enumerate() {
            self.tokens.clear();
            self.tokens.extend(queries.row(row).allowed.into_iter().flat_map(tokens_of));
            let scores = &mut self.scores[..self.tokens.len()];
            table.scores_of(cx, &self.tokens, x, scores);
            let scored = self.tokens.iter().zip(scores.iter());
            out.extend(scored.map(|(&token, &logit)| TokenLogit { token, logit }));
        }
        true
    }
}
