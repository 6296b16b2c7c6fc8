//! Comparison of a scan with the full head.

use std::fmt;

use wf_core::TokenId;

use crate::logits;
use crate::segment::Segment;

/// A row for which a scan gives something else than the full head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Difference {
    /// Index among the scored rows.
    pub(crate) row: usize,
    pub(crate) scan: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A score among the best is wrong or missing.
    Score {
        k: usize,
        token: TokenId,
        found: f32,
        exact: f32,
        /// Best token and its score, in the scan and in the full head.
        best_found: (TokenId, f32),
        best_exact: (TokenId, f32),
    },
    /// Another token is drawn.
    Draw { found: Option<TokenId>, exact: Option<TokenId> },
}

impl Difference {
    /// Returns it with its row counted from `rows` rows earlier.
    pub(super) fn shifted(self, rows: usize) -> Self {
        Self { row: self.row + rows, ..self }
    }

    /// Panics with the difference that `--head check` has found among the scored rows of `segments`.
    pub(crate) fn stop(&self, segments: &[Segment<'_>]) {
        let positions = segments.iter().flat_map(|s| s.scored.iter().map(|index| s.start + index));
        let position = positions.into_iter().nth(self.row).unwrap_or_default();
        panic!("head check: at position {position}, {self}");
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scan = self.scan;
        write!(f, "{scan} differs from the full head: ")?;
        match self.kind {
            Kind::Score { k, token, found, exact, best_found, best_exact } => write!(
                f,
                "token {token}, among the {k} best, has score {exact:?} and got {found:?}; the best token \
                 is {} ({:?}), in {scan} it is {} ({:?})",
                best_exact.0, best_exact.1, best_found.0, best_found.1
            ),
            Kind::Draw { found, exact } => {
                let name = |token: Option<TokenId>| {
                    token.map_or("no token".into(), |token| format!("token {token}"))
                };
                write!(f, "{} is drawn, in {scan} it is {}", name(exact), name(found))
            }
        }
    }
}

/// Returns the difference if another token is drawn.
pub(crate) fn draw_difference(
    scan: &'static str,
    found: Option<TokenId>,
    exact: Option<TokenId>,
) -> Option<Difference> {
    let difference = Difference { row: 0, scan, kind: Kind::Draw { found, exact } };
    (found != exact).then_some(difference)
}

/// Returns the first token of `found` that is neither scored as in `exact` nor correctly left out as
/// not among the `k` best. `scratch` is as long as a row.
pub(crate) fn difference(
    scan: &'static str,
    k: usize,
    found: &[f32],
    exact: &[f32],
    scratch: &mut [f32],
) -> Option<Difference> {
    scratch.copy_from_slice(exact);
    // Scores that are not finite are never picked.
    scratch.iter_mut().filter(|s| !s.is_finite()).for_each(|s| *s = f32::NEG_INFINITY);
    let last = k.min(scratch.len()).saturating_sub(1);
    let floor = *scratch.select_nth_unstable_by(last, |a, b| b.total_cmp(a)).1;
    let wrong = found.iter().zip(exact).position(|(found, exact)| {
        let left_out = *found == f32::NEG_INFINITY && !(exact.is_finite() && *exact >= floor);
        found.to_bits() != exact.to_bits() && !left_out
    })?;
    let kind = Kind::Score {
        k,
        token: wrong as TokenId,
        found: found[wrong],
        exact: exact[wrong],
        best_found: best(found),
        best_exact: best(exact),
    };
    Some(Difference { row: 0, scan, kind })
}

/// Returns the best token and its score; token 0 and −∞ if no score is finite.
fn best(scores: &[f32]) -> (TokenId, f32) {
    let token = logits::best(scores);
    token.map_or((0, f32::NEG_INFINITY), |token| (token, scores[token as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT_OUT: f32 = f32::NEG_INFINITY;

    fn found(k: usize, found: &[f32], exact: &[f32]) -> Option<TokenId> {
        let mut scratch = vec![0.0; exact.len()];
        match difference("scan", k, found, exact, &mut scratch)?.kind {
            Kind::Score { token, .. } => Some(token),
            Kind::Draw { .. } => None,
        }
    }

    #[test]
    fn tokens_below_the_best_may_be_left_out() {
        let exact = [1.0, 3.0, 3.0, 2.0];
        assert_eq!(found(1, &exact, &exact), None);
        assert_eq!(found(1, &[LEFT_OUT, 3.0, 3.0, LEFT_OUT], &exact), None);
        assert_eq!(found(3, &[LEFT_OUT, 3.0, 3.0, 2.0], &exact), None);
    }

    #[test]
    fn a_lost_best_token_a_lost_tie_and_a_wrong_bit_are_found() {
        let exact = [1.0, 3.0, 3.0, 2.0];
        assert_eq!(found(1, &[LEFT_OUT, LEFT_OUT, 3.0, 2.0], &exact), Some(1));
        assert_eq!(found(1, &[LEFT_OUT, 3.0, LEFT_OUT, 2.0], &exact), Some(2));
        assert_eq!(found(3, &[LEFT_OUT, 3.0, 3.0, LEFT_OUT], &exact), Some(3));
        assert_eq!(found(1, &[1.0_f32.next_up(), 3.0, 3.0, 2.0], &exact), Some(0));
    }

    #[test]
    fn the_message_names_the_tokens_and_their_scores() {
        let mut scratch = [0.0; 3];
        let scores = ([LEFT_OUT, 1.5, 1.0], [2.5, 1.5, 1.0]);
        let difference = difference("scan4", 1, &scores.0, &scores.1, &mut scratch).unwrap();
        let message = difference.to_string();
        for words in ["scan4", "token 0", "2.5", "it is 1 (1.5)", "best token is 0"] {
            assert!(message.contains(words), "{words}: {message}");
        }
    }

    #[test]
    fn another_drawn_token_is_a_difference() {
        assert_eq!(draw_difference("scan", Some(3), Some(3)), None);
        let message = draw_difference("scan4", None, Some(7)).unwrap().to_string();
        assert!(message.contains("token 7 is drawn, in scan4 it is no token"), "{message}");
    }
}
