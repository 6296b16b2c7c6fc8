//! The output head: hidden states become scores.

mod check;
mod counts;
mod mode;

use std::sync::Arc;

use wf_formats::ModelConfig;

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::scan::{Asked, Depth, SCANNED_AT_ONCE, Scan, ScanScratch, WORTH_CHOOSING};
use crate::segment::{Allowed, Scoring, Segment, TokenId, tokens_of};
pub(crate) use check::{Difference, difference};
pub use counts::HeadCounts;
pub use mode::{HeadMode, UnknownHeadMode};

/// Tables below this many bytes are read from a cache anyway.
const WORTH_SCANNING: usize = 32 << 20;

/// Scores rows of hidden state.
pub(crate) struct Head {
    way: Way,
    counts: Arc<HeadCounts>,
    few: Few,
}

/// Room to score few tokens.
struct Few {
    tokens: Vec<TokenId>,
    scores: Vec<f32>,
}

/// How it does so.
enum Way {
    Full,
    /// The best tokens by a scan, all of them by the table.
    Scan(Scan, ScanScratch),
    /// All by the codes.
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
    pub(crate) fn new(
        cx: &Compute,
        config: &ModelConfig,
        table: &FloatTable,
        mode: HeadMode,
    ) -> Self {
        let scratch = || ScanScratch::new(config.vocab_len, config.hidden_len);
        let scan = |depth| Scan::new(cx, table, depth);
        let way = match mode {
            HeadMode::Auto if table.size_bytes() < WORTH_SCANNING => Way::Full,
            HeadMode::Full => Way::Full,
            HeadMode::Auto | HeadMode::Scan => Way::Scan(scan(Depth::Bytes), scratch()),
            HeadMode::Scan4 => Way::Scan(scan(Depth::Nibbles), scratch()),
            HeadMode::Int8 => Way::Int8(scan(Depth::Bytes), scratch()),
            HeadMode::Check => {
                let named = |name, depth| (name, scan(depth), Arc::default());
                Way::Check(Box::new(Check {
                    scans: [named("scan", Depth::Bytes), named("scan4", Depth::Nibbles)],
                    scratch: scratch(),
                    found: vec![0.0; SCANNED_AT_ONCE * config.vocab_len],
                    sorted: vec![0.0; config.vocab_len],
                }))
            }
        };
        let most = config.vocab_len / WORTH_CHOOSING;
        let few = Few { tokens: Vec::with_capacity(most), scores: vec![0.0; most] };
        Self { way, counts: Arc::default(), few }
    }

    /// Bytes held in memory beside the table.
    pub(crate) fn size_bytes(&self) -> usize {
        match &self.way {
            Way::Full => 0,
            Way::Scan(scan, _) | Way::Int8(scan, _) => scan.size_bytes(),
            Way::Check(check) => check.scans.iter().map(|(_, scan, _)| scan.size_bytes()).sum(),
        }
    }

    /// Bytes that have to be read to find the best token, the few rows scored exactly not counted.
    pub(crate) fn bytes_per_pick(&self, table: &FloatTable) -> usize {
        match &self.way {
            Way::Full => table.size_bytes(),
            Way::Scan(scan, _) | Way::Int8(scan, _) => scan.scanned_bytes(),
            Way::Check(check) => {
                let scans = check.scans.iter().map(|(_, scan, _)| scan.scanned_bytes());
                table.size_bytes() + scans.sum::<usize>()
            }
        }
    }

    /// What it had to do so far: of all scans, or of each by name where they are compared.
    pub(crate) fn counts(&self) -> Vec<(&'static str, Arc<HeadCounts>)> {
        match &self.way {
            Way::Full | Way::Int8(..) => Vec::new(),
            Way::Scan(..) => vec![("scan", Arc::clone(&self.counts))],
            Way::Check(check) => {
                check.scans.iter().map(|(name, _, counts)| (*name, Arc::clone(counts))).collect()
            }
        }
    }

    /// Scores `hidden` rows, which segments ask for in the same way, into as many rows of `out`.
    ///
    /// # Errors
    ///
    /// Where scans are checked and one is wrong.
    pub(crate) fn score(
        &mut self,
        cx: &Compute,
        table: &FloatTable,
        (hidden, segments): (&[f32], &[Segment<'_>]),
        out: &mut [f32],
    ) -> Result<(), Difference> {
        let counts = &self.counts;
        let allowed = Allowed::new(segments);
        // All by the codes means all: few tokens score as they do among many.
        let by_table = !matches!(self.way, Way::Int8(..));
        if by_table && self.few.score(cx, table, (hidden, allowed), out) {
            return Ok(());
        }
        let scoring = segments.iter().map(|segment| segment.scoring).max().unwrap_or_default();
        let hidden_parts = hidden.chunks(SCANNED_AT_ONCE * table.cols());
        match (&mut self.way, scoring) {
            (Way::Int8(scan, scratch), _) => {
                let out = out.chunks_mut(SCANNED_AT_ONCE * table.rows());
                for (hidden, out) in hidden_parts.zip(out) {
                    scan.approximate(cx, hidden, out, scratch);
                }
            }
            (Way::Scan(scan, scratch), Scoring::Top(k)) => {
                let out = out.chunks_mut(SCANNED_AT_ONCE * table.rows());
                for (part, (hidden, out)) in hidden_parts.zip(out).enumerate() {
                    let room = (&mut *scratch, &**counts);
                    let asked = Asked { hidden, k, allowed: allowed.skip(part * SCANNED_AT_ONCE) };
                    scan.top(cx, table, asked, out, room);
                }
            }
            (Way::Check(check), Scoring::Top(k)) => {
                table.scores(cx, hidden, out);
                let out = out.chunks(SCANNED_AT_ONCE * table.rows());
                for (part, (hidden, out)) in hidden_parts.zip(out).enumerate() {
                    let first = part * SCANNED_AT_ONCE;
                    check.compare(cx, table, (hidden, k, first), out)?;
                }
            }
            (Way::Full | Way::Scan(..) | Way::Check(_), _) => {
                table.scores(cx, hidden, out);
            }
        }
        Ok(())
    }
}

impl Few {
    /// Scores only the tokens that are allowed, if they are so few that this is the shortest way.
    fn score(
        &mut self,
        cx: &Compute,
        table: &FloatTable,
        (hidden, allowed): (&[f32], Allowed<'_>),
        out: &mut [f32],
    ) -> bool {
        let (rows, most) = (hidden.len() / table.cols(), self.scores.len());
        let count = |bits: &[u32]| bits.iter().map(|word| word.count_ones() as usize).sum();
        let counts = |row| allowed.row(row).map_or(most + 1, count);
        let mut left = most;
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
    /// Scans rows whose scores are known, the first of which is row `first`.
    fn compare(
        &mut self,
        cx: &Compute,
        table: &FloatTable,
        (hidden, k, first): (&[f32], usize, usize),
        exact: &[f32],
    ) -> Result<(), Difference> {
        for (name, scan, counts) in &self.scans {
            let found = &mut self.found[..exact.len()];
            let room = (&mut self.scratch, &**counts);
            // The full head has no use for what is allowed, so neither is to have it here.
            let asked = Asked { hidden, k, allowed: Allowed::new(&[]) };
            scan.top(cx, table, asked, found, room);
            let rows = found.chunks_exact(table.rows()).zip(exact.chunks_exact(table.rows()));
            for (row, (found, exact)) in rows.enumerate() {
                counts.add_checked();
                match difference((name, first + row, k), found, exact, &mut self.sorted) {
                    None => {}
                    Some(difference) => return Err(difference),
                }
            }
        }
        Ok(())
    }
}
