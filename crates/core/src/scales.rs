//! Scales of ternary matrices.

/// Scales of a ternary matrix: a weight is its trit times the scale that covers it.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// One scale for the whole matrix.
    Tensor(f32),
    /// One scale per row.
    Rows(Vec<f32>),
    /// One scale per group of `len` columns of a row; the last group of a row may be shorter.
    Groups {
        /// Columns per group.
        len: usize,
        /// Scales, row by row and within a row group by group.
        values: Vec<f32>,
    },
}

impl Scales {
    /// Returns the coarsest form with bit-identical scales.
    #[must_use]
    pub fn simplify(self, rows: usize) -> Self {
        match self {
            Self::Groups { len, values } => {
                let per_row = values.len().checked_div(rows).unwrap_or(0);
                let whole_rows = per_row != 0 && values.len() == per_row * rows;
                if !whole_rows || !values.chunks_exact(per_row).all(all_equal) {
                    return Self::Groups { len, values };
                }
                Self::Rows(values.into_iter().step_by(per_row).collect()).simplify(rows)
            }
            Self::Rows(values) => match values.first() {
                Some(&first) if all_equal(&values) => Self::Tensor(first),
                _ => Self::Rows(values),
            },
            Self::Tensor(scale) => Self::Tensor(scale),
        }
    }

    /// Returns all scales in order.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Tensor(scale) => std::slice::from_ref(scale),
            Self::Rows(values) | Self::Groups { values, .. } => values,
        }
    }

    /// Returns the number of columns that one scale covers in a matrix of `cols` columns.
    pub fn span(&self, cols: usize) -> usize {
        if let Self::Groups { len, .. } = self { *len } else { cols }
    }

    /// Returns the scale of an element of a matrix of `cols` columns, or 0 if there is none.
    pub fn at(&self, row: usize, col: usize, cols: usize) -> f32 {
        let index = match self {
            Self::Tensor(_) => 0,
            Self::Rows(_) => row,
            Self::Groups { len, .. } => row * (cols / len) + col / len,
        };
        self.values().get(index).copied().unwrap_or_default()
    }
}

fn all_equal(values: &[f32]) -> bool {
    let mut bits = values.iter().map(|value| value.to_bits());
    let first = bits.next();
    bits.all(|bits| Some(bits) == first)
}
