//! Quantizes a table row by row and computes the error bounds of the codes.

use std::convert::Infallible;

use wf_kernels::{Int8Matrix, NibbleMatrix};

use super::bounds::{RowBound, SLACK};
use super::hidden::value_of_upper;
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
pub(super) struct QuantizedRow {
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

    /// Returns the bound of the row's codes.
    pub(super) fn bound(&self) -> RowBound {
        self.bound_of(f64::from)
    }

    /// Returns the bound of the row's upper codes.
    pub(super) fn upper_bound(&self) -> RowBound {
        self.bound_of(|code| value_of_upper(Plane::Upper.of(code)))
    }

    /// Computes in f64, which holds the squares of the largest and the smallest f32.
    fn bound_of(&self, value_of: impl Fn(i8) -> f64) -> RowBound {
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
        RowBound { scale: self.scale, error: root(errors), norm: root(norms) }
    }
}

/// Computes a bound for each row of a table.
pub(super) fn bounds(
    cx: &Compute,
    table: &FloatTable,
    bound: impl Fn(&QuantizedRow) -> RowBound + Sync,
) -> Vec<RowBound> {
    let mut bounds = vec![RowBound::default(); table.rows()];
    let mut scratch: Vec<_> = (0..cx.threads()).map(|_| QuantizedRow::new(table.cols())).collect();
    cx.pool.rows_with(&mut bounds, 1, &mut scratch, |token, out, row| {
        row.quantize(cx, table, token);
        out[0] = bound(row);
    });
    bounds
}

/// Quantizes a table.
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
