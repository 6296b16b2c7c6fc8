//! The head that compares scans with the full head.

use std::sync::Arc;

use wf_core::Network;

use super::counts::HeadCounts;
use super::difference::{Difference, difference, draw_difference};
use crate::compute::Compute;
use crate::draw::Candidate;
use crate::embed::FloatTable;
use crate::logits::{Logits, LogitsRow};
use crate::scan::{Depth, Scan, ScanContext, ScanQueries, ScanScratch};
use crate::segment::Scoring;

pub(super) struct Check {
    scans: [(&'static str, Scan, Arc<HeadCounts>); 2],
    scratch: ScanScratch,
    found: Logits,
    /// Rows of all tokens.
    rows: [Vec<f32>; 3],
    kept: Vec<Candidate>,
}

impl Check {
    pub(super) fn new(cx: &Compute, network: &Network, table: &FloatTable) -> Self {
        let named = |name, depth| (name, Scan::new(cx, table, depth), Arc::default());
        Self {
            scans: [named("scan", Depth::Bytes), named("scan4", Depth::Nibbles)],
            scratch: ScanScratch::new(cx, network.vocab_len, network.hidden_len),
            found: Logits::new(network.vocab_len),
            rows: [(); 3].map(|()| vec![0.0; network.vocab_len]),
            kept: Vec::with_capacity(network.vocab_len),
        }
    }

    pub(super) fn scans(&self) -> impl Iterator<Item = &Scan> {
        self.scans.iter().map(|(_, scan, _)| scan)
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, Arc<HeadCounts>)> {
        self.scans.iter().map(|(name, _, counts)| (*name, Arc::clone(counts))).collect()
    }

    /// Compares the scans of some rows with their exact scores, which are in the rows of `exact` from `first` on.
    pub(super) fn compare(
        &mut self,
        cx: &Compute,
        table: &FloatTable,
        queries: ScanQueries<'_>,
        (exact, first): (&mut Logits, usize),
    ) -> Result<(), Difference> {
        let rows = queries.hidden.len() / table.cols();
        let [exact_row, found_row, sorted] = &mut self.rows;
        for (name, scan, counts) in &self.scans {
            self.found.resize(rows);
            let context = ScanContext { cx, table, counts };
            scan.score(context, queries, (&mut self.found, 0), &mut self.scratch);
            for row in 0..rows {
                counts.checked.add(1);
                let query = queries.rows.row(row);
                exact_row.copy_from_slice(exact.row(first + row));
                query.forbid(exact_row);
                let found = match (query.scoring, query.draw) {
                    (Scoring::Draw, Some(draw)) => {
                        let found = draw.token(self.found.row_mut(row), &mut self.kept);
                        let exact = draw.token(LogitsRow::All(exact_row), &mut self.kept);
                        draw_difference(name, found, exact)
                    }
                    (Scoring::Top(k), _) => {
                        self.found.fill_row(row, found_row);
                        query.forbid(found_row);
                        difference(name, k, found_row, exact_row, sorted)
                    }
                    (Scoring::Draw | Scoring::All, _) => None,
                };
                if let Some(found) = found {
                    return Err(found.shifted(row));
                }
            }
        }
        Ok(())
    }
}
