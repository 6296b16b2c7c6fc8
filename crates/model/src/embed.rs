//! Tables of floats by token: the embedding and the output head.
//!
//! Tables keep the values of the file: plain floats as stored, with bf16 and f16 widened in the kernel,
//! and block encodings (Q8_0, Q6_K, Q4_K, …) as byte codes with a scale for every sixteen, and a minimum
//! where the encoding has them.

use std::convert::Infallible;
use std::ops::Range;

use wf_formats::encoding::{CODES_PER_SCALE, decode_codes};
use wf_formats::{FloatEncoding, FloatKind, TensorChunks};
use wf_kernels::{CodeRows, FirstError, FloatRows, Kernel, Pool, Strip};
use wf_kernels::{half, prefer_huge_pages};

use crate::compute::Compute;

/// Number of tokens per job of the output head: large enough to outweigh the cost of a job, and for
/// prefetched memory to belong to the same job.
const TOKENS_PER_JOB: usize = 128;

/// A table with one row of floats per token.
pub struct FloatTable {
    cols: usize,
    store: Store,
}

enum Store {
    F32(Vec<f32>),
    Bf16(Vec<u16>),
    F16(Vec<u16>),
    Codes(Codes),
}

/// Rows of codes. Each has a scale for every sixteen, then as many minima if the encoding has them.
struct Codes {
    codes: Vec<i8>,
    scales: Vec<f32>,
    has_minima: bool,
}

impl Codes {
    /// Scales and minima of a row of `cols` codes.
    fn factors_per_row(&self, cols: usize) -> usize {
        cols / CODES_PER_SCALE * if self.has_minima { 2 } else { 1 }
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        let factors = self.factors_per_row(out.len());
        let scales = &self.scales[row * factors..][..factors];
        let minima = scales.get(out.len() / CODES_PER_SCALE..).unwrap_or_default();
        let codes = self.codes[row * out.len()..][..out.len()].as_chunks::<CODES_PER_SCALE>().0;
        let outs = out.as_chunks_mut::<CODES_PER_SCALE>().0.iter_mut();
        for (group, (out, (codes, scale))) in outs.zip(codes.iter().zip(scales)).enumerate() {
            let minimum = minima.get(group).copied().unwrap_or(0.0);
            for (out, &code) in out.iter_mut().zip(codes) {
                *out = f32::from(code) * scale - minimum;
            }
        }
    }
}

impl FloatTable {
    /// Creates a table of rows of `cols` floats from their little-endian `bytes` in `encoding`.
    ///
    /// Each thread of `pool` is the first to write its share of the memory, so on a NUMA machine the
    /// share is local to it.
    ///
    /// # Panics
    ///
    /// If the blocks of `encoding` do not divide `cols`.
    pub fn new(pool: &Pool, encoding: FloatEncoding, cols: usize, bytes: &[u8]) -> Self {
        let row_size = encoding.row_size(cols).expect("whole blocks in a row") as usize;
        if !encoding.is_plain() {
            return Self { cols, store: codes_of(pool, encoding, cols, row_size, bytes) };
        }
        let read = |piece, out: &mut [u8]| -> Result<(), Infallible> {
            out.copy_from_slice(&bytes[piece * TensorChunks::CHUNK_LEN..][..out.len()]);
            Ok(())
        };
        let Ok(table) = Self::read(pool, encoding, bytes.len() / row_size, cols, read);
        table
    }

    /// Creates a table of plain floats. `read` fills in the bytes, little-endian, of the chunk with a
    /// given index: [`TensorChunks::CHUNK_LEN`] bytes, or fewer for the last one.
    ///
    /// # Panics
    ///
    /// If `encoding` is a block encoding.
    pub fn read<E: Send>(
        pool: &Pool,
        encoding: FloatEncoding,
        rows: usize,
        cols: usize,
        read: impl Fn(usize, &mut [u8]) -> Result<(), E> + Sync,
    ) -> Result<Self, E> {
        let len = rows * cols;
        let store = match encoding.kind() {
            FloatKind::F32 => Store::F32(numbers(pool, len, read, f32::from_le_bytes)?),
            FloatKind::Bf16 => Store::Bf16(numbers(pool, len, read, u16::from_le_bytes)?),
            FloatKind::F16 => Store::F16(numbers(pool, len, read, u16::from_le_bytes)?),
            FloatKind::Blocks => {
                panic!("{encoding} is a block encoding: chunks may split its blocks")
            }
        };
        Ok(Self { cols, store })
    }

