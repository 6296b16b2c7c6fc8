//! The best token without reading the whole output head.
//!
//! The head is the largest table of a small model: for BitNet-2B in bf16 it has more bytes than all
//! the layers' trits. A greedy pick needs only the row with the largest score, so an int8 copy of
//! the table is scanned instead, and only rows that could win are scored from the table itself.
//!
//! That is exact, by proof. With `w` a row and `x` a hidden state, and `w'`, `x'` their quantised
//! selves, the scan computes `w'·x'` in integers, and by Cauchy and Schwarz
//!
//! ```text
//! |w·x − w'·x'|  ≤  |w − w'| |x|  +  |w'| |x − x'|
//! ```
//!
//! The norms of each row are computed once, those of `x` each time; the rounding of the score that
//! the table would give is bounded likewise. A row whose upper bound lies below some other row's
//! lower bound cannot be the best, not even by a tie.

use wf_kernels::{FloatRows, Int8Matrix, QuantBatch, int8_products};

use crate::compute::Compute;
use crate::embed::FloatTable;

/// Hidden states scanned at once: bounds the room for their integer products.
pub(crate) const SCANNED_AT_ONCE: usize = 16;

/// Tokens whose bounds one job computes.
const TOKENS_PER_JOB: usize = 4096;

/// Norms of rows are computed in f32: a difference of nearly equal values is right to 1e-4 of the
/// error that it is part of (2^-24 of a value of 127 codes), and sums are right to 1e-5.
const ROW_SLACK: f64 = 1.001;

/// Norms of hidden states are computed in f64 over at most 2^17 products, so they are right to
/// 2^-36; this covers it and the rounding of bounds to f32 with room to spare.
const SLACK: f64 = 1.0 + 1e-6;

/// An int8 copy of a table.
pub(crate) struct Scan {
    codes: Int8Matrix,
    rows: Vec<RowBound>,
}

/// What is known of one row.
#[derive(Clone, Copy, Default)]
struct RowBound {
    /// A code times this is the value it stands for.
    scale: f32,
    /// At least |w − w'|.
    error: f32,
    /// At least |w'|.
    norm: f32,
}

/// Room for one scan.
pub(crate) struct ScanScratch {
    /// Of each hidden state its codes, and the codes of what those left over.
    codes: QuantBatch,
    /// Hidden state and left over, alternating.
    values: Vec<f32>,
    products: Vec<i32>,
    /// Of each token the lowest and the highest score it could have.
    bounds: Vec<[f32; 2]>,
    candidates: Vec<u32>,
    scores: Vec<f32>,
}

impl ScanScratch {
    pub(crate) fn new(vocab_len: usize, hidden_len: usize) -> Self {
        let rows = 2 * SCANNED_AT_ONCE;
        Self {
            codes: QuantBatch::new(rows, hidden_len),
            values: vec![0.0; rows * hidden_len],
            products: vec![0; rows * vocab_len],
            bounds: vec![[0.0; 2]; vocab_len],
            candidates: Vec::with_capacity(vocab_len),
            scores: vec![0.0; vocab_len],
        }
    }
}

