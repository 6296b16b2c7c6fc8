//! Parts of matrices that are lent to jobs.

use std::marker::PhantomData;

/// A matrix lent out in parts to several threads.
pub(super) struct Rows<'a, T> {
    start: *mut T,
    pub(super) row_len: usize,
    pub(super) len: usize,
    lent: PhantomData<&'a mut [T]>,
}

// SAFETY: threads get disjoint `&mut` parts of it, which `T: Send` allows.
unsafe impl<T: Send> Sync for Rows<'_, T> {}

impl<'a, T> Rows<'a, T> {
    pub(super) fn new(data: &'a mut [T], row_len: usize) -> Self {
        let len = data.len().checked_div(row_len).unwrap_or(0);
        assert_eq!(len * row_len, data.len(), "whole rows of {row_len}");
        Self { start: data.as_mut_ptr(), row_len, len, lent: PhantomData }
    }

    /// # Safety
    ///
    /// While the result lives, row `i` is not lent again.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps the parts apart")]
    pub(super) unsafe fn row(&self, i: usize) -> &mut [T] {
        assert!(i < self.len, "row {i} of {}", self.len);
        // SAFETY: row `i` lies within the slice of `new`, which is lent to us for as long as we
        // live; the caller guarantees that it is not lent again.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.row_len), self.row_len) }
    }

    /// # Safety
    ///
    /// While rows of the result are lent, no one else is lent the columns
    /// `i * strip_len..(i + 1) * strip_len` of them.
    pub(super) unsafe fn strip(&self, i: usize, strip_len: usize) -> Strip<'_, T> {
        let column = i * strip_len;
        assert!(column < self.row_len, "column {column} of {}", self.row_len);
        Strip {
            start: self.start,
            row_len: self.row_len,
            rows: self.len,
            column,
            width: strip_len.min(self.row_len - column),
            lent: PhantomData,
        }
    }
}

/// Neighbouring columns of a matrix that one job owns.
pub struct Strip<'a, T> {
    /// Start of the whole matrix.
    start: *mut T,
    row_len: usize,
    rows: usize,
    column: usize,
    width: usize,
    lent: PhantomData<&'a mut [T]>,
}

impl<'a, T> Strip<'a, T> {
    /// Returns strip `strip` of `data`, a matrix of rows of `row_len`, where strips are `strip_len` wide.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not a whole number of rows or has no such strip.
    pub fn new(data: &'a mut [T], row_len: usize, strip_len: usize, strip: usize) -> Self {
        let rows = Rows::new(data, row_len);
        // SAFETY: `data` is borrowed for as long as the result lives, and this is its only strip.
        let Strip { start, column, width, .. } = unsafe { rows.strip(strip, strip_len) };
        Self { start, row_len, rows: rows.len, column, width, lent: PhantomData }
    }

    /// Returns the rows from `first` on, at most `rows` of them.
    pub(super) fn only_rows(mut self, first: usize, rows: usize) -> Self {
        assert!(first <= self.rows, "row {first} of {}", self.rows);
        // SAFETY: within the matrix, or at its end.
        self.start = unsafe { self.start.add(first * self.row_len) };
        self.rows = rows.min(self.rows - first);
        self
    }

    /// Returns the rows from `first` on, at most `rows` of them.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer than `first` rows.
    pub(crate) fn some_rows(&mut self, first: usize, rows: usize) -> Strip<'_, T> {
        Strip { lent: PhantomData, ..*self }.only_rows(first, rows)
    }

    /// Returns `width` of the columns, from column `first` on.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer columns.
    pub fn columns(&mut self, first: usize, width: usize) -> Strip<'_, T> {
        assert!(
            first + width <= self.width,
            "columns {first} to {} of {}",
            first + width,
            self.width
        );
        Strip { column: self.column + first, width, lent: PhantomData, ..*self }
    }

    /// Returns the columns of row `r`.
    pub fn row(&mut self, r: usize) -> &mut [T] {
        assert!(r < self.rows, "row {r} of {}", self.rows);
        // SAFETY: these elements lie within the matrix, which is lent for 'a; no one else is lent these
        // columns, and `&mut self` keeps us from lending a row twice.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.add(r * self.row_len + self.column),
                self.width,
            )
        }
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}
