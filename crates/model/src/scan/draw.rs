//! The token that a draw gives, from bounds of the scores.
//!
//! A token is drawn if no other token that may be drawn has a larger perturbed score. A few tokens that promise
//! large ones are scored exactly; the largest of them is a floor, and every token whose upper bound reaches it is
//! scored. With min-p, tokens below a cut are left out, which needs the best score alone. With top-p, bounds of
//! the probabilities before and after a token tell whether it may be drawn; where they cannot, more tokens are
//! scored, and in the end all.

use wf_kernels::math;

use super::candidates::{Candidates, TooMany};
use super::masses::{Masses, Scores, Verdict};
use super::row::RowScan;
use super::{Bounds, Depth, STRIP};
use crate::draw::DrawQuery;
use crate::logits::TokenLogit;

/// Number of tokens that set the first floor.
const FIRST: usize = 16;

/// Number of best tokens that are scored if bounds do not tell which tokens top-p keeps: few at first, then one
/// in this many.
const FEW_BEST: usize = 512;
const MANY_BEST_SHARE: usize = 16;

/// More than the rounding errors of a cut, relative to it and absolute.
const CUT_SLACK: f64 = 1e-6;

pub(super) struct DrawSearch<'a> {
    pub(super) row: &'a RowScan<'a>,
    pub(super) query: &'a DrawQuery,
    /// Bounds of each strip.
    pub(super) strips: &'a [Bounds],
    /// Estimate of each token, if the draw has top-p.
    pub(super) estimates: &'a [[f32; STRIP]],
    pub(super) candidates: &'a mut Candidates,
    /// Number of tokens that may be scored.
    pub(super) max: usize,
}

impl DrawSearch<'_> {
    /// Returns the token that is drawn, with its score before adjustments. The adjusted tokens must be known.
    pub(super) fn find(mut self, masses: &mut Masses) -> Result<Option<TokenLogit>, TooMany> {
        let draw = self.query.draw;
        let mut best = f32::NEG_INFINITY;
        if draw.truncates() {
            self.candidates.add_best(self.row, self.strips, 1, self.max)?;
            best = self.known().map(|known| known.logit).fold(f32::NEG_INFINITY, f32::max);
        }
        let min_p = f64::from(draw.min_p);
        let allows = |known: TokenLogit| min_p == 0.0 || draw.weight(known.logit, best) >= min_p;
        let cut = below(f64::from(best) + math::ln(min_p) / draw.factor());
        self.add_first(cut);
        let drawn = self.winner(cut, allows)?;
        match drawn.filter(|drawn| draw.top_p < 1.0 && drawn.logit < best) {
            // The best token is always kept.
            None => Ok(self.unadjusted(drawn)),
            Some(drawn) => self.find_with_top_p(masses, (cut, best, drawn), allows),
        }
    }

    /// Returns the token that is drawn, where `drawn` is drawn without top-p.
    fn find_with_top_p(
        &mut self,
        masses: &mut Masses,
        (cut, best, mut drawn): (f32, f32, TokenLogit),
        allows: impl Fn(TokenLogit) -> bool,
    ) -> Result<Option<TokenLogit>, TooMany> {
        let draw = self.query.draw;
        let error = self.row.max_error();
        let scores = Scores { draw: &draw, estimates: self.estimates, best, error };
        masses.count(scores);
        masses.set_known(scores, &self.candidates.known, self.known());
        let many = (STRIP * self.estimates.len() / MANY_BEST_SHARE).max(1);
        let rounds = match self.row.depth {
            // What few tokens do not decide is decided by more bits.
            Depth::Nibbles => &[FEW_BEST][..],
            Depth::Bytes => &[FEW_BEST, many],
        };
        for &best_tokens in rounds {
            if self.is_decided(masses, drawn, &allows) {
                return Ok(self.unadjusted(Some(drawn)));
            }
            let moved = self.candidates.known.len();
            let estimates = (self.strips, self.estimates);
            self.candidates.add_highest_estimates(self.row, estimates, best_tokens);
            masses.set_known(scores, &self.candidates.known[moved..], self.known());
            let cut = cut.max(below(masses.cut()));
            let is_kept = |known| allows(known) && masses.verdict(known) == Verdict::Kept;
            drawn = self.winner(cut, is_kept)?.ok_or(TooMany)?;
        }
        match self.is_decided(masses, drawn, &allows) {
            true => Ok(self.unadjusted(Some(drawn))),
            false => Err(TooMany),
        }
    }

    /// Returns `true` if `drawn` is kept, and no token that could be kept wins over it.
    fn is_decided(
        &self,
        masses: &Masses,
        drawn: TokenLogit,
        allows: impl Fn(TokenLogit) -> bool,
    ) -> bool {
        let draw = &self.query.draw;
        let sum = draw.perturbed(drawn.token, drawn.logit);
        let could_win = |known: TokenLogit| {
            allows(known)
                && masses.verdict(known) == Verdict::Open
                && draw.perturbed(known.token, known.logit) > sum
        };
        masses.verdict(drawn) == Verdict::Kept && !self.known().any(could_win)
    }

    /// Scores tokens that promise large perturbed scores.
    fn add_first(&mut self, cut: f32) {
        self.candidates.add_highest(self.row, self.strips, FIRST, |b| match b.upper >= cut {
            true => b.drawn_estimate,
            false => f32::NEG_INFINITY,
        });
    }

    /// Returns the token with the largest perturbed score among those whose score is above `cut` and for which
    /// `is_kept` returns `true`.
    fn winner(
        &mut self,
        cut: f32,
        is_kept: impl Fn(TokenLogit) -> bool,
    ) -> Result<Option<TokenLogit>, TooMany> {
        let draw = &self.query.draw;
        let first = draw.largest_sum(self.known().filter(|&known| is_kept(known)));
        let sum = first.map_or(f64::NEG_INFINITY, |first| draw.perturbed(first.token, first.logit));
        let floor = below(sum);
        let is_possible = |b: &Bounds| b.upper >= cut && b.drawn_upper >= floor;
        self.candidates.add_all(self.row, self.strips, self.max, is_possible)?;
        Ok(draw.largest_sum(self.known().filter(|&known| is_kept(known))))
    }

    /// Returns the known tokens that may be drawn, with their adjusted scores.
    fn known(&self) -> impl Iterator<Item = TokenLogit> + '_ {
        let adjustments = &self.query.adjustments;
        let adjusted = self.candidates.known.iter().map(|known| {
            let at = adjustments.binary_search_by_key(&known.token, |a| a.token);
            let logit = at.map_or(known.logit, |at| adjustments[at].apply(known.logit));
            TokenLogit { logit, ..*known }
        });
        adjusted.filter(|known| known.logit.is_finite())
    }

    /// Returns a token with its score before adjustments.
    fn unadjusted(&self, drawn: Option<TokenLogit>) -> Option<TokenLogit> {
        let token = drawn?.token;
        self.candidates.known.iter().find(|known| known.token == token).copied()
    }
}

/// Returns an f32 that is certainly lower.
fn below(value: f64) -> f32 {
    (value - value.abs() * CUT_SLACK - CUT_SLACK) as f32
}
