//! Batches of quantized rows.

use crate::quant::RUN;
use crate::tiles::{BAND, TiledCodes, copy_codes};
use crate::zeroing::magnitudes;
use crate::{Kernel, Pool, QuantRow, RmsNorm, Zeroing};

/// Maximum number of rows that one thread copies in less time than several threads take to start.
const MAX_ROWS_ALONE: usize = 32;

/// A reusable buffer for the activations of some tokens: as int8 codes in one or two rows for each token, or
/// as they are.
#[derive(Clone, Debug)]
pub struct QuantBatch {
    rows: Vec<QuantRow>,
    rows_len: usize,
    rows_per_token: usize,
    cols: usize,
    /// Activations of all tokens, if they have no codes.
    floats: Vec<f32>,
    /// The rows in tiles, if the kernel uses them.
    tiles: TiledCodes,
    /// Activations that the next rows lose.
    zeroing: Zeroing,
}

impl QuantBatch {
    /// Creates a buffer for `max_rows` rows of at most `max_cols` columns.
    pub fn new(max_rows: usize, max_cols: usize) -> Self {
        let rows = vec![QuantRow::with_capacity(max_cols); max_rows];
        let (floats, tiles, zeroing) = (Vec::new(), TiledCodes::default(), Zeroing::None);
        Self { rows, rows_len: 0, rows_per_token: 1, cols: 0, floats, tiles, zeroing }
    }

    /// Sets some activations of every token to zero, of those that are quantized from now on.
    pub fn set_zeroing(&mut self, zeroing: Zeroing) {
        self.zeroing = zeroing;
    }

    /// Creates a buffer for activations without codes.
    pub fn of_floats(max_tokens: usize, max_cols: usize) -> Self {
        Self { floats: Vec::with_capacity(max_tokens * max_cols), ..Self::new(0, 0) }
    }

    /// Replaces the activations by `x`, which has `cols` columns, as they are.
    ///
    /// # Panics
    ///
    /// Panics if `x` is not a whole number of rows.
    pub fn copy_floats(&mut self, x: &[f32], cols: usize) {
        self.resize(0, cols);
        assert!(x.len().is_multiple_of(cols), "whole rows of {cols} columns");
        self.floats.extend_from_slice(x);
        self.floats.chunks_exact_mut(cols).for_each(|row| self.zeroing.apply_to_floats(row));
    }

    /// Replaces the rows by those of `x`, which has `cols` columns.
    ///
    /// # Panics
    ///
    /// Panics if `x` is not a whole number of rows, or if they exceed the capacity.
    pub fn quantize(&mut self, kernel: &dyn Kernel, pool: &Pool, x: &[f32], cols: usize) {
        self.resize(x.len(), cols);
        let tiled = self.uses_tiles(kernel);
        self.quantize_rows(pool, (&mut vec![(); self.rows_len], 1), 1, tiled, |i, _, row| {
            row[0].quantize(kernel, &x[i * cols..][..cols]);
        });
    }

    /// Quantizes each row of `x` twice: row `2i` becomes the codes of row `i`, and row `2i + 1` those of
    /// what the first leave of it, which is written to `errors`.
    ///
    /// # Panics
    ///
    /// Panics as [`quantize`](Self::quantize) does, and if `errors` is not as long as `x`.
    pub fn quantize_twice(
        &mut self,
        kernel: &dyn Kernel,
        pool: &Pool,
        x: &[f32],
        errors: &mut [f32],
        cols: usize,
    ) {
        assert_eq!(x.len(), errors.len(), "an error for each value");
        self.resize(2 * x.len(), cols);
        self.rows_per_token = 2;
        let tiled = self.uses_tiles(kernel);
        self.quantize_rows(pool, (errors, cols), 2, tiled, |i, errors, rows| {
            let [coarse, fine] = rows else { unreachable!("two rows in a job") };
            let x = &x[i * cols..][..cols];
            coarse.quantize(kernel, x);
            for ((error, x), &code) in errors.iter_mut().zip(x).zip(coarse.codes()) {
                *error = *x - f32::from(code) * coarse.scale();
            }
            fine.quantize(kernel, errors);
        });
    }

    /// As [`quantize`](Self::quantize), with a scale for each group of 128 columns.
    ///
    /// # Panics
    ///
    /// Panics as [`quantize`](Self::quantize) does.
    pub fn quantize_groups(&mut self, kernel: &dyn Kernel, pool: &Pool, x: &[f32], cols: usize) {
        self.resize(x.len(), cols);
        let tiled = self.uses_tiles(kernel);
        self.quantize_rows(pool, (&mut vec![(); self.rows_len], 1), 1, tiled, |i, _, row| {
            row[0].quantize_groups(kernel, &x[i * cols..][..cols]);
        });
    }