impl Scan {
    /// The copy of `table`.
    pub(crate) fn new(cx: &Compute, table: &FloatTable) -> Self {
        let (rows, cols) = (table.rows(), table.cols());
        let mut codes = Int8Matrix::new(rows, cols);
        let filled = codes.fill(&cx.pool, |range, codes| {
            let mut row = QuantizedRow::new(cols);
            for (token, codes) in range.zip(codes.chunks_exact_mut(cols)) {
                row.quantize(cx, table, token);
                codes.copy_from_slice(&row.codes[..cols]);
            }
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = filled;
        let mut bounds = vec![RowBound::default(); rows];
        let mut scratch: Vec<_> = (0..cx.threads()).map(|_| QuantizedRow::new(cols)).collect();
        cx.pool.rows_with(&mut bounds, 1, &mut scratch, |token, bound, row| {
            row.quantize(cx, table, token);
            bound[0] = row.bound(cx);
        });
        Self { codes, rows: bounds }
    }

    /// Bytes held in memory.
    pub(crate) fn size_bytes(&self) -> usize {
        self.codes.bytes_len() + size_of_val(&self.rows[..])
    }

    /// Writes the scores of the tokens that could be the best of each row of `hidden` to `out`,
    /// and −∞ for all others. At most [`SCANNED_AT_ONCE`] rows.
    pub(crate) fn best(
        &self,
        cx: &Compute,
        table: &FloatTable,
        hidden: &[f32],
        out: &mut [f32],
        (s, row_buffers): (&mut ScanScratch, &mut [Vec<f32>]),
    ) {
        let (cols, vocab_len) = (table.cols(), table.rows());
        self.multiply(cx, hidden, s);
        let rows = hidden.chunks_exact(cols).zip(out.chunks_exact_mut(vocab_len));
        for (row, (x, out)) in rows.enumerate() {
            self.choose(cx, row, x, s);
            let (candidates, scores) = (&s.candidates[..], &mut s.scores[..s.candidates.len()]);
            table.scores_of(cx, candidates, x, scores, row_buffers);
            out.fill(f32::NEG_INFINITY);
            for (&token, &score) in candidates.iter().zip(scores.iter()) {
                out[token as usize] = score;
            }
        }
    }

    /// Integer products of every row of the table with the codes of each hidden state, and with the
    /// codes of what those left over: together `x` to about 16 bits.
    fn multiply(&self, cx: &Compute, hidden: &[f32], s: &mut ScanScratch) {
        let cols = self.codes.cols();
        let rows = hidden.len() / cols;
        let values = &mut s.values[..2 * rows * cols];
        for (pair, x) in values.chunks_exact_mut(2 * cols).zip(hidden.chunks_exact(cols)) {
            pair[..cols].copy_from_slice(x);
        }
        s.codes.quantize(cx.kernel, &cx.pool, values, cols);
        for (pair, codes) in values.chunks_exact_mut(2 * cols).zip(s.codes.rows().iter().step_by(2))
        {
            let (x, left_over) = pair.split_at_mut(cols);
            for ((left_over, x), &code) in left_over.iter_mut().zip(x).zip(codes.codes()) {
                *left_over = *x - f32::from(code) * codes.scale();
            }
        }
        s.codes.quantize(cx.kernel, &cx.pool, values, cols);
        let products = &mut s.products[..2 * rows * self.codes.rows()];
        int8_products(cx.kernel, &cx.pool, &self.codes, &s.codes, products);
    }

    /// Leaves in `candidates` the tokens that could be the best of hidden state `row`, ascending.
    fn choose(&self, cx: &Compute, row: usize, x: &[f32], s: &mut ScanScratch) {
        let vocab_len = self.rows.len();
        let (coarse, fine) = (&s.codes.rows()[2 * row], &s.codes.rows()[2 * row + 1]);
        let (coarse_scale, fine_scale) = (f64::from(coarse.scale()), f64::from(fine.scale()));
        let (mut square, mut left_square) = (0.0, 0.0);
        for ((x, &coarse), &fine) in x.iter().zip(coarse.codes()).zip(fine.codes()) {
            let x = f64::from(*x);
            let quantized = f64::from(coarse) * coarse_scale + f64::from(fine) * fine_scale;
            square += x * x;
            left_square += (x - quantized) * (x - quantized);
        }
        let (x_norm, x_error) = (square.sqrt() * SLACK, left_square.sqrt() * SLACK);
        // The table's own score sums sixteen lanes of fused products: each of at most cols / 16 + 5
        // roundings is off by 2^-24 of at most |w| |x|.
        let rounding = (x.len() / 16 + 8) as f64 / f64::from(1 << 23);
        let products = &s.products[2 * row * vocab_len..][..2 * vocab_len];
        let (coarse_products, fine_products) = products.split_at(vocab_len);
        cx.pool.strips(&mut s.bounds, vocab_len, TOKENS_PER_JOB, |job, mut bounds| {
            let first = job * TOKENS_PER_JOB;
            let products = coarse_products[first..].iter().zip(&fine_products[first..]);
            let rows = self.rows[first..].iter().zip(products);
            for (bound, (r, (&coarse, &fine))) in bounds.row(0).iter_mut().zip(rows) {
                let (norm, error) = (f64::from(r.norm), f64::from(r.error));
                let sum = f64::from(coarse) * coarse_scale + f64::from(fine) * fine_scale;
                let middle = sum * f64::from(r.scale);
                let off = error * x_norm + norm * x_error + rounding * (norm + error) * x_norm;
                *bound = [((middle - off) as f32).next_down(), ((middle + off) as f32).next_up()];
            }
        });
        let floor = s.bounds.iter().fold(f32::NEG_INFINITY, |floor, bound| floor.max(bound[0]));
        s.candidates.clear();
        let possible = s.bounds.iter().zip(0..).filter(|(bound, _)| bound[1] >= floor);
        s.candidates.extend(possible.map(|(_, token)| token));
    }
}

/// One row of a table and its codes.
struct QuantizedRow {
    values: Vec<f32>,
    codes: Vec<i8>,
    sums: Vec<i32>,
    scale: f32,
}

impl QuantizedRow {
    fn new(cols: usize) -> Self {
        let padded = cols.next_multiple_of(64);
        Self {
            values: vec![0.0; cols],
            codes: vec![0; padded],
            sums: vec![0; padded / 64],
            scale: 0.0,
        }
    }

    fn quantize(&mut self, cx: &Compute, table: &FloatTable, token: usize) {
        table.row(token, &mut self.values);
        self.scale = cx.kernel.quantize(&self.values, &mut self.codes, &mut self.sums);
    }

    /// Leaves the row's values behind.
    fn bound(&mut self, cx: &Compute) -> RowBound {
        let norm = |values: &[f32]| {
            let mut square = [0.0];
            cx.kernel.dots(FloatRows::F32(values), values, &mut square);
            (f64::from(square[0]).sqrt() * ROW_SLACK) as f32
        };
        let mut quantized = vec![0.0; self.values.len()];
        for ((quantized, value), &code) in
            quantized.iter_mut().zip(&mut self.values).zip(&self.codes)
        {
            *quantized = f32::from(code) * self.scale;
            *value -= *quantized;
        }
        RowBound { scale: self.scale, error: norm(&self.values), norm: norm(&quantized) }
    }
}
