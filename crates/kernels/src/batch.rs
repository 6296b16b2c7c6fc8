//! Batches of quantized rows.

use crate::tiles::{BAND, TiledCodes};
use crate::{Kernel, Pool, QuantRow};

/// A reusable buffer for rows of activations as int8 codes.
#[derive(Clone, Debug)]
pub struct QuantBatch {
    rows: Vec<QuantRow>,
    rows_len: usize,
    cols: usize,
    /// The rows in tiles, if the kernel uses them.
    tiles: TiledCodes,
}

impl QuantBatch {
    /// Creates a buffer for `max_rows` rows of at most `max_cols` columns.
    pub fn new(max_rows: usize, max_cols: usize) -> Self {
        let rows = vec![QuantRow::with_capacity(max_cols); max_rows];
        Self { rows, rows_len: 0, cols: 0, tiles: TiledCodes::default() }
    }

    /// Replaces the rows by those of `x`, which has `cols` columns.
    ///
    /// # Panics
    ///
    /// Panics if `x` is not a whole number of rows, or if they exceed the capacity.
    pub fn quantize(&mut self, kernel: &dyn Kernel, pool: &Pool, x: &[f32], cols: usize) {
        self.resize(x.len(), cols);
        pool.rows(&mut self.rows[..self.rows_len], 1, |i, row| {
            row[0].quantize(kernel, &x[i * cols..][..cols]);
        });
        self.arrange(kernel, pool);
    }

    /// As [`quantize`](Self::quantize), where `make(i, row)` first writes each row of `x` on the thread
    /// that quantizes it.
    ///
    /// # Panics
    ///
    /// Panics as [`quantize`](Self::quantize) does.
    pub fn quantize_with(
        &mut self,
        kernel: &dyn Kernel,
        pool: &Pool,
        x: &mut [f32],
        cols: usize,
        make: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        self.resize(x.len(), cols);
        let codes = &mut self.rows[..self.rows_len];
        pool.row_pairs((x, cols), (codes, 1), |i, x, codes| {
            make(i, x);
            codes[0].quantize(kernel, x);
        });
        self.arrange(kernel, pool);
    }

    /// Copies the codes to tiles if the kernel uses them for so many rows.
    fn arrange(&mut self, kernel: &dyn Kernel, pool: &Pool) {
        match kernel.tile_kernel() {
            Some(tiles) if self.rows_len >= tiles.min_tokens() => self.fill_tiles(pool),
            _ => self.tiles.clear(),
        }
    }

    /// Copies the codes to tiles. Allocates the first time.
    pub(crate) fn fill_tiles(&mut self, pool: &Pool) {
        let max_runs = self.rows.first().map_or(0, QuantRow::max_runs);
        let max_tiles = self.rows.len().div_ceil(BAND) * max_runs;
        self.tiles.fill(pool, &self.rows[..self.rows_len], max_tiles);
    }

    fn resize(&mut self, len: usize, cols: usize) {
        assert!(cols > 0 && len.is_multiple_of(cols), "whole rows of {cols} columns");
        self.rows_len = len / cols;
        self.cols = cols;
    }

    /// Returns the rows of the last [`quantize`](Self::quantize).
    pub fn rows(&self) -> &[QuantRow] {
        &self.rows[..self.rows_len]
    }

    pub(crate) fn tiles(&self) -> &TiledCodes {
        &self.tiles
    }

    /// Returns the number of columns of the last [`quantize`](Self::quantize), without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }
}