    /// As [`quantize`](Self::quantize), with another number in -½..½ added to each column before rounding.
    ///
    /// # Panics
    ///
    /// Panics as [`quantize`](Self::quantize) does.
    pub fn quantize_shifted(
        &mut self,
        kernel: &dyn Kernel,
        pool: &Pool,
        x: &[f32],
        shifts: &[f32],
    ) {
        let cols = shifts.len();
        self.resize(x.len(), cols);
        let tiled = self.uses_tiles(kernel);
        self.quantize_rows(pool, (&mut vec![(); self.rows_len], 1), 1, tiled, |i, _, row| {
            row[0].quantize_shifted(&x[i * cols..][..cols], shifts);
        });
    }

    /// As [`quantize`](Self::quantize), where each row is first normalized as
    /// [`rms_norm`](crate::FloatKernel::rms_norm) does.
    ///
    /// # Panics
    ///
    /// Panics as [`quantize`](Self::quantize) does.
    pub fn norm_and_quantize(
        &mut self,
        kernel: &dyn Kernel,
        pool: &Pool,
        x: &[f32],
        norm: RmsNorm<'_>,
    ) {
        let cols = norm.weight.len();
        self.resize(x.len(), cols);
        let tiled = self.uses_tiles(kernel);
        self.quantize_rows(pool, (&mut vec![(); self.rows_len], 1), 1, tiled, |i, _, row| {
            row[0].norm_and_quantize(kernel, &x[i * cols..][..cols], norm);
        });
    }

    /// Replaces the tokens by those of `from` with these indices, also in tiles if `tiled` and the kernel uses
    /// them.
    ///
    /// # Panics
    ///
    /// Panics if `from` has no such token, or if they exceed the capacity.
    pub fn gather(
        &mut self,
        kernel: &dyn Kernel,
        pool: &Pool,
        from: &Self,
        (tokens, tiled): (&[usize], bool),
    ) {
        let (cols, len) = (from.cols, from.rows_per_token);
        if from.has_floats() {
            self.resize(0, cols);
            let rows = tokens.iter().map(|token| &from.floats[token * cols..][..cols]);
            return rows.for_each(|row| self.floats.extend_from_slice(row));
        }
        self.resize(tokens.len() * len * cols, cols);
        self.rows_per_token = len;
        let copy = |i: usize, row: &mut QuantRow| {
            row.copy_from(&from.rows()[tokens[i / len] * len + i % len]);
        };
        let tiled = tiled && self.uses_tiles(kernel);
        if !tiled && self.rows_len <= MAX_ROWS_ALONE {
            self.tiles.clear();
            let rows = self.rows[..self.rows_len].iter_mut();
            return rows.enumerate().for_each(|(i, row)| copy(i, row));
        }
        self.quantize_rows(pool, (&mut vec![(); self.rows_len], 1), 1, tiled, |i, _, row| {
            copy(i, &mut row[0]);
        });
    }

    /// As [`quantize`](Self::quantize), or with `groups` as [`quantize_groups`](Self::quantize_groups), also to
    /// tiles, however few the rows.
    #[cfg(test)]
    pub(crate) fn quantize_to_tiles(
        &mut self,
        kernel: &dyn Kernel,
        pool: &Pool,
        (x, groups): (&[f32], bool),
        cols: usize,
    ) {
        self.resize(x.len(), cols);
        self.quantize_rows(pool, (&mut vec![(); self.rows_len], 1), 1, true, |i, _, row| {
            let x = &x[i * cols..][..cols];
            match groups {
                false => row[0].quantize(kernel, x),
                true => row[0].quantize_groups(kernel, x),
            }
        });
    }

    /// Returns `true` if the kernel multiplies so many rows by tiles.
    fn uses_tiles(&self, kernel: &dyn Kernel) -> bool {
        kernel.tile_kernel().is_some_and(|tiles| self.rows_len >= tiles.min_tokens())
    }

