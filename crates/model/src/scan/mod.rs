//! Finds the best tokens without reading the whole output head.
//!
//! The head is the largest table of a small model: for BitNet-2B in bf16 it is larger than the trits of
//! all layers. Picking one of the `k` best tokens needs only their scores, so a copy of the table with
//! fewer bits is scanned, and only rows that could be among the best are scored from the table itself.
//!
//! The int8 copy is exact, by proof. With `w` a row and `x` a hidden state, and `w'`, `x'` their
//! quantised selves, the scan computes `w'·x'` in integers, and by Cauchy and Schwarz
//!
//! ```text
//! |w·x − w'·x'|  ≤  |w − w'| |x|  +  |w'| |x − x'|
//! ```
//!
//! The norms of each row are computed once, those of `x` each time; the rounding error of the score
//! from the table is bounded likewise. The `k` rows with the best estimates are scored first. The worst
//! of these scores is a floor: a row whose upper bound is below it is not among the `k` best, not even
//! by a tie.
//!
//! The scan of four-bit codes ([`Depth::Nibbles`]) reads half as much, but the proven bound would
//! exclude nothing. It uses a statistical bound instead: if rounding errors are independent of `x` and
//! of each other, their sum exceeds eight standard deviations once in 10^14 scores, so the bound is the
//! one above times `8 / √columns`. If the scores of the candidates contradict this, the row is scanned
//! again with all bits.

mod candidates;
mod hidden;
mod quantize;

use wf_kernels::{
    Int8Matrix, NibbleMatrix, PAIR, QuantBatch, QuantRow, RowBounds, ScoreBounds, Strip,
    int8_pair_dots,
};

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::head::HeadCounts;
use crate::segment::Allowed;
use candidates::{Candidates, Source};
use hidden::{HiddenCodes, State};
use quantize::Plane;

/// Number of rows in a strip of a matrix of codes.
const STRIP: usize = 16;

/// Number of strips in a pair, which kernels multiply together.
const STRIPS_PER_PAIR: usize = PAIR / STRIP;

/// Maximum number of hidden states scanned at once, which bounds the size of the buffers.
pub(crate) const SCANNED_AT_ONCE: usize = 32;

/// If more than one in this many tokens is a candidate, the whole table is read: in order, that is as
/// fast as reading every eighth row.
pub(crate) const MIN_TOKENS_PER_CANDIDATE: usize = 8;

/// Largest error of a candidate, relative to the statistical bound (five standard deviations), at which
/// the bound is trusted.
const MAX_TRUSTED_ERROR: f32 = 5.0 / 8.0;

/// Product of norms below which scores are finite, in any order of summation.
const LARGEST_SCORE: f64 = 1e37;

/// Number of bits of the codes that are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The upper four bits, with a statistical bound.
    Nibbles,
    /// All eight bits, with sixteen of the hidden state and a proven bound.
    Bytes,
}

impl Depth {
    /// Returns the number of rows of codes for each hidden state.
    fn rows_of_codes(self) -> usize {
        match self {
            Self::Bytes => 2,
            Self::Nibbles => 1,
        }
    }
}

/// Queries for the `k` best allowed tokens of each row of `hidden`.
#[derive(Clone, Copy)]
pub(crate) struct TopQueries<'a> {
    pub(crate) hidden: &'a [f32],
    pub(crate) k: usize,
    pub(crate) allowed: Allowed<'a>,
}

/// The table that a scan stands for, and where it runs.
#[derive(Clone, Copy)]
pub(crate) struct ScanContext<'a> {
    pub(crate) cx: &'a Compute,
    pub(crate) table: &'a FloatTable,
    pub(crate) counts: &'a HeadCounts,
}

/// Int8 codes of a table.
pub(crate) struct Scan {
    codes: Codes,
    vocab_len: usize,
    /// Scales and error bounds of the codes, strip by strip.
    rows: Vec<RowBounds>,
    /// Upper bound of every row's |w|.
    largest_norm: f64,
}

enum Codes {
    Bytes(Int8Matrix),
    /// Code + 128 = 16 `upper` + `lower`, with the bounds of the upper codes alone.
    Planes {
        upper: NibbleMatrix,
        lower: NibbleMatrix,
        upper_rows: Vec<RowBounds>,
    },
}

pub(crate) struct ScanScratch {
    hidden: HiddenCodes,
    /// The best of each strip, for each state.
    best: Vec<StripBest>,
    /// For each thread.
    candidates: Vec<Candidates>,
    /// For each state.
    outcomes: [Outcome; SCANNED_AT_ONCE],
}

/// The largest estimate and the largest upper bound of a strip's scores.
#[derive(Clone, Copy)]
struct StripBest {
    estimate: f32,
    upper: f32,
}

