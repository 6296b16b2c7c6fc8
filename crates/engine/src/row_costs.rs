//! Time of a pass by its number of rows, learnt from the passes of the engine.
//!
//! A draft pays if its rows cost less time than the tokens it saves, which depends on the machine, the model
//! and the number of sequences. Every pass is a measurement, prompts included, so nothing is measured for its
//! own sake. Times decide when tokens arrive, never which.

use wf_model::{Scoring, Segment};

use crate::decode::DraftCosts;

/// Rows from which a pass belongs to the next point of a curve.
const FIRST_ROWS: [usize; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256];

/// Weight of a measurement below the estimate, and of one above it: whatever else runs on the machine only
/// makes passes slower.
const WEIGHT_BELOW: f64 = 0.5;
const WEIGHT_ABOVE: f64 = 0.06;

/// Largest measurement that counts, relative to the estimate.
const MAX_OUTLIER: f64 = 2.0;

/// Cost of a row, relative to the first, where nothing is known.
const UNKNOWN_ROW: f64 = 0.5;

/// Logits that the scored rows of a pass need, which cost different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The best ones, or those of a draw.
    Top,
    /// All of them.
    Whole,
}

impl Head {
    pub(crate) fn of(scoring: Scoring) -> Self {
        if scoring == Scoring::All { Self::Whole } else { Self::Top }
    }
}

/// Times of passes.
#[derive(Debug, Default)]
pub(crate) struct RowCosts {
    top: Curve,
    whole: Curve,
    /// Seconds that the draft model takes for a token.
    draft_token: Option<f64>,
}

/// Time by number of rows.
#[derive(Debug, Default)]
struct Curve([Option<Point>; FIRST_ROWS.len()]);

#[derive(Clone, Copy, Debug)]
struct Point {
    rows: f64,
    seconds: f64,
}

impl RowCosts {
    /// Records the time of a pass.
    pub(crate) fn record(&mut self, batch: &[Segment<'_>], seconds: f64) {
        let rows = batch.iter().map(|segment| segment.tokens.len()).sum();
        let mut scored = batch.iter().filter(|segment| !segment.scored.is_empty());
        let needs_all = scored.any(|segment| segment.scoring == Scoring::All);
        let scoring = if needs_all { Scoring::All } else { Scoring::BEST };
        self.record_rows(Head::of(scoring), rows, seconds);
    }

    fn record_rows(&mut self, head: Head, rows: usize, seconds: f64) {
        match head {
            Head::Top => self.top.record(rows, seconds),
            Head::Whole => self.whole.record(rows, seconds),
        }
    }

    /// Records that the draft model drafted `tokens` tokens, one after another.
    pub(crate) fn record_draft(&mut self, tokens: usize, seconds: f64) {
        if tokens > 0 {
            let seconds = seconds / tokens as f64;
            let old = self.draft_token.unwrap_or(seconds);
            self.draft_token = Some(moved(old, seconds));
        }
    }

    /// Returns the costs of draft rows for one of `sequences` sequences that decode together. Its passes
    /// without a draft need the logits of `plain`, those with a draft the logits of `drafted`.
    pub(crate) fn of_drafts(&self, sequences: usize, plain: Head, drafted: Head) -> DraftCosts {
        let curve = |head| match head {
            Head::Top => &self.top,
            Head::Whole => &self.whole,
        };
        let plain = curve(plain).seconds(sequences);
        let relative = |rows: usize| match (plain, curve(drafted).seconds(sequences + rows)) {
            _ if rows == 0 => 1.0,
            (Some(plain), Some(seconds)) => (seconds / plain).max(1.0),
            _ => law(sequences + rows) / law(sequences),
        };
        let draft_token = self.draft_token.zip(plain).map_or(1.0, |(draft, plain)| draft / plain);
        DraftCosts::new(sequences, relative, draft_token)
    }
}

impl Curve {
    fn record(&mut self, rows: usize, seconds: f64) {
        let after = FIRST_ROWS.partition_point(|&first| first <= rows);
        let Some(point) = after.checked_sub(1).map(|at| &mut self.0[at]) else { return };
        let old = point.unwrap_or(Point { rows: rows as f64, seconds });
        // Passes of a few rows more or less count as if they had the rows of the point.
        let seconds = seconds * law_of(old.rows) / law(rows);
        *point = Some(Point { seconds: moved(old.seconds, seconds), ..old });
    }

