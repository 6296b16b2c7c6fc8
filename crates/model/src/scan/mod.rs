//! The best tokens without reading the whole output head.
//!
//! The head is the largest table of a small model: for BitNet-2B in bf16 it has more bytes than all
//! the layers' trits. A pick among the `k` best tokens needs only their scores, so a copy of the
//! table with fewer bits is scanned instead, and only rows that could be among them are scored from
//! the table itself.
//!
//! The int8 copy is exact, by proof. With `w` a row and `x` a hidden state, and `w'`, `x'` their
//! quantised selves, the scan computes `w'·x'` in integers, and by Cauchy and Schwarz
//!
//! ```text
//! |w·x − w'·x'|  ≤  |w − w'| |x|  +  |w'| |x − x'|
//! ```
//!
//! The norms of each row are computed once, those of `x` each time; the rounding of the score that
//! the table would give is bounded likewise. The `k` rows that look best are scored first. The worst
//! of these scores is a floor: a row whose upper bound lies below it is not among the `k` best, not
//! even by a tie.
//!
//! The scan of four-bit codes ([`Depth::Nibbles`]) reads half as much, but there the proof would
//! exclude nothing. It goes by a rule instead: rounding errors are independent of `x` and of each
//! other, so their sum is off by more than eight standard deviations once in 10^14 scores, and the
//! bound is the one above times `8 / √columns`. Where the scores of the candidates show that the
//! rule does not hold, the row is scanned again with all bits.

mod candidates;
mod guess;
mod hidden;
mod quantize;

use wf_kernels::{Int8Matrix, NibbleMatrix, QuantRow, RowBounds, ScoreBounds, Strip};

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::head::HeadCounts;
use crate::segment::Allowed;
use candidates::Candidates;
use guess::{STRIP, in_strips};
use hidden::HiddenCodes;
use quantize::{Plane, QuantizedRow};

/// Hidden states scanned at once: bounds the room for what is known of every token.
pub(crate) const SCANNED_AT_ONCE: usize = 16;

/// If more than this part of all tokens could be among the best, the whole table is read: in order,
/// that is as fast as every eighth row.
pub(crate) const WORTH_CHOOSING: usize = 8;

/// Where a scored candidate is further off than this part of what the rule for four-bit codes allows
/// (five standard deviations), the rule is not trusted.
const EXPECTED_PART: f32 = 5.0 / 8.0;

/// Scores stay finite below this product of norms, whatever the order of their sums.
const LARGEST_SCORE: f64 = 1e37;

/// How many bits of the codes are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The upper four: a rule says what could be among the best.
    Nibbles,
    /// All eight, with sixteen of the hidden state: a proof does.
    Bytes,
}

/// The best tokens that are asked for: `k` for each row of `hidden`, among those allowed.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) hidden: &'a [f32],
    pub(crate) k: usize,
    pub(crate) allowed: Allowed<'a>,
}

/// Int8 codes of a table.
pub(crate) struct Scan {
    codes: Codes,
    vocab_len: usize,
    /// What the codes are worth, strip by strip.
    rows: Vec<RowBounds>,
    /// At least every row's |w|.
    largest_norm: f64,
}

enum Codes {
    Bytes(Int8Matrix),
    /// Code + 128 = 16 `upper` + `lower`, and what the upper ones are worth by themselves.
    Planes {
        upper: NibbleMatrix,
        lower: NibbleMatrix,
        upper_rows: Vec<RowBounds>,
    },
}

/// Room for one scan.
pub(crate) struct ScanScratch {
    hidden: HiddenCodes,
    guesses: Vec<ScoreBounds>,
    candidates: Candidates,
    /// Rows that are to be scanned again with all bits.
    widen: Vec<usize>,
}