/// The result of a scan for one state.
#[derive(Clone, Copy)]
enum Outcome {
    /// The candidates are scored.
    Picked,
    /// The bounds are too wide: the table has to be read.
    Whole,
    /// The statistical bound is not to be trusted: all bits have to be scanned.
    Widen,
}

impl ScanScratch {
    pub(crate) fn new(cx: &Compute, vocab_len: usize, hidden_len: usize) -> Self {
        let best = StripBest { estimate: f32::NEG_INFINITY, upper: f32::NEG_INFINITY };
        Self {
            hidden: HiddenCodes::new(SCANNED_AT_ONCE, hidden_len),
            best: vec![best; SCANNED_AT_ONCE * vocab_len.div_ceil(STRIP)],
            candidates: (0..cx.threads()).map(|_| Candidates::new(vocab_len)).collect(),
            outcomes: [Outcome::Picked; SCANNED_AT_ONCE],
        }
    }
}

impl Scan {
    /// Quantizes `table` for scans of `depth` (and of all bits).
    pub(crate) fn new(cx: &Compute, table: &FloatTable, depth: Depth) -> Self {
        let rows = quantize::bounds(cx, table);
        let norms = rows.iter().flat_map(|strip| strip.norm.iter().zip(&strip.error));
        let norms = norms.map(|(&norm, &error)| f64::from(norm) + f64::from(error));
        let largest_norm = norms.fold(0.0, f64::max);
        let codes = match depth {
            Depth::Bytes => Codes::Bytes(quantize::bytes(cx, table)),
            Depth::Nibbles => Codes::Planes {
                upper: quantize::nibbles(cx, table, Plane::Upper),
                lower: quantize::nibbles(cx, table, Plane::Lower),
                upper_rows: quantize::upper_bounds(cx, table),
            },
        };
        Self { codes, vocab_len: table.rows(), rows, largest_norm }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let codes = match &self.codes {
            Codes::Bytes(codes) => codes.bytes_len(),
            Codes::Planes { upper, lower, upper_rows } => {
                upper.bytes_len() + lower.bytes_len() + size_of_val(&upper_rows[..])
            }
        };
        codes + size_of_val(&self.rows[..])
    }

    /// Number of bytes that a scan reads, without the rows of candidates.
    pub(crate) fn scanned_bytes(&self) -> usize {
        let codes = match &self.codes {
            Codes::Bytes(codes) => codes.bytes_len(),
            Codes::Planes { upper, .. } => upper.bytes_len(),
        };
        codes + size_of_val(&self.rows[..])
    }

    /// Writes to `out` the exact scores of the tokens that could be among the best, and −∞ for all
    /// others. Takes up to [`SCANNED_AT_ONCE`] rows.
    pub(crate) fn top(
        &self,
        context: ScanContext<'_>,
        queries: TopQueries<'_>,
        out: &mut [f32],
        s: &mut ScanScratch,
    ) {
        let depth = match self.codes {
            Codes::Bytes(_) => Depth::Bytes,
            Codes::Planes { .. } => Depth::Nibbles,
        };
        self.scan(context, queries, depth, out, s);
        let (cols, vocab_len) = (context.table.cols(), self.vocab_len);
        let outcomes = s.outcomes;
        for (row, hidden) in queries.hidden.chunks_exact(cols).enumerate() {
            let mut outcome = outcomes[row];
            let out = &mut out[row * vocab_len..][..vocab_len];
            if let Outcome::Widen = outcome {
                // Alone, so that a row never depends on its neighbours.
                let alone = TopQueries { hidden, allowed: queries.allowed.skip(row), ..queries };
                context.counts.widened.add(1);
                self.scan(context, alone, Depth::Bytes, out, s);
                outcome = s.outcomes[0];
            }
            if let Outcome::Whole = outcome {
                context.counts.whole.add(1);
                context.table.scores(context.cx, hidden, out);
            }
        }
    }

    /// Scans all rows, and scores the candidates of each.
    fn scan(
        &self,
        context: ScanContext<'_>,
        queries: TopQueries<'_>,
        depth: Depth,
        out: &mut [f32],
        s: &mut ScanScratch,
    ) {
        let (cx, TopQueries { hidden, k, allowed }) = (context.cx, queries);
        let (cols, vocab_len) = (context.table.cols(), self.vocab_len);
        let strips = vocab_len.div_ceil(STRIP);
        s.hidden.quantize(cx, hidden, depth);
        let codes = &s.hidden;
        let best = &mut s.best[..codes.states().len() * strips];
        cx.pool.strips(best, strips, STRIPS_PER_PAIR, |pair, mut out| {
            self.estimate(cx, depth, pair, codes, |row, i, mut bounds| {
                if let Some(bits) = allowed.row(row) {
                    bounds.keep(bits_of_strip(bits, STRIPS_PER_PAIR * pair + i));
                }
                let (estimate, upper) = (bounds.best_estimate, bounds.best_upper);
                out.row(row)[i] = StripBest { estimate, upper };
            });
        });
        let best = &*best;
        let outcomes = (&mut s.outcomes[..codes.states().len()], 1);
        let rows = (out, vocab_len);
        cx.pool.row_pairs_with(
            rows,
            outcomes,
            &mut s.candidates,
            |row, out, outcome, candidates| {
                let query = RowQuery { scan: self, context, depth, codes, row, k, allowed };
                let x = &hidden[row * cols..][..cols];
                outcome[0] = query.choose(x, &best[row * strips..][..strips], candidates, out);
            },
        );
    }

