//! Quantizes a table row by row and computes the error bounds of the codes.

use std::convert::Infallible;

use wf_kernels::{Int8Matrix, NibbleMatrix, RowBounds};

use super::STRIP;
use super::hidden::{SLACK, value_of_upper};
use crate::compute::Compute;
use crate::embed::FloatTable;

/// Upper or lower four bits of a code.
#[derive(Clone, Copy)]
pub(super) enum Plane {
    Upper,
    Lower,
}

impl Plane {
    /// Returns these bits of code + 128.
    fn of(self, code: i8) -> i8 {
        let biased = code.cast_unsigned() ^ 128;
        match self {
            Self::Upper => (biased >> 4).cast_signed(),
            Self::Lower => (biased & 15).cast_signed(),
        }
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

    /// Writes the bounds of the row to place `at` of a strip, where `value_of` is the value of a code in
    /// units of the row's scale. Computes in f64, which holds the squares of the largest and the smallest
    /// f32.
    fn write_bounds(&self, value_of: impl Fn(i8) -> f64, strip: &mut RowBounds, at: usize) {
        const LANES: usize = 8;
        let scale = f64::from(self.scale);
        let (mut errors, mut norms) = ([0.0; LANES], [0.0; LANES]);
        for (values, codes) in self.values.chunks(LANES).zip(self.codes.chunks(LANES)) {
            let sums = errors.iter_mut().zip(&mut norms);
            for ((error, norm), (&value, &code)) in sums.zip(values.iter().zip(codes)) {
                let quantized = value_of(code) * scale;
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
    bounds_by(cx, table, f64::from)
}

/// Computes the bounds of a table's upper codes.
pub(super) fn upper_bounds(cx: &Compute, table: &FloatTable) -> Vec<RowBounds> {
    bounds_by(cx, table, |code| value_of_upper(Plane::Upper.of(code)))
}

fn bounds_by(
    cx: &Compute,
    table: &FloatTable,
    value_of: impl Fn(i8) -> f64 + Sync,
) -> Vec<RowBounds> {
    let mut bounds = vec![RowBounds::default(); table.rows().div_ceil(STRIP)];
    let mut scratch: Vec<_> = (0..cx.threads()).map(|_| QuantizedRow::new(table.cols())).collect();
    cx.pool.rows_with(&mut bounds, 1, &mut scratch, |strip, out, row| {
        for token in STRIP * strip..table.rows().min(STRIP * (strip + 1)) {
            row.quantize(cx, table, token);
            row.write_bounds(&value_of, &mut out[0], token % STRIP);
        }
    });
    bounds
}

pub(super) fn bytes(cx: &Compute, table: &FloatTable) -> Int8Matrix {
    let shape = (table.rows(), table.cols());
    let Ok(matrix) =
        Int8Matrix::read(&cx.pool, shape, |rows, out| read(cx, table, rows, out, |code| code));
    matrix
}

/// Quantizes a table, keeping four bits of each code.
pub(super) fn nibbles(cx: &Compute, table: &FloatTable, plane: Plane) -> NibbleMatrix {
    let shape = (table.rows(), table.cols());
    let Ok(matrix) = NibbleMatrix::read(&cx.pool, shape, |rows, out| {
        read(cx, table, rows, out, |c| plane.of(c))
    });
    matrix
}

fn read(
    cx: &Compute,
    table: &FloatTable,
    rows: std::ops::Range<usize>,
    out: &mut [i8],
    part: impl Fn(i8) -> i8,
) -> Result<(), Infallible> {
    let mut row = QuantizedRow::new(table.cols());
    for (token, out) in rows.zip(out.chunks_exact_mut(table.cols())) {
        row.quantize(cx, table, token);
        for (out, &code) in out.iter_mut().zip(&row.codes) {
            *out = part(code);
        }
    }
    Ok(())
}