impl ScanScratch {
    pub(crate) fn new(vocab_len: usize, hidden_len: usize) -> Self {
        let strips = vocab_len.div_ceil(STRIP);
        Self {
            hidden: HiddenCodes::new(SCANNED_AT_ONCE, hidden_len),
            guesses: vec![ScoreBounds::NOTHING; SCANNED_AT_ONCE * strips],
            candidates: Candidates::new(vocab_len),
            widen: Vec::with_capacity(SCANNED_AT_ONCE),
        }
    }
}

impl Scan {
    /// The codes of `table`, in a form for scans of `depth` (and of all bits).
    pub(crate) fn new(cx: &Compute, table: &FloatTable, depth: Depth) -> Self {
        let rows = quantize::bounds(cx, table, QuantizedRow::bound);
        let largest_norm =
            rows.iter().map(|row| f64::from(row.norm) + f64::from(row.error)).fold(0.0, f64::max);
        let codes = match depth {
            Depth::Bytes => Codes::Bytes(quantize::bytes(cx, table)),
            Depth::Nibbles => Codes::Planes {
                upper: quantize::nibbles(cx, table, Plane::Upper),
                lower: quantize::nibbles(cx, table, Plane::Lower),
                upper_rows: in_strips(&quantize::bounds(cx, table, QuantizedRow::upper_bound)),
            },
        };
        Self { codes, vocab_len: table.rows(), rows: in_strips(&rows), largest_norm }
    }

    /// Bytes held in memory.
    pub(crate) fn size_bytes(&self) -> usize {
        let codes = match &self.codes {
            Codes::Bytes(codes) => codes.bytes_len(),
            Codes::Planes { upper, lower, upper_rows } => {
                upper.bytes_len() + lower.bytes_len() + size_of_val(&upper_rows[..])
            }
        };
        codes + size_of_val(&self.rows[..])
    }

    /// Bytes that a scan reads, the rows of candidates not counted.
    pub(crate) fn scanned_bytes(&self) -> usize {
        let codes = match &self.codes {
            Codes::Bytes(codes) => codes.bytes_len(),
            Codes::Planes { upper, .. } => upper.bytes_len(),
        };
        codes + size_of_val(&self.rows[..])
    }

    /// Writes to `out` the exact scores of the tokens that could be among those asked for, and −∞ for
    /// all others. At most [`SCANNED_AT_ONCE`] rows.
    pub(crate) fn top(
        &self,
        cx: &Compute,
        table: &FloatTable,
        asked: Asked<'_>,
        out: &mut [f32],
        (s, counts): (&mut ScanScratch, &HeadCounts),
    ) {
        let depth = match self.codes {
            Codes::Bytes(_) => Depth::Bytes,
            Codes::Planes { .. } => Depth::Nibbles,
        };
        s.widen.clear();
        self.scan(cx, table, (asked, depth), out, (s, counts));
        let (cols, vocab_len) = (table.cols(), table.rows());
        while let Some(row) = s.widen.pop() {
            // Alone, so that a row never depends on its neighbours.
            let hidden = &asked.hidden[row * cols..][..cols];
            let alone = Asked { hidden, allowed: asked.allowed.skip(row), ..asked };
            let out = &mut out[row * vocab_len..][..vocab_len];
            counts.add_widened();
            self.scan(cx, table, (alone, Depth::Bytes), out, (s, counts));
        }
    }

