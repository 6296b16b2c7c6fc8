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
//! A scan of four-bit codes ([`nibbles`]) reads half as much, and its bound holds with near certainty. If the
//! scores of the candidates contradict it, the row is scanned again with all bits.

mod candidates;
mod draw;
mod first_depth;
mod found;
mod hidden;
mod masses;
mod nibbles;
mod plan;
mod quantize;
mod rounding;
mod row;

use wf_kernels::{
    Int8Matrix, PAIR, QuantBatch, QuantRow, RowBounds, ScoreBounds, Strip, int8_pair_dots,
    nibble_pair_dots,
};

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::head::HeadCounts;
use crate::logits::{Logits, TokenLogit};
use crate::row_query::RowQueries;
use candidates::Candidates;
use first_depth::FirstDepth;
use found::Found;
use hidden::{HiddenCodes, State};
use masses::Masses;
use nibbles::Nibbles;
use plan::RowPlan;
use row::RowScan;

/// Number of rows in a strip of a matrix of codes.
const STRIP: usize = 16;

/// Number of tokens in a word of a bit mask.
const WORD: usize = u32::BITS as usize;

/// Number of strips in a pair, which kernels multiply together.
const STRIPS_PER_PAIR: usize = PAIR / STRIP;

/// Maximum number of hidden states scanned at once, which bounds the size of the buffers.
pub(crate) const SCANNED_AT_ONCE: usize = 32;

/// Number of bits of the codes that are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Four bits, with a bound that holds with near certainty.
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

/// Hidden states and their queries.
#[derive(Clone, Copy)]
pub(crate) struct ScanQueries<'a> {
    pub(crate) hidden: &'a [f32],
    pub(crate) rows: RowQueries<'a>,
}

/// The table that a scan stands for, and where it runs.
#[derive(Clone, Copy)]
pub(crate) struct ScanContext<'a> {
    pub(crate) cx: &'a Compute,
    pub(crate) table: &'a FloatTable,
    pub(crate) counts: &'a HeadCounts,
}

/// Codes of a table.
pub(crate) struct Scan {
    vocab_len: usize,
    bytes: Int8Matrix,
    rows: TableBounds,
    nibbles: Option<Nibbles>,
    first_depth: FirstDepth,
    /// Upper bound of every row's |w|.
    largest_norm: f64,
}

/// Scales and error bounds of a table's codes.
struct TableBounds {
    strips: Vec<RowBounds>,
    /// The largest error and the largest norm of a row.
    largest: (f32, f32),
}

impl TableBounds {
    fn new(strips: Vec<RowBounds>) -> Self {
        let largest = |values: fn(&RowBounds) -> &[f32; STRIP]| {
            strips.iter().flat_map(values).copied().fold(0.0, f32::max)
        };
        Self { largest: (largest(|strip| &strip.error), largest(|strip| &strip.norm)), strips }
    }
}

pub(crate) struct ScanScratch {
    hidden: HiddenCodes,
    /// The bounds of each strip, for each state.
    strips: Vec<Bounds>,
    /// The estimates of each strip, for each state that is drawn with top-p.
    estimates: Vec<[f32; STRIP]>,
    /// The tokens to search among, for each state for which these are not all.
    searched: Vec<u32>,
    /// For each thread.
    search: Vec<(Candidates, Masses)>,
    /// For each state.
    outcomes: [Outcome; SCANNED_AT_ONCE],
}

/// Bounds of a token's score, or the largest bounds of a strip's scores.
#[derive(Clone, Copy)]
struct Bounds {
    estimate: f32,
    upper: f32,
    /// Of perturbed scores, if there is a draw.
    drawn_estimate: f32,
    drawn_upper: f32,
}

impl Bounds {
    const NONE: Self = Self {
        estimate: f32::NEG_INFINITY,
        upper: f32::NEG_INFINITY,
        drawn_estimate: f32::NEG_INFINITY,
        drawn_upper: f32::NEG_INFINITY,
    };
}

/// The result of a scan for one state.
#[derive(Clone, Copy)]
enum Outcome {
    /// The tokens that matter are scored, this many in all.
    Picked(usize),
    /// The bounds are too wide: the table has to be read.
    Whole,
    /// The bounds of nibbles are too wide, or not to be trusted: all bits have to be scanned.
    Widen,
}