    /// Returns the time of a pass of `rows` rows, between the nearest points; `None` if there are none.
    fn seconds(&self, rows: usize) -> Option<f64> {
        let rows = rows as f64;
        let known = || self.0.iter().flatten();
        let below = known().rev().find(|point| point.rows <= rows);
        let above = known().find(|point| point.rows > rows);
        let (from, to) = match (below, above) {
            (Some(below), Some(above)) => (below, above),
            // Beyond the last point, the slope of the last two.
            (Some(last), None) => match known().rev().nth(1) {
                Some(before) => (before, last),
                None => return Some(last.seconds * law_of(rows) / law_of(last.rows)),
            },
            (None, Some(first)) => return Some(first.seconds * law_of(rows) / law_of(first.rows)),
            (None, None) => return None,
        };
        let slope = ((to.seconds - from.seconds) / (to.rows - from.rows)).max(0.0);
        Some(from.seconds + slope * (rows - from.rows))
    }
}

/// Returns the assumed cost of a pass, relative to one of a single row.
fn law(rows: usize) -> f64 {
    law_of(rows as f64)
}

fn law_of(rows: f64) -> f64 {
    1.0 + UNKNOWN_ROW * (rows - 1.0)
}

fn moved(old: f64, new: f64) -> f64 {
    let weight = if new < old { WEIGHT_BELOW } else { WEIGHT_ABOVE };
    old + weight * (new.min(MAX_OUTLIER * old) - old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(passes: &[(usize, f64)]) -> RowCosts {
        let mut costs = RowCosts::default();
        passes.iter().for_each(|&(rows, ms)| costs.record_rows(Head::Top, rows, ms / 1e3));
        costs
    }

    fn relative(costs: &RowCosts, sequences: usize, rows: usize) -> f64 {
        costs.of_drafts(sequences, Head::Top, Head::Top).pass(rows)
    }

    fn is_close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn costs_lie_between_those_of_known_passes() {
        let costs = costs(&[(1, 10.0), (5, 14.0), (33, 42.0)]);
        assert!(is_close(relative(&costs, 1, 0), 1.0));
        assert!(is_close(relative(&costs, 1, 2), 1.2));
        assert!(is_close(relative(&costs, 1, 4), 1.4));
        assert!(is_close(relative(&costs, 1, 11), 2.1));
        assert!(is_close(relative(&costs, 1, 42), 5.2), "the last slope goes on");
        assert!(is_close(relative(&costs, 5, 28), 3.0), "relative to the rows of all sequences");
    }

    #[test]
    fn unknown_rows_cost_half_of_the_first() {
        assert!(is_close(relative(&costs(&[]), 1, 3), 2.5));
        assert!(is_close(relative(&costs(&[(1, 7.0)]), 1, 3), 2.5));
        let whole = costs(&[(1, 7.0)]).of_drafts(1, Head::Top, Head::Whole);
        assert!(is_close(whole.pass(3), 2.5), "as long as no pass has read the whole head");
    }

    #[test]
    fn slow_passes_count_less_than_fast_ones() {
        let mut disturbed = vec![(1, 10.0), (9, 20.0)];
        disturbed.extend([(1, 500.0); 3]);
        assert!((1.6..2.0).contains(&relative(&costs(&disturbed), 1, 8)));
        disturbed.extend([(1, 10.0); 8]);
        assert!((1.95..2.0).contains(&relative(&costs(&disturbed), 1, 8)));
    }

    #[test]
    fn the_draft_model_is_compared_with_a_pass() {
        let mut costs = costs(&[(1, 10.0)]);
        costs.record_draft(0, 1.0);
        costs.record_draft(4, 0.008);
        assert!(is_close(costs.of_drafts(1, Head::Top, Head::Top).draft_token, 0.2));
    }
}