    /// Writes the approximate score of every token, by the codes alone.
    pub(crate) fn approximate(
        &self,
        cx: &Compute,
        hidden: &[f32],
        out: &mut [f32],
        s: &mut ScanScratch,
    ) {
        s.hidden.quantize(cx, hidden, Depth::Bytes);
        cx.pool.strips(out, self.vocab_len, PAIR, |pair, mut out| {
            self.estimate(cx, Depth::Bytes, pair, &s.hidden, |row, i, bounds| {
                let out = out.row(row).chunks_mut(STRIP).nth(i).expect("a strip of the pair");
                out.copy_from_slice(&bounds.estimate[..out.len()]);
            });
        });
    }

    /// Calls `each(row, i, bounds)` for every hidden state and each strip `i` of a pair with the bounds of
    /// the strip's scores.
    fn estimate(
        &self,
        cx: &Compute,
        depth: Depth,
        pair: usize,
        hidden: &HiddenCodes,
        each: impl FnMut(usize, usize, ScoreBounds),
    ) {
        // Most steps have one state: a buffer for more would be cleared in vain.
        match hidden.states().len() {
            1 => self.estimate_in::<2>(cx, depth, pair, hidden, each),
            _ => self.estimate_in::<{ 2 * SCANNED_AT_ONCE }>(cx, depth, pair, hidden, each),
        }
    }

    /// [`estimate`](Self::estimate) with a buffer for the products of `CODES` rows of codes.
    fn estimate_in<const CODES: usize>(
        &self,
        cx: &Compute,
        depth: Depth,
        pair: usize,
        hidden: &HiddenCodes,
        mut each: impl FnMut(usize, usize, ScoreBounds),
    ) {
        let codes = hidden.codes(depth);
        let strips = STRIPS_PER_PAIR * pair..self.rows.len().min(STRIPS_PER_PAIR * (pair + 1));
        let width = self.vocab_len.min(PAIR * (pair + 1)) - PAIR * pair;
        let mut sums = [[[0; STRIP]; STRIPS_PER_PAIR]; CODES];
        let sums = &mut sums[..codes.rows().len()];
        let flat = sums.as_flattened_mut().as_flattened_mut();
        self.products(cx, depth, pair, codes, &mut Strip::new(flat, PAIR, width, 0));
        let sums = sums.chunks_exact(depth.rows_of_codes());
        for (row, (state, sums)) in hidden.states().iter().zip(sums).enumerate() {
            for (i, strip) in strips.clone().enumerate() {
                let fine = sums.get(1).map_or(&[0; STRIP], |fine| &fine[i]);
                each(row, i, self.bounds(cx, depth, strip, state, [&sums[0][i], fine]));
            }
        }
    }

    /// Computes the products of the rows of a pair of strips with every row of `codes`.
    fn products(
        &self,
        cx: &Compute,
        depth: Depth,
        pair: usize,
        codes: &QuantBatch,
        out: &mut Strip<'_, i32>,
    ) {
        if let Codes::Bytes(bytes) = &self.codes {
            return int8_pair_dots(cx.kernel, bytes, pair, codes, out);
        }
        for i in 0..out.width().div_ceil(STRIP) {
            let width = STRIP.min(out.width() - STRIP * i);
            let out = &mut out.columns(STRIP * i, width);
            self.strip_products(cx, depth, STRIPS_PER_PAIR * pair + i, codes.rows(), out);
        }
    }

    /// Computes the products of the rows of a strip with every row of `codes`.
    fn strip_products(
        &self,
        cx: &Compute,
        depth: Depth,
        strip: usize,
        codes: &[QuantRow],
        out: &mut Strip<'_, i32>,
    ) {
        match &self.codes {
            Codes::Bytes(bytes) => cx.kernel.int8_dots(bytes, strip, codes, out),
            Codes::Planes { upper, .. } if depth == Depth::Nibbles => {
                cx.kernel.nibble_dots(upper, strip, codes, out);
            }
            Codes::Planes { upper, lower, .. } => {
                cx.kernel.nibble_dots(upper, strip, codes, out);
                for (row, codes) in codes.iter().enumerate() {
                    let mut of_lower = [0; STRIP];
                    let sums = &mut Strip::new(&mut of_lower, STRIP, out.width(), 0);
                    cx.kernel.nibble_dots(lower, strip, std::slice::from_ref(codes), sums);
                    join_planes(out.row(row), &of_lower, codes.sum());
                }
            }
        }
    }

