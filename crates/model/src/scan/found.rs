//! A row after the scan: the search for the tokens that it needs.

use super::candidates::{Candidates, TooMany};
use super::draw::DrawSearch;
use super::masses::Masses;
use super::row::RowScan;
use super::{Bounds, Depth, Outcome, STRIP};
use crate::logits::{MAX_SHARE, TokenLogit};
use crate::row_query::RowQuery;
use crate::segment::Scoring;

/// Largest error of a candidate, relative to the bound of nibbles, at which that bound is trusted.
const MAX_TRUSTED_ERROR: f32 = 5.0 / 8.0;

/// A row after the scan.
pub(super) struct Found<'a> {
    pub(super) row: RowScan<'a>,
    pub(super) strips: &'a [Bounds],
    pub(super) estimates: &'a [[f32; STRIP]],
}

impl Found<'_> {
    /// Scores the tokens that the row needs.
    pub(super) fn score(
        &self,
        query: &RowQuery<'_>,
        (candidates, masses): &mut (Candidates, Masses),
        out: &mut Vec<TokenLogit>,
    ) -> Outcome {
        let RowScan { scan, depth, .. } = self.row;
        candidates.clear();
        out.clear();
        let max = scan.vocab_len / MAX_SHARE;
        let adjusted = query.draw.map_or(0, |draw| draw.adjustments.len());
        let is_large = matches!(query.scoring, Scoring::Top(k) if k > max) || adjusted > max;
        if !self.row.is_finite() || is_large {
            return Outcome::Whole;
        }
        let searched = self.search(query, max, candidates, masses, out);
        let is_trusted = depth == Depth::Bytes || candidates.max_error <= MAX_TRUSTED_ERROR;
        match searched {
            Ok(()) if is_trusted => Outcome::Picked(candidates.known.len()),
            _ if depth == Depth::Nibbles => Outcome::Widen,
            _ => Outcome::Whole,
        }
    }

    fn search(
        &self,
        query: &RowQuery<'_>,
        max: usize,
        candidates: &mut Candidates,
        masses: &mut Masses,
        out: &mut Vec<TokenLogit>,
    ) -> Result<(), TooMany> {
        let (row, strips, estimates) = (&self.row, self.strips, self.estimates);
        let adjusted = query.draw.iter().flat_map(|draw| &draw.adjustments);
        let adjusted = adjusted.map(|adjusted| adjusted.token);
        candidates.add(row, adjusted.filter(|token| query.allows(*token)));
        match (query.scoring, query.draw) {
            (Scoring::Top(k), _) => candidates.add_best(row, strips, k, max)?,
            (Scoring::Draw, Some(query)) => {
                let search = DrawSearch { row, query, strips, estimates, candidates, max };
                out.extend(search.find(masses)?);
                return Ok(());
            }
            _ => return Err(TooMany),
        }
        out.extend(&candidates.known);
        out.sort_unstable_by_key(|row| row.token);
        Ok(())
    }
}
