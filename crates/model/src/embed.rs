//! Rows of floats by token: the embedding going in, the output head going out.
//!
//! Kept as the file stores them, so that scores are those of the file's own values: bf16 and f16
//! are widened in the kernel, block encodings (Q8_0, Q6_K, Q4_0) a row at a time.

use std::ops::Range;

use wf_formats::FloatEncoding;
use wf_formats::encoding::decode_floats;
use wf_kernels::{FloatRows, half};

use crate::compute::Compute;

/// How many tokens one job of the head scores: large enough that a job outweighs handing it out,
/// small enough that its rows stay in cache while several rows of hidden state pass over them.
const TOKENS_PER_JOB: usize = 32;

/// A row of `cols` floats for each token.
pub struct FloatTable {
    cols: usize,
    store: Store,
}

enum Store {
    F32(Vec<f32>),
    Bf16(Vec<u16>),
    F16(Vec<u16>),
    Blocks { encoding: FloatEncoding, row_size: usize, bytes: Vec<u8> },
}

impl FloatTable {
    /// A table of little-endian bytes in `encoding`, as many rows as there are whole ones.
    ///
    /// `row_size` is the size in bytes of one row of `cols` floats.
    pub fn new(encoding: FloatEncoding, cols: usize, row_size: usize, bytes: &[u8]) -> Self {
        let halves = || bytes.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
        let store = match encoding {
            FloatEncoding::F32 => {
                Store::F32(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
            }
            FloatEncoding::Bf16 => Store::Bf16(halves()),
            FloatEncoding::F16 => Store::F16(halves()),
            FloatEncoding::Q8_0 | FloatEncoding::Q6K | FloatEncoding::Q4_0 => {
                Store::Blocks { encoding, row_size, bytes: bytes.to_vec() }
            }
        };
        Self { cols, store }
    }

    /// Floats in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        match &self.store {
            Store::F32(values) => values.len() / self.cols,
            Store::Bf16(values) | Store::F16(values) => values.len() / self.cols,
            Store::Blocks { row_size, bytes, .. } => bytes.len() / row_size,
        }
    }

    /// Bytes held in memory.
    pub fn size_bytes(&self) -> usize {
        match &self.store {
            Store::F32(values) => size_of_val(&values[..]),
            Store::Bf16(values) | Store::F16(values) => size_of_val(&values[..]),
            Store::Blocks { bytes, .. } => bytes.len(),
        }
    }

    /// One row, widened.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let at = row * self.cols;
        match &self.store {
            Store::F32(values) => out.copy_from_slice(&values[at..][..self.cols]),
            Store::Bf16(values) => widen(&values[at..][..self.cols], half::bf16_to_f32, out),
            Store::F16(values) => widen(&values[at..][..self.cols], half::f16_to_f32, out),
            Store::Blocks { encoding, row_size, bytes } => {
                decode_floats(*encoding, &bytes[row * row_size..][..*row_size], out)
                    .expect("a row's size was checked when the file was opened");
            }
        }
    }

    /// Whether every value of a row is finite.
    pub(crate) fn row_is_finite(&self, row: usize, scratch: &mut [f32]) -> bool {
        self.row(row, scratch);
        scratch.iter().all(|value| value.is_finite())
    }

    /// `out[t][v]` = row `v` · `hidden[t]`, for every token `v` of the vocabulary.
    pub(crate) fn scores(
        &self,
        cx: &Compute,
        hidden: &[f32],
        out: &mut [f32],
        row_buffers: &mut [Vec<f32>],
    ) {
        cx.pool.strips_with(
            out,
            self.rows(),
            TOKENS_PER_JOB,
            row_buffers,
            |job, mut out, buffer| {
                let first = job * TOKENS_PER_JOB;
                if let Some(rows) = self.stored_rows(first..first + out.width()) {
                    return cx.kernel.dots_many(rows, hidden, &mut out);
                }
                for row in 0..out.width() {
                    self.row(first + row, buffer);
                    for (t, x) in hidden.chunks_exact(self.cols).enumerate() {
                        cx.kernel.dots(FloatRows::F32(buffer), x, &mut out.row(t)[row..=row]);
                    }
                }
            },
        );
    }

    /// `out[i]` = row `tokens[i]` · `x`: the same bits as [`scores`](Self::scores) gives.
    pub(crate) fn scores_of(
        &self,
        cx: &Compute,
        tokens: &[u32],
        x: &[f32],
        out: &mut [f32],
        row_buffers: &mut [Vec<f32>],
    ) {
        cx.pool.rows_with(out, 1, row_buffers, |i, out, buffer| {
            let row = tokens[i] as usize;
            let stored = self.stored_rows(row..row + 1).unwrap_or_else(|| {
                self.row(row, buffer);
                FloatRows::F32(buffer)
            });
            cx.kernel.dots(stored, x, out);
        });
    }

    /// Rows that kernels can read as they are.
    fn stored_rows(&self, rows: Range<usize>) -> Option<FloatRows<'_>> {
        let span = rows.start * self.cols..rows.end * self.cols;
        match &self.store {
            Store::F32(values) => Some(FloatRows::F32(&values[span])),
            Store::Bf16(values) => Some(FloatRows::Bf16(&values[span])),
            Store::F16(values) => Some(FloatRows::F16(&values[span])),
            Store::Blocks { .. } => None,
        }
    }
}

fn widen(stored: &[u16], to_f32: impl Fn(u16) -> f32, out: &mut [f32]) {
    for (out, &stored) in out.iter_mut().zip(stored) {
        *out = to_f32(stored);
    }
}
