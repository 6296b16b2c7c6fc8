//! The output head: logits of hidden states.

mod check;
mod counts;
mod output;
mod ternary;

use std::sync::Arc;

use wf_core::{Network, TokenId};

use crate::compute::Compute;
use crate::draw::Candidate;
use crate::embed::FloatTable;
use crate::logits::{Logits, LogitsRow, MAX_SHARE, TokenLogit};
use crate::options::HeadMode;
use crate::scan::{Depth, SCANNED_AT_ONCE, Scan, ScanContext, ScanQueries, ScanScratch};
use crate::segment::{RowQueries, Scoring, Segment, tokens_of};
use check::draw_difference;
pub(crate) use check::{Difference, difference};
pub use counts::{Count, HeadCounts};
pub(crate) use output::OutputHead;

/// Size of a table, in bytes, that exceeds the CPU caches.
const MIN_SCANNED_BYTES: usize = 32 << 20;

pub(crate) struct Head {
    method: Method,
    counts: Arc<HeadCounts>,
    few: Few,
}

struct Few {
    tokens: Vec<TokenId>,
    scores: Vec<f32>,
}

enum Method {
    Full,
    /// The best tokens by a scan, all tokens by the table.
    Scan(Scan, ScanScratch),
    /// All tokens by the codes.
    Int8(Scan, ScanScratch),
    Check(Box<Check>),
}

struct Check {
    scans: [(&'static str, Scan, Arc<HeadCounts>); 2],
    scratch: ScanScratch,
    found: Logits,
    /// Rows of all tokens.
    rows: [Vec<f32>; 3],
    kept: Vec<Candidate>,
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
            HeadMode::Check => {
                let named = |name, depth| (name, scan(depth), Arc::default());
                Method::Check(Box::new(Check {
                    scans: [named("scan", Depth::Bytes), named("scan4", Depth::Nibbles)],
                    scratch: scratch(),
                    found: Logits::new(network.vocab_len),
                    rows: [(); 3].map(|()| vec![0.0; network.vocab_len]),
                    kept: Vec::with_capacity(network.vocab_len),
                }))
            }
        };
        let max = network.vocab_len / MAX_SHARE;
        let few = Few { tokens: Vec::with_capacity(max), scores: vec![0.0; max] };
        Self { method, counts: Arc::default(), few }
    }

    /// Bytes held in memory beside the table.
    pub(crate) fn size_bytes(&self) -> usize {
        match &self.method {
            Method::Full => 0,
            Method::Scan(scan, _) | Method::Int8(scan, _) => scan.size_bytes(),
            Method::Check(check) => check.scans.iter().map(|(_, scan, _)| scan.size_bytes()).sum(),
        }
    }

    /// Bytes that have to be read to find the best token, the few rows scored exactly not counted.
    pub(crate) fn bytes_per_pick(&self, table: &FloatTable) -> usize {
        match &self.method {
            Method::Full => table.size_bytes(),
            Method::Scan(scan, _) | Method::Int8(scan, _) => scan.scanned_bytes(),
            Method::Check(check) => {
                let scans = check.scans.iter().map(|(_, scan, _)| scan.scanned_bytes());
                table.size_bytes() + scans.sum::<usize>()
            }
        }
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, Arc<HeadCounts>)> {
        match &self.method {
            Method::Full | Method::Int8(..) => Vec::new(),
            Method::Scan(..) => vec![("scan", Arc::clone(&self.counts))],
            Method::Check(check) => {
                check.scans.iter().map(|(name, _, counts)| (*name, Arc::clone(counts))).collect()
            }
        }
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

impl Few {
    /// Scores only the allowed tokens and returns `true`, if they are few enough for this to be fastest.
    fn score(
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

impl Check {
    /// Compares the scans of some rows with their exact scores, which are in the rows of `exact` from `first` on.
    fn compare(
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
