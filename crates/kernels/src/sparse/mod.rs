//! Products that leave out what is multiplied by zero, for one token at a time.
//!
//! Squared ReLU is zero wherever its gate is not positive, whatever `up` says. So of `up` only the
//! rows with a positive gate are read (`rows.rs`), and of `down` only the columns whose activation
//! has a code other than zero (`columns.rs`). The lines of a [`TernaryMatrix`](crate::TernaryMatrix)
//! hold sixteen rows times sixteen columns, of which no single row or column can be read, so each of
//! the two needs a copy with a layout of its own.
//!
//! Nothing is approximate: the integers left out are zeros, sums of integers are exact in any order,
//! and what follows is the float arithmetic of `product.rs`. Dense and sparse give the same bits.

mod columns;
mod rows;

pub use columns::{NonZeros, TernaryColumns, multiply_add_columns};
pub use rows::{TernaryRows, relu2_neurons};

pub(crate) use columns::{COLUMN_LINE_ROWS, COLUMNS_AT_ONCE, place_in_column, sparse_columns};
pub(crate) use rows::sparse_neurons;

use crate::line::{Line, STRIP};
use crate::quant::RUN;
use crate::ternary::StripScales;

/// The integer heart of both products. The methods written here are their definition.
pub(crate) trait SparseSums: Copy {
    /// For each of `R` rows of a [`TernaryRows`], the exact sum of code times activation.
    fn row_sums<const R: usize>(self, rows: [&[Line]; R], codes: &[i8]) -> [i32; R] {
        rows.map(|row| {
            let mut sum = 0;
            for (i, run) in codes.as_chunks::<RUN>().0.iter().enumerate() {
                let (line, field) = (&row[i / 4], i % 4);
                for (byte, &code) in line.0.iter().zip(run) {
                    sum += i32::from(byte >> (2 * field) & 3) * i32::from(code);
                }
            }
            sum
        })
    }

    /// Whether [`add_columns`](Self::add_columns) leaves the trits of field `j` where they are in a
    /// byte, which makes the sums of their rows `4^j` times too large.
    const UNSHIFTED: bool = false;

    /// Adds code times activation of some columns of `w`, at most [`COLUMNS_AT_ONCE`], to the sums
    /// of the rows of one line.
    fn add_columns(
        self,
        w: &TernaryColumns,
        line: usize,
        (columns, codes): (&[[u32; 4]], &[[i8; 4]]),
        sums: &mut [i32; COLUMN_LINE_ROWS],
    ) {
        debug_assert!(codes.as_flattened().len() <= COLUMNS_AT_ONCE, "so many columns at most");
        for (&column, &code) in columns.as_flattened().iter().zip(codes.as_flattened()) {
            let line = w.line(column, line);
            for (row, sum) in sums.iter_mut().enumerate() {
                let (byte, field) = place_in_column(row);
                *sum += i32::from(line.0[byte] >> (2 * field) & 3) * i32::from(code);
            }
        }
    }
}

/// What the trits of a row are multiplied by: one scale for all rows, or one for each.
enum RowScales {
    One(f32),
    Each(Vec<[f32; STRIP]>),
}

impl RowScales {
    /// Nothing for scales of groups: their sums are not one integer a row.
    fn new(scales: &StripScales) -> Option<Self> {
        match scales {
            StripScales::Tensor(scale) => Some(Self::One(*scale)),
            StripScales::Rows(values) => Some(Self::Each(values.clone())),
            StripScales::Groups { .. } => None,
        }
    }

    fn of_row(&self, row: usize) -> f32 {
        match self {
            Self::One(scale) => *scale,
            Self::Each(values) => values[row / STRIP][row % STRIP],
        }
    }

    fn of_strip(&self, strip: usize) -> [f32; STRIP] {
        match self {
            Self::One(scale) => [*scale; STRIP],
            // Lines may have room for more rows than there are.
            Self::Each(values) => values.get(strip).copied().unwrap_or_default(),
        }
    }
}
