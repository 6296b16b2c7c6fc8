//! Tables with one row per token: floats, or trits.

use wf_kernels::TernaryMatrix;

use crate::embed::FloatTable;

/// The embedding or the output head.
pub enum Table {
    /// Floats, as the file stores them.
    Float(FloatTable),
    /// Trits with their scales, in the layout of the projections.
    Ternary(TernaryMatrix),
}

impl Table {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Float(table) => table.rows(),
            Self::Ternary(matrix) => matrix.rows(),
        }
    }

    /// Returns the number of weights in a row.
    pub fn cols(&self) -> usize {
        match self {
            Self::Float(table) => table.cols(),
            Self::Ternary(matrix) => matrix.cols(),
        }
    }

    /// Size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Float(table) => table.size_bytes(),
            Self::Ternary(matrix) => matrix.size_bytes(),
        }
    }

    /// Writes the weights of one row.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        match self {
            Self::Float(table) => table.row(row, out),
            Self::Ternary(matrix) => matrix.weights(row, out),
        }
    }
}

impl From<FloatTable> for Table {
    fn from(table: FloatTable) -> Self {
        Self::Float(table)
    }
}