    /// Calls `quantize(i, x, rows)` with each row of `x`, a matrix given with its row length, and the next
    /// `rows_per_job` rows, and copies their codes to tiles if `tiled`.
    fn quantize_rows<T: Send>(
        &mut self,
        pool: &Pool,
        x: (&mut [T], usize),
        rows_per_job: usize,
        tiled: bool,
        quantize: impl Fn(usize, &mut [T], &mut [QuantRow]) + Sync,
    ) {
        let (zeroing, cols) = (self.zeroing, self.cols);
        let quantize = |i: usize, x: &mut [T], rows: &mut [QuantRow]| {
            quantize(i, x, rows);
            zeroing.apply(rows, cols);
        };
        let max_tiles = self.rows.first().map_or(0, QuantRow::max_runs);
        let max_rows = self.rows.len();
        let rows = &mut self.rows[..self.rows_len];
        if !tiled {
            self.tiles.clear();
            return pool.row_pairs(x, (rows, rows_per_job), quantize);
        }
        let tiles_per_band = self.cols.div_ceil(RUN);
        self.tiles.resize((rows.len(), max_rows), (tiles_per_band, max_tiles));
        let lines = self.tiles.lines_mut(rows.len().div_ceil(BAND));
        let tiles = (lines, BAND, (tiles_per_band, rows_per_job));
        pool.row_pairs_with_tiles(x, (rows, rows_per_job), tiles, |i, x, rows, mut tiles| {
            quantize(i, x, rows);
            for (place, row) in rows.iter().enumerate() {
                copy_codes(row, place, &mut tiles);
            }
        });
    }

    fn resize(&mut self, len: usize, cols: usize) {
        assert!(cols > 0 && len.is_multiple_of(cols), "whole rows of {cols} columns");
        (self.rows_len, self.rows_per_token, self.cols) = (len / cols, 1, cols);
        self.floats.clear();
    }

    /// Returns the number of tokens.
    pub fn tokens(&self) -> usize {
        match self.has_floats() {
            true => self.floats.len() / self.cols,
            false => self.rows_len / self.rows_per_token,
        }
    }

    /// Iterates over the magnitudes of all activations, token by token, as codes have them.
    pub fn magnitudes(&self) -> impl Iterator<Item = f32> {
        let of_codes = self.rows().chunks(self.rows_per_token);
        let of_codes = of_codes.flat_map(|rows| magnitudes(rows, self.cols));
        of_codes.chain(self.floats.iter().map(|x| x.abs()))
    }

    /// Returns the number of rows of codes of each token.
    pub fn rows_per_token(&self) -> usize {
        self.rows_per_token
    }

    /// Returns `true` if the activations have no codes.
    pub fn has_floats(&self) -> bool {
        !self.floats.is_empty()
    }

    /// Returns the activations, if they have no codes.
    pub(crate) fn floats(&self) -> &[f32] {
        &self.floats
    }

    /// Returns `true` if codes have a scale for each group of columns.
    pub(crate) fn has_groups(&self) -> bool {
        self.rows().first().is_some_and(|row| row.group_scales().is_some())
    }

    /// Returns the rows of the last [`quantize`](Self::quantize); none if activations have no codes.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::best;

    #[test]
    fn gathered_rows_are_those_of_the_source() {
        let pool = Pool::new(2);
        let x: Vec<f32> = (0..5 * 100).map(|i| (i * 41 % 255) as f32 - 127.0).collect();
        let (mut all, mut some) = (QuantBatch::new(5, 100), QuantBatch::new(8, 130));
        all.quantize(best(), &pool, &x, 100);
        some.gather(best(), &pool, &all, (&[4, 0, 4], true));
        assert_eq!((some.rows().len(), some.cols()), (3, 100));
        for (found, from) in some.rows().iter().zip([4, 0, 4]) {
            let expected = &all.rows()[from];
            assert_eq!(found.codes(), expected.codes());
            assert_eq!(found.sums_before(), expected.sums_before());
            assert_eq!((found.sum(), found.scale()), (expected.sum(), expected.scale()));
        }
    }

    #[test]
    fn every_code_is_in_its_tile() {
        let pool = Pool::new(2);
        for (tokens, cols) in [(37, 200), (1, 64), (16, 65), (40, 256)] {
            let x: Vec<f32> = (0..tokens * cols).map(|i| (i * 41 % 255) as f32 - 127.0).collect();
            let mut batch = QuantBatch::new(40, 256);
            batch.quantize_to_tiles(best(), &pool, (&x, false), cols);
            for (token, row) in batch.rows().iter().enumerate() {
                for (tile, run) in row.codes().as_chunks::<RUN>().0.iter().enumerate() {
                    let found = batch.tiles().band(token / BAND)[tile][token % BAND].0;
                    assert_eq!(&found.map(u8::cast_signed), run, "token {token}, tile {tile}");
                }
            }
            assert_eq!(batch.tiles().tiles_per_band(), cols.div_ceil(RUN));
        }
    }
}