impl ScanScratch {
    pub(crate) fn new(cx: &Compute, vocab_len: usize, hidden_len: usize) -> Self {
        let strips = SCANNED_AT_ONCE * vocab_len.div_ceil(STRIP);
        Self {
            hidden: HiddenCodes::new(SCANNED_AT_ONCE, hidden_len),
            strips: vec![Bounds::NONE; strips],
            estimates: vec![[0.0; STRIP]; strips],
            searched: vec![0; SCANNED_AT_ONCE * vocab_len.div_ceil(WORD)],
            search: (0..cx.threads())
                .map(|_| (Candidates::new(vocab_len), Masses::new(vocab_len)))
                .collect(),
            outcomes: [Outcome::Picked(0); SCANNED_AT_ONCE],
        }
    }
}

impl Scan {
    /// Quantizes `table` for scans of `depth` (and of all bits).
    pub(crate) fn new(cx: &Compute, table: &FloatTable, depth: Depth) -> Self {
        let rows = TableBounds::new(quantize::bounds(cx, table));
        let norms = rows.strips.iter().flat_map(|strip| strip.norm.iter().zip(&strip.error));
        let norms = norms.map(|(&norm, &error)| f64::from(norm) + f64::from(error));
        let largest_norm = norms.fold(0.0, f64::max);
        let nibbles = (depth == Depth::Nibbles).then(|| Nibbles::new(cx, table));
        let bytes = quantize::bytes(cx, table);
        let first_depth = FirstDepth::default();
        Self { vocab_len: table.rows(), bytes, rows, nibbles, first_depth, largest_norm }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let nibbles = self.nibbles.as_ref().map_or(0, Nibbles::size_bytes);
        self.bytes.bytes_len() + size_of_val(&self.rows.strips[..]) + nibbles
    }

    /// Number of bytes that a scan for one token reads, without the rows of candidates.
    pub(crate) fn scanned_bytes(&self) -> usize {
        match &self.nibbles {
            Some(nibbles) => nibbles.size_bytes(),
            None => self.size_bytes(),
        }
    }

    /// Returns the depth of the first scan.
    fn depth(&self, has_top_p: bool) -> Depth {
        match self.nibbles {
            Some(_) if !has_top_p || self.first_depth.is_nibbles() => Depth::Nibbles,
            _ => Depth::Bytes,
        }
    }

    /// Scores the tokens that the rows need, and writes them to the rows of `out` from `first` on. Takes up to
    /// [`SCANNED_AT_ONCE`] rows.
    pub(crate) fn score(
        &self,
        context: ScanContext<'_>,
        queries: ScanQueries<'_>,
        (out, first): (&mut Logits, usize),
        s: &mut ScanScratch,
    ) {
        let cols = context.table.cols();
        let rows = queries.hidden.len() / cols;
        let has_top_p = (0..rows).any(|row| queries.rows.row(row).has_top_p());
        let depth = self.depth(has_top_p);
        self.scan(context, queries, depth, out.some_mut(first, rows), s);
        let is_wide = |outcome: &Outcome| matches!(outcome, Outcome::Widen);
        let widened = s.outcomes[..rows].iter().filter(|outcome| is_wide(outcome)).count();
        context.counts.widened.add(widened);
        if has_top_p && depth == Depth::Nibbles {
            self.first_depth.record(widened == 0);
        }
        if widened > 0 {
            self.scan(context, queries, Depth::Bytes, out.some_mut(first, rows), s);
        }
        for (row, hidden) in queries.hidden.chunks_exact(cols).enumerate() {
            if let Outcome::Picked(tokens) = s.outcomes[row] {
                context.counts.picks.add(1);
                context.counts.candidates.add(tokens);
            } else {
                context.counts.whole.add(1);
                context.table.scores(context.cx, hidden, out.rows_mut(first + row, 1));
            }
        }
    }

