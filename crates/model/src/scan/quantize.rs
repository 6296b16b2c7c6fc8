//! A table becomes codes, a row at a time, and what they leave out becomes norms.

use std::convert::Infallible;

use wf_kernels::{Int8Matrix, NibbleMatrix};

use super::guess::{RowBound, SLACK};
use super::hidden::value_of_upper;
use crate::compute::Compute;
use crate::embed::FloatTable;

/// Which four bits of a code.
#[derive(Clone, Copy)]
pub(super) enum Plane {
    Upper,
    Lower,
}

impl Plane {
    /// Its part of code + 128.
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

    /// What is known of the row by its codes.
    pub(super) fn bound(&self) -> RowBound {
        self.bound_of(f64::from)
    }

    /// What is known of it by its upper codes.
    pub(super) fn upper_bound(&self) -> RowBound {
        self.bound_of(|code| value_of_upper(Plane::Upper.of(code)))
    }

    /// In f64, where neither the square of the largest f32 nor that of the smallest is lost.
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

/// Something for each row of a table.
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

/// The codes of a table.
pub(super) fn bytes(cx: &Compute, table: &FloatTable) -> Int8Matrix {
    let shape = (table.rows(), table.cols());
    let Ok(matrix) =
        Int8Matrix::read(&cx.pool, shape, |rows, out| read(cx, table, rows, out, |code| code));
    matrix
}

/// Four bits of each code of a table.
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
