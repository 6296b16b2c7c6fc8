//! Quantizes a table row by row and computes the error bounds of the codes.

use std::convert::Infallible;

use wf_kernels::{Int8Matrix, RowBounds};

use super::STRIP;
use super::rounding::SLACK;
use crate::compute::Compute;
use crate::embed::FloatTable;

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

    /// Writes the bounds of the row to place `at` of a strip. Computes in f64, which holds the squares of
    /// the largest and the smallest f32.
    fn write_bounds(&self, strip: &mut RowBounds, at: usize) {
        const LANES: usize = 8;
        let scale = f64::from(self.scale);
        let (mut errors, mut norms) = ([0.0; LANES], [0.0; LANES]);
        for (values, codes) in self.values.chunks(LANES).zip(self.codes.chunks(LANES)) {
            let sums = errors.iter_mut().zip(&mut norms);
            for ((error, norm), (&value, &code)) in sums.zip(values.iter().zip(codes)) {
                let quantized = f64::from(code) * scale;
                let left = f64::from(value) - quantized;
                *error += left * left;
                *norm += quantized * quantized;
            }
        }
        let root = |lanes: [f64; LANES]| (lanes.iter().sum::<f64>().sqrt() * SLACK) as f32;
        strip.scale[at] = self.scale;
        strip.error[at] = root(errors);
        strip.norm[at] = root(norms);
    }
}

/// Computes the bounds of a table's codes, strip by strip.
pub(super) fn bounds(cx: &Compute, table: &FloatTable) -> Vec<RowBounds> {
    let mut bounds = vec![RowBounds::default(); table.rows().div_ceil(STRIP)];
    let mut scratch: Vec<_> = (0..cx.threads()).map(|_| QuantizedRow::new(table.cols())).collect();
    cx.pool.rows_with(&mut bounds, 1, &mut scratch, |strip, out, row| {
        for token in STRIP * strip..table.rows().min(STRIP * (strip + 1)) {
            row.quantize(cx, table, token);
            row.write_bounds(&mut out[0], token % STRIP);
        }
    });
    bounds
}

pub(super) fn bytes(cx: &Compute, table: &FloatTable) -> Int8Matrix {
    let shape = (table.rows(), table.cols());
    let read = |rows: std::ops::Range<usize>, out: &mut [i8]| {
        let mut row = QuantizedRow::new(table.cols());
        for (token, out) in rows.zip(out.chunks_exact_mut(table.cols())) {
            row.quantize(cx, table, token);
            out.copy_from_slice(&row.codes[..table.cols()]);
        }
        Ok::<(), Infallible>(())
    };
    let Ok(matrix) = Int8Matrix::read(&cx.pool, shape, read);
    matrix
}
