//! A copy of the table in four bits, with a bound that holds with near certainty for every table.
//!
//! With codes of four bits, the bound by Cauchy and Schwarz would exclude nothing. But the rounding errors of a
//! row and of a hidden state nearly cancel in a dot product if they are random, and they are made random: before
//! rounding, each column gets a fixed number between -½ and ½ of a step added, which is subtracted again from the
//! sums. Then an error is uniform within a step whatever the number was, and the errors of different columns
//! are independent. The sum of independent uniform errors exceeds `k` standard deviations with a probability of
//! at most `exp(-k² / 2)` on either side. For [`SIGMAS`] and 2^17 tokens, one draw of the numbers in 10^16 would
//! lose the best token of a hidden state.
//!
//! With steps `q` of a row and `s` of a state, fixed numbers `d` and `e`, and codes `u` and `k`:
//!
//! ```text
//! w'[j] = q (u[j] + c[j])    where c[j] = -7.5 - d[j]
//! x'[j] = s (k[j] - e[j])
//! w'·x' = q s (Σ u k  +  Σ c k  -  Σ (u + c) e)
//! ```
//!
//! The first sum is computed by the scan, the second once for a state, and the third once for a row.

use std::convert::Infallible;

use wf_kernels::{NibbleMatrix, NoiseKey, QuantRow, RowBounds, VectorBounds};

use super::rounding::{MIN_BOUND, SLACK, rounding};
use super::{STRIP, TableBounds};
use crate::compute::Compute;
use crate::embed::FloatTable;

/// Number of standard deviations in a bound.
const SIGMAS: f64 = 10.0;

/// Standard deviation of a uniform number of width 1: 1 / √12.
const SIGMA: f64 = 0.288_675_134_594_812_9;

/// The largest weight of a row in steps: with the fixed numbers, codes are 0 to 15.
const LARGEST_CODE: f32 = 7.49;

/// Scale of a row of zeros.
const SMALLEST_WEIGHT: f32 = 1e-30;

/// Four-bit codes of a table.
pub(super) struct Nibbles {
    pub(super) codes: NibbleMatrix,
    pub(super) rows: TableBounds,
    columns: Columns,
}

/// The fixed numbers of each column.
pub(super) struct Columns {
    /// `c`, which is added to the codes of weights.
    of_weights: Vec<f32>,
    /// `e`, which is subtracted from the codes of states.
    of_states: Vec<f32>,
}

impl Columns {
    fn new(len: usize) -> Self {
        // Any key will do; another one would give other candidates and the same tokens.
        let fixed = |key: u32| {
            let key = NoiseKey([key, 0x5bd1_e995, 0, 0]);
            (0..len as u32).map(move |column| key.uniform(column) - 0.5)
        };
        Self { of_weights: fixed(1).map(|d| -7.5 - d).collect(), of_states: fixed(2).collect() }
    }
}

impl Nibbles {
    pub(super) fn new(cx: &Compute, table: &FloatTable) -> Self {
        let columns = Columns::new(table.cols());
        let mut strips = vec![RowBounds::default(); table.rows().div_ceil(STRIP)];
        let row = || Row::new(table.cols());
        let mut scratch: Vec<Row> = (0..cx.threads()).map(|_| row()).collect();
        cx.pool.rows_with(&mut strips, 1, &mut scratch, |strip, out, row| {
            for token in STRIP * strip..table.rows().min(STRIP * (strip + 1)) {
                row.quantize(table, token, &columns);
                row.write_bounds(&columns, &mut out[0], token % STRIP);
            }
        });
        let shape = (table.rows(), table.cols());
        let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
            let mut row = row();
            for (token, out) in rows.zip(out.chunks_exact_mut(table.cols())) {
                row.quantize(table, token, &columns);
                out.copy_from_slice(&row.codes);
            }
            Ok::<(), Infallible>(())
        };
        let Ok(codes) = NibbleMatrix::read(&cx.pool, shape, read);
        Self { codes, rows: TableBounds::new(strips), columns }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.codes.bytes_len() + size_of_val(&self.rows.strips[..])
    }

    /// Returns the numbers that states are quantized with.
    pub(super) fn columns_of_states(&self) -> &[f32] {
        &self.columns.of_states
    }

    /// Returns the bounds of scores of a hidden state of this norm, from its codes.
    pub(super) fn bounds(&self, codes: &QuantRow, norm: f64) -> VectorBounds {
        let columns = &self.columns.of_weights;
        let products =
            codes.codes().iter().zip(columns).map(|(&k, &c)| f64::from(k) * f64::from(c));
        let (scale, cols) = (f64::from(codes.scale()), columns.len());
        let root = (cols as f64).sqrt();
        // The table's own score is off by at most `rounding` of |w| |x|, and |w| exceeds |w'| by at most half a
        // step in each column. The estimate is off by a few roundings of its parts, which are at most
        // 16 q √cols |x|.
        let rounding = rounding(cols);
        let of_steps = 2.0 * root * rounding + 64.0 * root * f64::from(f32::EPSILON);
        VectorBounds {
            coarse: codes.scale(),
            fine: 0.0,
            offset: (products.sum::<f64>() * scale) as f32,
            per_error: ((SIGMAS + of_steps / SIGMA) * norm * SLACK) as f32,
            per_norm: ((SIGMAS * SIGMA * scale + rounding * norm) * SLACK) as f32,
            base_error: MIN_BOUND,
        }
    }
}

/// One row of a table and its codes.
struct Row {
    values: Vec<f32>,
    codes: Vec<i8>,
    step: f32,
}

impl Row {
    fn new(cols: usize) -> Self {
        Self { values: vec![0.0; cols], codes: vec![0; cols], step: 0.0 }
    }

    fn quantize(&mut self, table: &FloatTable, token: usize, columns: &Columns) {
        table.row(token, &mut self.values);
        let largest = self.values.iter().fold(SMALLEST_WEIGHT, |max, value| {
            let value = value.abs();
            if value > max { value } else { max }
        });
        self.step = largest / LARGEST_CODE;
        let factor = 1.0 / self.step;
        let columns = self.values.iter().zip(&columns.of_weights);
        for (code, (&value, &c)) in self.codes.iter_mut().zip(columns) {
            // 8 + d, where d = -7.5 - c. The sum is positive, so that truncation rounds down.
            *code = ((value * factor + (0.5 - c)) as i32).clamp(0, 15) as i8;
        }
    }

    /// Writes the bounds of the row to place `at` of a strip.
    fn write_bounds(&self, columns: &Columns, strip: &mut RowBounds, at: usize) {
        const LANES: usize = 8;
        let (mut shifts, mut norms) = ([0.0; LANES], [0.0; LANES]);
        let fixed = columns.of_weights.chunks(LANES).zip(columns.of_states.chunks(LANES));
        for (codes, (of_weights, of_states)) in self.codes.chunks(LANES).zip(fixed) {
            let sums = shifts.iter_mut().zip(&mut norms);
            for (((shift, norm), &u), (&c, &e)) in
                sums.zip(codes).zip(of_weights.iter().zip(of_states))
            {
                let value = f64::from(u) + f64::from(c);
                *shift += value * f64::from(e);
                *norm += value * value;
            }
        }
        let step = f64::from(self.step);
        strip.scale[at] = self.step;
        strip.shift[at] = shifts.iter().sum::<f64>() as f32;
        strip.error[at] = (step * SIGMA * SLACK) as f32;
        strip.norm[at] = (norms.iter().sum::<f64>().sqrt() * step * SLACK) as f32;
    }
}
