//! The output head: logits of hidden states.

mod check;
mod costs;
mod counts;
mod difference;
mod few;
mod output;
mod ternary;

use std::sync::Arc;

use wf_core::Network;

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::logits::Logits;
use crate::options::HeadMode;
use crate::row_query::RowQueries;
use crate::scan::{Depth, SCANNED_AT_ONCE, Scan, ScanContext, ScanQueries, ScanScratch};
use crate::segment::{Scoring, Segment};
use check::Check;
pub use counts::{Count, HeadCounts};
pub(crate) use difference::Difference;
#[cfg(test)]
pub(crate) use difference::difference;
use few::Few;
pub(crate) use output::OutputHead;
pub(crate) use ternary::TernaryHead;

/// Size of a table, in bytes, that exceeds the CPU caches.
const MIN_SCANNED_BYTES: usize = 32 << 20;

pub(crate) struct Head {
    method: Method,
    counts: Arc<HeadCounts>,
    few: Few,
}

enum Method {
    Full,
    /// The best tokens by a scan, all tokens by the table.
    Scan(Scan, ScanScratch),
    /// All tokens by the codes.
    Int8(Scan, ScanScratch),
    /// All tokens by the table, compared with scans.
    Check(Box<Check>),
}

impl Head {
    pub(crate) fn new(cx: &Compute, network: &Network, table: &FloatTable, mode: HeadMode) -> Self {
        let scratch = || ScanScratch::new(cx, network.vocab_len, network.hidden_len);
        let scan = |depth| Scan::new(cx, table, depth);
        let method = match mode {
            HeadMode::Auto if table.size_bytes() < MIN_SCANNED_BYTES => Method::Full,
            HeadMode::Full => Method::Full,
            HeadMode::Scan => Method::Scan(scan(Depth::Bytes), scratch()),
            HeadMode::Auto | HeadMode::Scan4 => Method::Scan(scan(Depth::Nibbles), scratch()),
            HeadMode::Int8 => Method::Int8(scan(Depth::Bytes), scratch()),
            HeadMode::Check => Method::Check(Box::new(Check::new(cx, network, table))),
        };
        Self { method, counts: Arc::default(), few: Few::new(network.vocab_len) }
    }

    /// Computes the logits of the `hidden` rows of segments that need all logits, or of segments of which none
    /// does, and writes them to the rows of `out` from `first` on.
    ///
    /// # Errors
    ///
    /// If scans are checked and one differs from the table.
    pub(crate) fn score(
        &mut self,
        cx: &Compute,
        table: &FloatTable,
        hidden: &[f32],
        segments: &[Segment<'_>],
        (out, first): (&mut Logits, usize),
    ) -> Result<(), Difference> {
        let queries = RowQueries::new(segments);
        let rows = hidden.len() / table.cols();
        // With int8 scores, few tokens must score as they do among many.
        let by_table = !matches!(self.method, Method::Int8(..));
        if by_table && self.few.score(cx, table, hidden, queries, out.some_mut(first, rows)) {
            return Ok(());
        }
        let needs_all = segments.iter().any(|segment| segment.scoring == Scoring::All);
        let scans = matches!(self.method, Method::Scan(..)) && !needs_all;
        if by_table && !scans {
            table.scores(cx, hidden, out.rows_mut(first, rows));
        }
        let parts = hidden.chunks(SCANNED_AT_ONCE * table.cols());
        for (skipped, hidden) in (0..).step_by(SCANNED_AT_ONCE).zip(parts) {
            let queries = ScanQueries { hidden, rows: queries.skip(skipped) };
            let first = first + skipped;
            match &mut self.method {
                Method::Int8(scan, scratch) => {
                    let rows = hidden.len() / table.cols();
                    scan.approximate(cx, hidden, out.rows_mut(first, rows), scratch);
                }
                Method::Scan(scan, scratch) if scans => {
                    let context = ScanContext { cx, table, counts: &self.counts };
                    scan.score(context, queries, (&mut *out, first), scratch);
                }
                Method::Check(check) if !needs_all => {
                    let checked = check.compare(cx, table, queries, (&mut *out, first));
                    checked.map_err(|difference| difference.shifted(skipped))?;
                }
                Method::Full | Method::Scan(..) | Method::Check(_) => {}
            }
        }
        Ok(())
    }
}
