//! The output head: logits of hidden states.

mod check;
mod counts;

use std::sync::Arc;

use wf_core::{Network, TokenId};

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::options::HeadMode;
use crate::scan::{
    Depth, MIN_TOKENS_PER_CANDIDATE, SCANNED_AT_ONCE, Scan, ScanContext, ScanScratch, TopQueries,
};
use crate::segment::{Allowed, Scoring, Segment, tokens_of};
pub(crate) use check::{Difference, difference};
pub use counts::{Count, HeadCounts};

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
    found: Vec<f32>,
    sorted: Vec<f32>,
}

impl Head {
    pub(crate) fn new(cx: &Compute, network: &Network, table: &FloatTable, mode: HeadMode) -> Self {
        let scratch = || ScanScratch::new(cx, network.vocab_len, network.hidden_len);
        let scan = |depth| Scan::new(cx, table, depth);
        let method = match mode {
            HeadMode::Auto if table.size_bytes() < MIN_SCANNED_BYTES => Method::Full,
            HeadMode::Full => Method::Full,
            HeadMode::Auto | HeadMode::Scan => Method::Scan(scan(Depth::Bytes), scratch()),
            HeadMode::Scan4 => Method::Scan(scan(Depth::Nibbles), scratch()),
            HeadMode::Int8 => Method::Int8(scan(Depth::Bytes), scratch()),
            HeadMode::Check => {
                let named = |name, depth| (name, scan(depth), Arc::default());
                Method::Check(Box::new(Check {
                    scans: [named("scan", Depth::Bytes), named("scan4", Depth::Nibbles)],
                    scratch: scratch(),
                    found: vec![0.0; SCANNED_AT_ONCE * network.vocab_len],
                    sorted: vec![0.0; network.vocab_len],
                }))
            }
        };
        let max = network.vocab_len / MIN_TOKENS_PER_CANDIDATE;
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

    /// Computes the logits of the `hidden` rows of segments with the same scoring.
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
        out: &mut [f32],
    ) -> Result<(), Difference> {
        let allowed = Allowed::new(segments);
        // With int8 scores, few tokens must score as they do among many.
        let by_table = !matches!(self.method, Method::Int8(..));
        if by_table && self.few.score(cx, table, hidden, allowed, out) {
            return Ok(());
        }
        let scoring = segments.iter().map(|segment| segment.scoring).max().unwrap_or_default();
        let scans = matches!((&self.method, scoring), (Method::Scan(..), Scoring::Top(_)));
        if by_table && !scans {
            table.scores(cx, hidden, out);
        }
        let out_parts = out.chunks_mut(SCANNED_AT_ONCE * table.rows());
        let parts = hidden.chunks(SCANNED_AT_ONCE * table.cols()).zip(out_parts);
        for (first, (hidden, out)) in (0..).step_by(SCANNED_AT_ONCE).zip(parts) {
            match (&mut self.method, scoring) {
                (Method::Int8(scan, scratch), _) => scan.approximate(cx, hidden, out, scratch),
                (Method::Scan(scan, scratch), Scoring::Top(k)) => {
                    let context = ScanContext { cx, table, counts: &self.counts };
                    let queries = TopQueries { hidden, k, allowed: allowed.skip(first) };
                    scan.top(context, queries, out, scratch);
                }
                (Method::Check(check), Scoring::Top(k)) => {
                    let checked = check.compare(cx, table, hidden, k, out);
                    checked.map_err(|difference| difference.shifted(first))?;
                }
                (Method::Full | Method::Scan(..) | Method::Check(_), _) => {}
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
        allowed: Allowed<'_>,
        out: &mut [f32],
    ) -> bool {
        let (rows, max) = (hidden.len() / table.cols(), self.scores.len());
        let count = |bits: &[u32]| bits.iter().map(|word| word.count_ones() as usize).sum();
        let counts = |row| allowed.row(row).map_or(max + 1, count);
        let mut left = max;
        for row in 0..rows {
            match left.checked_sub(counts(row)) {
                Some(less) => left = less,
                None => return false,
            }
        }
        let hidden = hidden.chunks_exact(table.cols());
        for (row, (x, out)) in hidden.zip(out.chunks_exact_mut(table.rows())).enumerate() {
            self.tokens.clear();
            self.tokens.extend(allowed.row(row).into_iter().flat_map(tokens_of));
            let scores = &mut self.scores[..self.tokens.len()];
            table.scores_of(cx, &self.tokens, x, scores);
            out.fill(f32::NEG_INFINITY);
            for (&token, &score) in self.tokens.iter().zip(scores.iter()) {
                out[token as usize] = score;
            }
        }
        true
    }
}

impl Check {
    /// Compares the scans of some rows with their exact scores.
    fn compare(
        &mut self,
        cx: &Compute,
        table: &FloatTable,
        hidden: &[f32],
        k: usize,
        exact: &[f32],
    ) -> Result<(), Difference> {
        for (name, scan, counts) in &self.scans {
            let found = &mut self.found[..exact.len()];
            // The full head scores all tokens, so the scans must too.
            let queries = TopQueries { hidden, k, allowed: Allowed::new(&[]) };
            scan.top(ScanContext { cx, table, counts }, queries, found, &mut self.scratch);
            let rows = found.chunks_exact(table.rows()).zip(exact.chunks_exact(table.rows()));
            for (row, (found, exact)) in rows.enumerate() {
                counts.checked.add(1);
                if let Some(found) = difference(name, k, found, exact, &mut self.sorted) {
                    return Err(found.shifted(row));
                }
            }
        }
        Ok(())
    }
}