    /// Returns the bounds of a strip's scores for one hidden state.
    fn bounds_of(
        &self,
        cx: &Compute,
        depth: Depth,
        strip: usize,
        hidden: &HiddenCodes,
        row: usize,
    ) -> ScoreBounds {
        let width = self.vocab_len.min(STRIP * (strip + 1)) - STRIP * strip;
        let rows = depth.rows_of_codes();
        let codes = &hidden.codes(depth).rows()[row * rows..][..rows];
        let mut sums = [[0; STRIP]; 2];
        let flat = sums[..rows].as_flattened_mut();
        self.strip_products(cx, depth, strip, codes, &mut Strip::new(flat, STRIP, width, 0));
        self.bounds(cx, depth, strip, &hidden.states()[row], sums.each_ref())
    }

    /// Returns the bounds of a strip's scores from the products of its codes.
    fn bounds(
        &self,
        cx: &Compute,
        depth: Depth,
        strip: usize,
        state: &State,
        sums: [&[i32; STRIP]; 2],
    ) -> ScoreBounds {
        let (rows, x) = match (&self.codes, depth) {
            (Codes::Planes { upper_rows, .. }, Depth::Nibbles) => (upper_rows, &state.by_upper),
            _ => (&self.rows, &state.by_all),
        };
        let mut bounds = ScoreBounds::EMPTY;
        cx.kernel.bound_scores(sums, &rows[strip], x, &mut bounds);
        let width = self.vocab_len - STRIP * strip;
        if width < STRIP {
            bounds.truncate(width);
        }
        bounds
    }
}

/// The search for the best tokens of one hidden state, after the scan.
#[derive(Clone, Copy)]
struct RowQuery<'a> {
    scan: &'a Scan,
    context: ScanContext<'a>,
    depth: Depth,
    codes: &'a HiddenCodes,
    row: usize,
    k: usize,
    allowed: Allowed<'a>,
}

impl RowQuery<'_> {
    /// Scores the candidates among all tokens, given the best of each strip.
    fn choose(
        self,
        x: &[f32],
        best: &[StripBest],
        candidates: &mut Candidates,
        out: &mut [f32],
    ) -> Outcome {
        let ScanContext { cx, table, counts } = self.context;
        let max = self.scan.vocab_len / MIN_TOKENS_PER_CANDIDATE;
        let finite = self.scan.largest_norm * self.codes.states()[self.row].norm < LARGEST_SCORE;
        if !finite || self.k > max {
            return Outcome::Whole;
        }
        let mask = self.allowed.row(self.row);
        let bounds = |strips: &[u32], out: &mut [ScoreBounds]| {
            cx.pool.rows(out, 1, |i, out| {
                let strip = strips[i] as usize;
                out[0] = self.scan.bounds_of(cx, self.depth, strip, self.codes, self.row);
                if let Some(bits) = mask {
                    out[0].keep(bits_of_strip(bits, strip));
                }
            });
        };
        let exact = |tokens: &[u32], out: &mut [f32]| table.scores_of(cx, tokens, x, out);
        let chosen = candidates.choose(best, self.k, max, &Source { bounds, exact }, out);
        let is_trusted = |error: f32| self.depth == Depth::Bytes || error <= MAX_TRUSTED_ERROR;
        match chosen.filter(|chosen| is_trusted(chosen.max_error)) {
            Some(chosen) => {
                counts.picks.add(1);
                counts.candidates.add(chosen.tokens);
                Outcome::Picked
            }
            None if self.depth == Depth::Nibbles => Outcome::Widen,
            None => Outcome::Whole,
        }
    }
}

/// Returns the bits of the tokens of a strip.
fn bits_of_strip(bits: &[u32], strip: usize) -> u16 {
    (bits[strip / 2] >> (STRIP * (strip % 2))) as u16
}

/// Combines the products with both planes into products with the codes. Intermediate values may
/// overflow 32 bits, but the results fit.
fn join_planes(upper: &mut [i32], lower: &[i32], sum_of_codes: i32) {
    let surplus = sum_of_codes.wrapping_mul(128);
    for (upper, lower) in upper.iter_mut().zip(lower) {
        *upper = upper.wrapping_mul(16).wrapping_add(*lower).wrapping_sub(surplus);
    }
}

#[cfg(test)]
mod tests;
