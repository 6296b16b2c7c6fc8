//! The query of a row, prepared for the scan.

use wf_kernels::{NoiseKey, ScoreBounds};

use super::row::bits_of_strip;
use super::{Bounds, STRIP, WORD};
use crate::compute::Compute;
use crate::row_query::RowQuery;
use crate::segment::Scoring;

pub(super) struct RowPlan<'a> {
    pub(super) query: RowQuery<'a>,
    /// Tokens to search among; `None` for all.
    pub(super) searched: Option<&'a [u32]>,
    /// The noise of a draw, and the factor of the scores that it is added to.
    pub(super) noise: Option<(NoiseKey, f32)>,
}

impl<'a> RowPlan<'a> {
    /// Tokens with adjustments are scored apart, so they are not searched; `mask` is for the others.
    pub(super) fn new(query: RowQuery<'a>, mask: &'a mut [u32]) -> Self {
        let draw = query.draw.map(|query| query.draw).filter(|_| query.scoring == Scoring::Draw);
        let adjusted = query.draw.map_or(&[][..], |query| &query.adjustments);
        let mut searched = query.allowed;
        if !adjusted.is_empty() {
            match query.allowed {
                Some(allowed) => mask.copy_from_slice(allowed),
                None => mask.fill(u32::MAX),
            }
            for token in adjusted.iter().map(|adjusted| adjusted.token as usize) {
                mask[token / WORD] &= !(1 << (token % WORD));
            }
            searched = Some(mask);
        }
        Self { query, searched, noise: draw.map(|draw| (draw.key, draw.factor() as f32)) }
    }

    /// Returns the largest bounds of a strip.
    pub(super) fn bounds(
        &self,
        cx: &Compute,
        strip: usize,
        mut bounds: ScoreBounds,
        estimates: &mut [f32; STRIP],
    ) -> Bounds {
        if let Some(bits) = self.searched {
            bounds.keep(bits_of_strip(bits, strip));
        }
        let (estimate, upper) = (bounds.best_estimate, bounds.best_upper);
        let Some((key, factor)) = self.noise else {
            return Bounds { estimate, upper, ..Bounds::NONE };
        };
        if self.query.has_top_p() {
            *estimates = bounds.estimate;
        }
        cx.kernel.perturb_bounds(key, (strip * STRIP) as u32, factor, &mut bounds);
        let (drawn_estimate, drawn_upper) = (bounds.best_estimate, bounds.best_upper);
        Bounds { estimate, upper, drawn_estimate, drawn_upper }
    }
}
