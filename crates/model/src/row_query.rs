//! Queries of scored rows: the logits that the output head has to compute for each.

use wf_core::TokenId;

use crate::draw::DrawQuery;
use crate::segment::{Scoring, Segment};

/// Queries of the scored rows of neighbouring segments.
#[derive(Clone, Copy)]
pub(crate) struct RowQueries<'a> {
    segments: &'a [Segment<'a>],
    /// Number of rows skipped at the start.
    skipped: usize,
}

/// The query of a scored row: the logits it needs.
#[derive(Clone, Copy)]
pub(crate) struct RowQuery<'a> {
    pub(crate) scoring: Scoring,
    /// One bit per token; `None` if all tokens are allowed.
    pub(crate) allowed: Option<&'a [u32]>,
    pub(crate) draw: Option<&'a DrawQuery>,
}

impl RowQuery<'_> {
    pub(crate) fn allows(&self, token: TokenId) -> bool {
        let (word, bit) = (token as usize / 32, token % 32);
        self.allowed.is_none_or(|bits| bits[word] >> bit & 1 == 1)
    }

    pub(crate) fn has_top_p(&self) -> bool {
        self.scoring == Scoring::Draw && self.draw.is_some_and(|query| query.draw.top_p < 1.0)
    }

    /// Sets the logits of tokens that are not allowed to −∞.
    pub(crate) fn forbid(&self, logits: &mut [f32]) {
        let others = logits.iter_mut().zip(0..).filter(|(_, token)| !self.allows(*token));
        others.for_each(|(logit, _)| *logit = f32::NEG_INFINITY);
    }
}

impl<'a> RowQueries<'a> {
    pub(crate) fn new(segments: &'a [Segment<'a>]) -> Self {
        Self { segments, skipped: 0 }
    }

    pub(crate) fn skip(self, rows: usize) -> Self {
        Self { skipped: self.skipped + rows, ..self }
    }

    /// Returns the query of a row.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer rows.
    pub(crate) fn row(self, row: usize) -> RowQuery<'a> {
        let mut row = row + self.skipped;
        for &Segment { scored, scoring, allowed, draws, .. } in self.segments {
            if row < scored.len() {
                let words = allowed.len() / scored.len();
                let allowed = &allowed[row * words..][..words];
                let allowed = Some(allowed).filter(|bits| !bits.is_empty());
                return RowQuery { scoring, allowed, draw: draws.get(row) };
            }
            row -= scored.len();
        }
        panic!("a row of the segments");
    }
}

/// Iterates over the tokens whose bits are set.
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
