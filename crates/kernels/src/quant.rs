//! Quantization of activations to int8: one scale per row, rounded half to even as Transformers does.

use crate::lanes::{F32x16, Simd};
use crate::tiles::{BAND, TiledCodes};
use crate::{Kernel, Pool};

/// Codes in a run. Each run has its own sum, so that the sum of any group of columns is known.
pub(crate) const RUN: usize = 64;

/// Smallest magnitude that a row is scaled by, as in the reference: a row of zeros stays zero.
const SMALLEST_ABSMAX: f32 = 1e-5;

#[inline(always)]
pub(crate) fn quantize<S: Simd>(cpu: S, x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32 {
    assert!(codes.len().is_multiple_of(RUN) && codes.len() >= x.len(), "whole runs, all of x");
    assert_eq!(sums.len() * RUN, codes.len(), "one sum per run");
    let absmax = absmax(cpu, x);
    // `max` would drop a NaN.
    let absmax = if absmax < SMALLEST_ABSMAX { SMALLEST_ABSMAX } else { absmax };
    let scale = 127.0 / absmax;

    let (chunks, tail) = x.as_chunks::<16>();
    let codes16 = codes.as_chunks_mut::<16>().0;
    for (x, codes) in chunks.iter().zip(codes16.iter_mut()) {
        round_to_codes(cpu, cpu.load(x), scale).store_i8(codes);
    }
    for (i, codes) in codes16[chunks.len()..].iter_mut().enumerate() {
        // Lanes without an element hold 0 * scale, which is NaN if the row has one, and are cleared.
        let tail = if i == 0 { tail } else { &[] };
        round_to_codes(cpu, cpu.load_tail(tail, 0.0), scale).store_i8(codes);
        codes[tail.len()..].fill(0);
    }
    for (sum, run) in sums.iter_mut().zip(codes.as_chunks::<RUN>().0) {
        *sum = run_sum(run);
    }
    1.0 / scale
}

#[inline(always)]
fn run_sum(codes: &[i8; RUN]) -> i32 {
    codes.iter().map(|&code| i32::from(code)).sum()
}

#[inline(always)]
fn absmax<S: Simd>(cpu: S, x: &[f32]) -> f32 {
    let (chunks, tail) = x.as_chunks::<16>();
    let mut max = cpu.splat(0.0).max_abs(cpu.load_tail(tail, 0.0));
    for chunk in chunks {
        max = max.max_abs(cpu.load(chunk));
    }
    let mut lanes = [0.0; 16];
    max.store(&mut lanes);
    // Magnitudes compare like their bits, and a NaN is above infinity.
    f32::from_bits(lanes.map(f32::to_bits).into_iter().fold(0, u32::max))
}

/// Rounds to codes. A NaN becomes -128; the scale of such a row is NaN, so the code does not matter.
#[inline(always)]
fn round_to_codes<S: Simd>(cpu: S, x: S::Lanes, scale: f32) -> S::Lanes {
    x.mul(cpu.splat(scale)).round().max(cpu.splat(-128.0)).min(cpu.splat(127.0))
}

/// One row of activations as int8 codes.
#[derive(Clone, Debug)]
pub struct QuantRow {
    codes: Vec<i8>,
    run_sums: Vec<i32>,
    sum: i32,
    scale: f32,
    padded_len: usize,
}

impl QuantRow {
    pub(crate) fn with_capacity(max_cols: usize) -> Self {
        let padded_len = max_cols.next_multiple_of(RUN);
        Self {
            codes: vec![0; padded_len],
            run_sums: vec![0; padded_len / RUN],
            sum: 0,
            scale: 0.0,
            padded_len: 0,
        }
    }

    /// Creates a row from codes.
    pub fn from_codes(codes: &[i8], scale: f32) -> Self {
        let mut row = Self::with_capacity(codes.len());
        row.codes[..codes.len()].copy_from_slice(codes);
        for (sum, run) in row.run_sums.iter_mut().zip(row.codes.as_chunks::<RUN>().0) {
            *sum = run_sum(run);
        }
        row.sum = row.run_sums.iter().sum();
        row.scale = scale;
        row.padded_len = row.codes.len();
        row
    }

    pub(crate) fn quantize(&mut self, kernel: &dyn Kernel, x: &[f32]) {
        self.padded_len = x.len().next_multiple_of(RUN);
        let codes = &mut self.codes[..self.padded_len];
        let run_sums = &mut self.run_sums[..self.padded_len / RUN];
        self.scale = kernel.quantize(x, codes, run_sums);
        self.sum = run_sums.iter().sum();
    }

    /// Returns the codes, padded with zeros to a multiple of 64.
    pub fn codes(&self) -> &[i8] {
        &self.codes[..self.padded_len]
    }

    /// Returns the factor from codes to values.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Returns the sum of all codes.
    pub fn sum(&self) -> i32 {
        self.sum
    }

    /// Returns the sum of each run of 64 codes.
    pub(crate) fn run_sums(&self) -> &[i32] {
        &self.run_sums[..self.padded_len / RUN]
    }
}

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
        let max_cols = self.rows.first().map_or(0, |row| row.codes.len());
        let max_tiles = self.rows.len().div_ceil(BAND) * (max_cols / RUN);
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
