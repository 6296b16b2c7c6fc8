//! Parts of a matrix: rows of zeros, and copies of some rows or columns.

use std::convert::Infallible;

use super::{PART, StripScales, TernaryMatrix};
use crate::line::STRIP;
use crate::{Pool, Scales};

impl TernaryMatrix {
    /// Returns `true` if all trits of a row are zero.
    ///
    /// # Panics
    ///
    /// Panics if there is no such row.
    pub fn is_zero_row(&self, row: usize) -> bool {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let lines = self.strip_lines(row / STRIP).chunks(self.layout.lines_per_strip(PART));
        let mut trits = [0; PART];
        lines.enumerate().all(|(part, lines)| {
            let trits = &mut trits[..PART.min(self.cols - part * PART)];
            self.layout.unpack_row(row % STRIP, lines, trits);
            trits.iter().all(|trit| *trit == 0)
        })
    }

    /// Returns the matrix of some rows, in this order and in the same layout, or `None` if there are scales per group.
    ///
    /// # Panics
    ///
    /// Panics if there is no such row.
    pub fn with_rows(&self, pool: &Pool, rows: &[usize]) -> Option<Self> {
        let scales = self.select_scales(rows.iter().copied())?;
        let shape = (rows.len(), self.cols);
        let copy = Self::read(pool, self.layout, shape, scales, |range, trits| {
            for (row, trits) in rows[range].iter().zip(trits.chunks_exact_mut(self.cols)) {
                self.unpack(*row, trits);
            }
            Ok::<(), Infallible>(())
        });
        let Ok(copy) = copy;
        Some(copy)
    }

    /// Returns the matrix of some columns, in this order and in the same layout, or `None` if there are scales per
    /// group.
    ///
    /// # Panics
    ///
    /// Panics if there is no such column, or none at all.
    pub fn with_cols(&self, pool: &Pool, cols: &[usize]) -> Option<Self> {
        let scales = self.select_scales(0..self.rows)?;
        let shape = (self.rows, cols.len());
        let copy = Self::read(pool, self.layout, shape, scales, |range, trits| {
            let mut whole = vec![0; self.cols];
            for (row, trits) in range.zip(trits.chunks_exact_mut(cols.len())) {
                self.unpack(row, &mut whole);
                trits.iter_mut().zip(cols).for_each(|(trit, col)| *trit = whole[*col]);
            }
            Ok::<(), Infallible>(())
        });
        let Ok(copy) = copy;
        Some(copy)
    }

    fn select_scales(&self, rows: impl Iterator<Item = usize>) -> Option<Scales> {
        match &self.scales {
            StripScales::Tensor(scale) => Some(Scales::Tensor(*scale)),
            StripScales::Rows(_) => {
                Some(Scales::Rows(rows.map(|row| self.scale(row, 0)).collect()))
            }
            StripScales::Groups { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    #[test]
    fn parts_of_a_matrix_have_its_weights() {
        let (pool, rows, cols) = (Pool::new(2), 37, 700);
        // Row 5 is zero; row 9 has one trit that is not, in the last column.
        let trit = |row: usize, col: usize| match (row, col) {
            (5, _) => 0,
            (9, _) => i8::from(col == cols - 1),
            _ => ((row * row + 3 * col) / 2 % 3) as i8 - 1,
        };
        let by_row = Scales::Rows((0..rows).map(|row| row as f32 + 0.5).collect());
        for (scales, layout) in
            [(Scales::Tensor(0.25), Layout::FiveTrits), (by_row, Layout::QuadLines)]
        {
            let read = |range: std::ops::Range<usize>, out: &mut [i8]| -> Result<(), Infallible> {
                for (row, out) in range.zip(out.chunks_mut(cols)) {
                    out.iter_mut().enumerate().for_each(|(col, out)| *out = trit(row, col));
                }
                Ok(())
            };
            let Ok(w) = TernaryMatrix::read(&pool, layout, (rows, cols), scales.clone(), read);
            let zeros: Vec<_> = (0..rows).filter(|row| w.is_zero_row(*row)).collect();
            assert_eq!(zeros, [5]);
            let (some_rows, some_cols) = ([36, 0, 9, 17, 5], [699, 3, 64, 65, 320, 1]);
            let few = w.with_rows(&pool, &some_rows).and_then(|w| w.with_cols(&pool, &some_cols));
            let few = few.expect("no scales per group");
            assert_eq!((few.rows(), few.cols(), few.layout()), (5, 6, layout));
            for (i, row) in some_rows.into_iter().enumerate() {
                let mut found = [9.0; 6];
                few.weights(i, &mut found);
                let weight = |col| f32::from(trit(row, col)) * scales.at(row, col, cols);
                assert_eq!(found, some_cols.map(weight), "row {row} of {layout:?}");
            }
        }
        let groups = Scales::Groups { len: 64, values: vec![1.0; 16 * 2] };
        let w = TernaryMatrix::new(16, 128, groups);
        assert!(w.with_rows(&pool, &[1]).is_none() && w.with_cols(&pool, &[1]).is_none());
    }
}
