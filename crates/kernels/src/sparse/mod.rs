//! Products that skip multiplications by zero, token by token.
//!
//! Squared ReLU is zero wherever its gate is not positive, for any `up`. So only the rows of `up` with a
//! positive gate are read (`rows.rs`), and only the columns of `down` whose activation has a nonzero
//! code (`columns.rs`). The lines of a [`TernaryMatrix`](crate::TernaryMatrix) mix sixteen rows and
//! sixteen columns, so each of the two needs a copy in a layout of its own.
//!
//! Nothing is approximate: the skipped integers are zeros, integer sums are exact in any order, and the
//! float arithmetic is that of `product.rs`. Dense and sparse products have the same bits.

mod columns;
mod rows;
mod split;

pub use columns::{NonZeros, TernaryColumns, multiply_add_columns, multiply_add_columns_of_each};
pub use rows::{TernaryRows, relu2_neurons};
pub use split::{ColumnScratch, multiply_columns_each};

#[cfg(test)]
pub(crate) use columns::place_in_column;
pub(crate) use columns::{add_columns_of_each, find_non_zeros, sparse_columns};
pub(crate) use rows::{JOB_ROWS, open_neurons, sparse_neurons};
pub(crate) use split::sum_columns;

use std::marker::PhantomData;

use crate::arch::Lines;
use crate::line::STRIP;
use crate::ternary::StripScales;

/// A copy of a ternary matrix in the order `O`.
pub struct TernaryCopy<O> {
    rows: usize,
    cols: usize,
    scales: RowScales,
    lines: Lines,
    order: PhantomData<O>,
}

impl<O> TernaryCopy<O> {
    /// Returns the number of output rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns, without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the size of the packed trits in bytes, padding included, without scales.
    pub fn bytes_len(&self) -> usize {
        size_of_val(&*self.lines)
    }
}

/// One scale for all rows, or one for each.
enum RowScales {
    One(f32),
    Each(Vec<[f32; STRIP]>),
}

impl RowScales {
    /// Returns `None` for scales per group, whose sums are not one integer per row.
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
            // Lines may have more rows than the matrix.
            Self::Each(values) => values.get(strip).copied().unwrap_or_default(),
        }
    }
}
