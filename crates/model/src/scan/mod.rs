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

use wf_kernels::{Int8Matrix, NibbleMatrix, QuantRow, RowBounds, ScoreBounds, Strip};

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::head::HeadCounts;
use crate::segment::Allowed;
use candidates::Candidates;
use hidden::HiddenCodes;
use quantize::Plane;

/// Number of rows in a strip of a matrix of codes.
const STRIP: usize = 16;

/// Maximum number of hidden states scanned at once, which bounds the size of the buffers.
pub(crate) const SCANNED_AT_ONCE: usize = 16;

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
    estimates: Vec<ScoreBounds>,
    candidates: Candidates,
    /// Rows to scan again with all bits.
    widen: Vec<usize>,
}

impl ScanScratch {
    pub(crate) fn new(vocab_len: usize, hidden_len: usize) -> Self {
        let strips = vocab_len.div_ceil(STRIP);
        Self {
            hidden: HiddenCodes::new(SCANNED_AT_ONCE, hidden_len),
            estimates: vec![ScoreBounds::EMPTY; SCANNED_AT_ONCE * strips],
            candidates: Candidates::new(vocab_len),
            widen: Vec::with_capacity(SCANNED_AT_ONCE),
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
        s.widen.clear();
        self.scan(context, queries, depth, out, s);
        let (cols, vocab_len) = (context.table.cols(), context.table.rows());
        while let Some(row) = s.widen.pop() {
            // Alone, so that a row never depends on its neighbours.
            let hidden = &queries.hidden[row * cols..][..cols];
            let alone = TopQueries { hidden, allowed: queries.allowed.skip(row), ..queries };
            let out = &mut out[row * vocab_len..][..vocab_len];
            context.counts.widened.add(1);
            self.scan(context, alone, Depth::Bytes, out, s);
        }
    }

    fn scan(
        &self,
        context: ScanContext<'_>,
        queries: TopQueries<'_>,
        depth: Depth,
        out: &mut [f32],
        s: &mut ScanScratch,
    ) {
        let ScanContext { cx, table, counts } = context;
        let TopQueries { hidden, k, allowed } = queries;
        let (cols, vocab_len) = (table.cols(), table.rows());
        s.hidden.quantize(cx, hidden, cols);
        let strips = vocab_len.div_ceil(STRIP);
        let estimates = &mut s.estimates[..hidden.len() / cols * strips];
        let states = &s.hidden.states[..];
        cx.pool.strips(estimates, strips, 1, |strip, mut out| {
            self.estimate(cx, depth, strip, &s.hidden, |row, estimate| out.row(row)[0] = *estimate);
        });
        let hidden = hidden.chunks_exact(cols).zip(out.chunks_exact_mut(vocab_len));
        for (row, (x, out)) in hidden.enumerate() {
            let estimates = &mut s.estimates[row * strips..][..strips];
            if let Some(bits) = allowed.row(row) {
                keep(bits, estimates);
            }
            let mut exact = |tokens: &[u32], scores: &mut [f32]| {
                table.scores_of(cx, tokens, x, scores);
            };
            let max = vocab_len / MIN_TOKENS_PER_CANDIDATE;
            let finite = self.largest_norm * states[row].norm < LARGEST_SCORE;
            if !finite || k > max {
                counts.whole.add(1);
                table.scores(cx, x, out);
                continue;
            }
            match s.candidates.choose(estimates, k, max, out, &mut exact) {
                Some(chosen)
                    if depth != Depth::Nibbles || chosen.max_error <= MAX_TRUSTED_ERROR =>
                {
                    counts.picks.add(1);
                    counts.candidates.add(chosen.tokens);
                }
                _ if depth == Depth::Nibbles => s.widen.push(row),
                _ => {
                    counts.whole.add(1);
                    table.scores(cx, x, out);
                }
            }
        }
    }

    /// Writes the approximate score of every token, by the codes alone.
    pub(crate) fn approximate(
        &self,
        cx: &Compute,
        hidden: &[f32],
        out: &mut [f32],
        s: &mut ScanScratch,
    ) {
        let cols = s.hidden.cols;
        s.hidden.quantize(cx, hidden, cols);
        cx.pool.strips(out, self.vocab_len, STRIP, |strip, mut out| {
            self.estimate(cx, Depth::Bytes, strip, &s.hidden, |row, estimate| {
                let out = out.row(row);
                out.copy_from_slice(&estimate.estimate[..out.len()]);
            });
        });
    }

    /// Calls `each` for every hidden state with the bounds of a strip's scores.
    fn estimate(
        &self,
        cx: &Compute,
        depth: Depth,
        strip: usize,
        hidden: &HiddenCodes,
        each: impl FnMut(usize, &ScoreBounds),
    ) {
        // Most steps have one state: a buffer for more would be cleared in vain.
        match hidden.states.len() {
            1 => self.estimate_in::<2>(cx, depth, strip, hidden, each),
            _ => self.estimate_in::<{ 2 * SCANNED_AT_ONCE }>(cx, depth, strip, hidden, each),
        }
    }

    /// [`estimate`](Self::estimate) with a buffer for the products of `CODES` rows of codes.
    fn estimate_in<const CODES: usize>(
        &self,
        cx: &Compute,
        depth: Depth,
        strip: usize,
        hidden: &HiddenCodes,
        mut each: impl FnMut(usize, &ScoreBounds),
    ) {
        let states = &hidden.states[..];
        let codes = match depth {
            Depth::Bytes => hidden.codes(),
            Depth::Nibbles => &hidden.codes()[..states.len()],
        };
        let width = self.vocab_len.min(STRIP * (strip + 1)) - STRIP * strip;
        let mut sums = [[0; STRIP]; CODES];
        let rows = match (&self.codes, depth) {
            (Codes::Bytes(bytes), _) => {
                let y = &mut products(&mut sums[..codes.len()], width);
                cx.kernel.int8_dots(bytes, strip, codes, y);
                &self.rows
            }
            (Codes::Planes { upper, upper_rows, .. }, Depth::Nibbles) => {
                let y = &mut products(&mut sums[..codes.len()], width);
                cx.kernel.nibble_dots(upper, strip, codes, y);
                upper_rows
            }
            (Codes::Planes { upper, lower, .. }, Depth::Bytes) => {
                let mut lower_sums = [[0; STRIP]; CODES];
                let y = &mut products(&mut sums[..codes.len()], width);
                cx.kernel.nibble_dots(upper, strip, codes, y);
                let y = &mut products(&mut lower_sums[..codes.len()], width);
                cx.kernel.nibble_dots(lower, strip, codes, y);
                join_planes(&mut sums, &lower_sums, codes);
                &self.rows
            }
        };
        let (coarse, fine) = sums.split_at(states.len());
        let mut estimate = ScoreBounds::EMPTY;
        for (row, (coarse, state)) in coarse.iter().zip(states).enumerate() {
            let (fine, x) = match depth {
                Depth::Bytes => (&fine[row], &state.by_all),
                Depth::Nibbles => (&[0; STRIP], &state.by_upper),
            };
            cx.kernel.bound_scores([coarse, fine], &rows[strip], x, &mut estimate);
            if width < STRIP {
                estimate.truncate(width);
            }
            each(row, &estimate);
        }
    }
}

/// Clears the estimates of tokens that are not allowed.
fn keep(bits: &[u32], estimates: &mut [ScoreBounds]) {
    let halves = bits.iter().flat_map(|&word| [word as u16, (word >> STRIP) as u16]);
    estimates.iter_mut().zip(halves).for_each(|(estimate, bits)| estimate.keep(bits));
}

/// Returns a strip of products with `width` rows.
fn products(sums: &mut [[i32; STRIP]], width: usize) -> Strip<'_, i32> {
    Strip::new(sums.as_flattened_mut(), STRIP, width, 0)
}

/// Combines the products with both planes into products with the codes. Intermediate values may
/// overflow 32 bits, but the results fit.
fn join_planes(upper: &mut [[i32; STRIP]], lower: &[[i32; STRIP]], codes: &[QuantRow]) {
    for ((upper, lower), codes) in upper.iter_mut().zip(lower).zip(codes) {
        let surplus = codes.sum().wrapping_mul(128);
        for (upper, lower) in upper.iter_mut().zip(lower) {
            *upper = upper.wrapping_mul(16).wrapping_add(*lower).wrapping_sub(surplus);
        }
    }
}

#[cfg(test)]
mod tests;