    fn scan(
        &self,
        cx: &Compute,
        table: &FloatTable,
        (Asked { hidden, k, allowed }, depth): (Asked<'_>, Depth),
        out: &mut [f32],
        (s, counts): (&mut ScanScratch, &HeadCounts),
    ) {
        let (cols, vocab_len) = (table.cols(), table.rows());
        s.hidden.quantize(cx, hidden, cols);
        let strips = vocab_len.div_ceil(STRIP);
        let guesses = &mut s.guesses[..hidden.len() / cols * strips];
        let states = s.hidden.states();
        cx.pool.strips(guesses, strips, 1, |strip, mut guesses| {
            self.guess(cx, (depth, strip), &s.hidden, |row, guess| guesses.row(row)[0] = *guess);
        });
        let hidden = hidden.chunks_exact(cols).zip(out.chunks_exact_mut(vocab_len));
        for (row, (x, out)) in hidden.enumerate() {
            let guesses = &mut s.guesses[row * strips..][..strips];
            if let Some(bits) = allowed.row(row) {
                keep(bits, guesses);
            }
            let mut exact = |tokens: &[u32], scores: &mut [f32]| {
                table.scores_of(cx, tokens, x, scores);
            };
            let most = vocab_len / WORTH_CHOOSING;
            let finite = self.largest_norm * states[row].norm < LARGEST_SCORE;
            if !finite || k > most {
                counts.add_whole();
                table.scores(cx, x, out);
                continue;
            }
            match s.candidates.choose(guesses, (k, most), out, &mut exact) {
                Some(chosen) if depth != Depth::Nibbles || chosen.furthest_off <= EXPECTED_PART => {
                    counts.add_pick(chosen.tokens);
                }
                _ if depth == Depth::Nibbles => s.widen.push(row),
                _ => {
                    counts.add_whole();
                    table.scores(cx, x, out);
                }
            }
        }
    }

    /// Writes every token's score by the codes alone: not those of the table, but near them.
    pub(crate) fn approximate(
        &self,
        cx: &Compute,
        hidden: &[f32],
        out: &mut [f32],
        s: &mut ScanScratch,
    ) {
        let cols = s.hidden.cols();
        s.hidden.quantize(cx, hidden, cols);
        cx.pool.strips(out, self.vocab_len, STRIP, |strip, mut out| {
            self.guess(cx, (Depth::Bytes, strip), &s.hidden, |row, guess| {
                let out = out.row(row);
                out.copy_from_slice(&guess.middle[..out.len()]);
            });
        });
    }

    /// Calls `each` for every hidden state with what is known of a strip's scores.
    fn guess(
        &self,
        cx: &Compute,
        at: (Depth, usize),
        hidden: &HiddenCodes,
        each: impl FnMut(usize, &ScoreBounds),
    ) {
        // Most steps have one state, and room for more is not cleared for nothing.
        match hidden.states().len() {
            1 => self.guess_in::<2>(cx, at, hidden, each),
            _ => self.guess_in::<{ 2 * SCANNED_AT_ONCE }>(cx, at, hidden, each),
        }
    }

    /// [`guess`](Self::guess) with room for the products of so many rows of codes.
    fn guess_in<const CODES: usize>(
        &self,
        cx: &Compute,
        (depth, strip): (Depth, usize),
        hidden: &HiddenCodes,
        mut each: impl FnMut(usize, &ScoreBounds),
    ) {
        let states = hidden.states();
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
        let mut guess = ScoreBounds::NOTHING;
        for (row, (coarse, state)) in coarse.iter().zip(states).enumerate() {
            let (fine, x) = match depth {
                Depth::Bytes => (&fine[row], &state.by_all),
                Depth::Nibbles => (&[0; STRIP], &state.by_upper),
            };
            cx.kernel.bound_scores([coarse, fine], &rows[strip], x, &mut guess);
            if width < STRIP {
                guess.truncate(width);
            }
            each(row, &guess);
        }
    }
}

/// Forgets what is known of tokens that are not allowed.
fn keep(bits: &[u32], guesses: &mut [ScoreBounds]) {
    let halves = bits.iter().flat_map(|&word| [word as u16, (word >> STRIP) as u16]);
    guesses.iter_mut().zip(halves).for_each(|(guess, bits)| guess.keep(bits));
}

/// Room for products with a strip of `width` rows.
fn products(sums: &mut [[i32; STRIP]], width: usize) -> Strip<'_, i32> {
    Strip::new(sums.as_flattened_mut(), STRIP, width, 0)
}

/// Products with both planes become products with the codes they are made of. On the way they may
/// leave 32 bits, but the results fit.
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