    /// Returns the number of floats in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match &self.store {
            Store::F32(values) => values.len() / self.cols,
            Store::Bf16(values) | Store::F16(values) => values.len() / self.cols,
            Store::Codes(rows) => rows.codes.len() / self.cols,
        }
    }

    /// Size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        match &self.store {
            Store::F32(values) => size_of_val(&values[..]),
            Store::Bf16(values) | Store::F16(values) => size_of_val(&values[..]),
            Store::Codes(rows) => rows.codes.len() + size_of_val(&rows.scales[..]),
        }
    }

    /// Writes one row, widened to f32.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let at = row * self.cols;
        match &self.store {
            Store::F32(values) => out.copy_from_slice(&values[at..][..self.cols]),
            Store::Bf16(values) => widen(&values[at..][..self.cols], half::bf16_to_f32, out),
            Store::F16(values) => widen(&values[at..][..self.cols], half::f16_to_f32, out),
            Store::Codes(rows) => rows.row(row, out),
        }
    }

    /// Returns `true` if every value of a row is finite.
    pub(crate) fn row_is_finite(&self, row: usize, scratch: &mut [f32]) -> bool {
        // A number is not finite if all bits of its exponent are set.
        let all_finite = |values: &[u16], exponent: u16| {
            let values = &values[row * self.cols..][..self.cols];
            !values.iter().fold(false, |any, value| any | (value & exponent == exponent))
        };
        match &self.store {
            Store::Bf16(values) => all_finite(values, 0x7f80),
            Store::F16(values) => all_finite(values, 0x7c00),
            Store::F32(_) | Store::Codes(_) => {
                self.row(row, scratch);
                scratch.iter().all(|value| value.is_finite())
            }
        }
    }

    /// Computes `out[t][v]` = row `v` · `hidden[t]`, for every token `v` of the vocabulary.
    pub(crate) fn scores(&self, cx: &Compute, hidden: &[f32], out: &mut [f32]) {
        cx.pool.strips(out, self.rows(), TOKENS_PER_JOB, |job, mut out| {
            let first = job * TOKENS_PER_JOB;
            self.score_rows(cx.kernel, first..first + out.width(), hidden, &mut out);
        });
    }

    /// Computes `out[i]` = row `tokens[i]` · `x`, with the same bits as [`scores`](Self::scores).
    pub(crate) fn scores_of(&self, cx: &Compute, tokens: &[u32], x: &[f32], out: &mut [f32]) {
        cx.pool.rows(out, 1, |i, out| {
            let row = tokens[i] as usize;
            self.score_rows(cx.kernel, row..row + 1, x, &mut Strip::new(out, 1, 1, 0));
        });
    }

    fn score_rows(
        &self,
        kernel: &dyn Kernel,
        rows: Range<usize>,
        xs: &[f32],
        out: &mut Strip<'_, f32>,
    ) {
        let span = rows.start * self.cols..rows.end * self.cols;
        match &self.store {
            Store::F32(values) => kernel.dots_many(FloatRows::F32(&values[span]), xs, out),
            Store::Bf16(values) => kernel.dots_many(FloatRows::Bf16(&values[span]), xs, out),
            Store::F16(values) => kernel.dots_many(FloatRows::F16(&values[span]), xs, out),
            Store::Codes(all) => {
                let factors = all.factors_per_row(self.cols);
                let scales = &all.scales[rows.start * factors..rows.end * factors];
                let has_minima = all.has_minima;
                kernel.code_dots(CodeRows { codes: &all.codes[span], scales, has_minima }, xs, out);
            }
        }
    }
}

/// Reads plain numbers of `N` bytes.
fn numbers<T: Copy + Default + Send, const N: usize, E: Send>(
    pool: &Pool,
    len: usize,
    read: impl Fn(usize, &mut [u8]) -> Result<(), E> + Sync,
    from_bytes: impl Fn([u8; N]) -> T + Sync,
) -> Result<Vec<T>, E> {
    let mut values = zeros(len);
    let mut buffers = vec![vec![0; TensorChunks::CHUNK_LEN.min(len * N)]; pool.threads()];
    let first_error = FirstError::new();
    let piece_len = TensorChunks::CHUNK_LEN / N;
    pool.strips_with(&mut values, len, piece_len, &mut buffers, |piece, mut values, buffer| {
        let values = values.row(0);
        let bytes = &mut buffer[..values.len() * N];
        first_error.record(piece, read(piece, bytes));
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
            *value = from_bytes(*bytes);
        }
    });
    first_error.into_result(values)
}

/// Decodes rows of a block encoding.
fn codes_of(
    pool: &Pool,
    encoding: FloatEncoding,
    cols: usize,
    row_size: usize,
    bytes: &[u8],
) -> Store {
    let rows = bytes.len() / row_size;
    let has_minima = encoding.has_minima();
    let mut all = Codes { codes: zeros(rows * cols), scales: Vec::new(), has_minima };
    let factors = all.factors_per_row(cols);
    all.scales = zeros(rows * factors);
    pool.row_pairs((&mut all.codes, cols), (&mut all.scales, factors), |row, codes, scales| {
        decode_codes(encoding, &bytes[row * row_size..][..row_size], codes, scales)
            .expect("a row holds whole blocks");
    });
    Store::Codes(all)
}

/// Allocates a table that is read from end to end, in huge pages: small ones cost a quarter of the
/// speed. Pages of zeros take no memory until they are written.
fn zeros<T: Clone + Default>(len: usize) -> Vec<T> {
    let values = vec![T::default(); len];
    prefer_huge_pages(&values);
    values
}

fn widen(stored: &[u16], to_f32: impl Fn(u16) -> f32, out: &mut [f32]) {
    for (out, &stored) in out.iter_mut().zip(stored) {
        *out = to_f32(stored);
    }
}