    /// Scans all rows, and scores the tokens that each needs.
    fn scan(
        &self,
        context: ScanContext<'_>,
        queries: ScanQueries<'_>,
        depth: Depth,
        out: &mut [Vec<TokenLogit>],
        s: &mut ScanScratch,
    ) {
        let (cx, cols) = (context.cx, context.table.cols());
        let strips = self.vocab_len.div_ceil(STRIP);
        match &self.nibbles {
            Some(nibbles) if depth == Depth::Nibbles => {
                s.hidden.quantize_for(cx, queries.hidden, nibbles);
            }
            _ => s.hidden.quantize(cx, queries.hidden),
        }
        let codes = &s.hidden;
        let states = codes.states().len();
        let words = self.vocab_len.div_ceil(WORD);
        let rows: [Option<RowPlan<'_>>; SCANNED_AT_ONCE] = {
            let mut masks = s.searched.chunks_exact_mut(words);
            std::array::from_fn(|row| {
                let mask = masks.next().expect("a mask for each state");
                (row < states).then(|| RowPlan::new(queries.rows.row(row), mask))
            })
        };
        let plan = |row: usize| rows[row].as_ref().expect("a plan for each state");
        let (bounds, estimates) =
            (&mut s.strips[..states * strips], &mut s.estimates[..states * strips]);
        let shape = (states, STRIPS_PER_PAIR);
        cx.pool.tile_pairs(
            (bounds, estimates),
            strips,
            shape,
            |_, pair, mut out, mut estimates| {
                self.estimate(cx, depth, pair, codes, |row, i, bounds| {
                    let strip = STRIPS_PER_PAIR * pair + i;
                    let estimates = &mut estimates.row(row)[i];
                    out.row(row)[i] = plan(row).bounds(cx, strip, bounds, estimates);
                });
            },
        );
        let (bounds, estimates) = (&*bounds, &*estimates);
        let outcomes = (&mut s.outcomes[..states], 1);
        cx.pool.row_pairs_with((out, 1), outcomes, &mut s.search, |row, out, outcome, search| {
            let plan = plan(row);
            let x = &queries.hidden[row * cols..][..cols];
            let row_scan = RowScan {
                scan: self,
                context,
                depth,
                codes,
                row,
                x,
                searched: plan.searched,
                noise: plan.noise,
            };
            let of_row = row * strips..(row + 1) * strips;
            let found = Found {
                row: row_scan,
                strips: &bounds[of_row.clone()],
                estimates: &estimates[of_row],
            };
            outcome[0] = found.score(&plan.query, search, &mut out[0]);
        });
    }

    /// Writes the approximate score of every token, by the codes alone.
    pub(crate) fn approximate(
        &self,
        cx: &Compute,
        hidden: &[f32],
        out: &mut [f32],
        s: &mut ScanScratch,
    ) {
        s.hidden.quantize(cx, hidden);
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
        let strips =
            STRIPS_PER_PAIR * pair..self.rows.strips.len().min(STRIPS_PER_PAIR * (pair + 1));
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
        match &self.nibbles {
            Some(nibbles) if depth == Depth::Nibbles => {
                nibble_pair_dots(cx.kernel, &nibbles.codes, pair, codes, out);
            }
            _ => int8_pair_dots(cx.kernel, &self.bytes, pair, codes, out),
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
        match &self.nibbles {
            Some(nibbles) if depth == Depth::Nibbles => {
                cx.kernel.nibble_dots(&nibbles.codes, strip, codes, out);
            }
            _ => cx.kernel.int8_dots(&self.bytes, strip, codes, out),
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

    /// Returns the bounds of the codes that a scan of `depth` reads.
    fn rows_at(&self, depth: Depth) -> &TableBounds {
        match &self.nibbles {
            Some(nibbles) if depth == Depth::Nibbles => &nibbles.rows,
            _ => &self.rows,
        }
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
        let rows = &self.rows_at(depth).strips[strip];
        let mut bounds = ScoreBounds::EMPTY;
        cx.kernel.bound_scores(sums, rows, &state.bounds, &mut bounds);
        let width = self.vocab_len - STRIP * strip;
        if width < STRIP {
            bounds.truncate(width);
        }
        bounds
    }
}

#[cfg(test)]
mod tests;
