//! Rows of floats by token: the embedding going in, the output head going out.
//!
//! Kept so that scores are those of the file's own values: floats as the file has them, bf16 and f16
//! being widened in the kernel, and block encodings (Q8_0, Q6_K, Q4_0) as codes of a byte with a
//! scale for every sixteen, which no kernel has to take apart.

use std::convert::Infallible;
use std::ops::Range;

use wf_formats::encoding::{CODES_PER_SCALE, decode_codes};
use wf_formats::{FloatEncoding, Pieces};
use wf_kernels::{CodeRows, FirstError, FloatRows, Kernel, Pool, Strip};
use wf_kernels::{half, prefer_huge_pages};

use crate::compute::Compute;

/// How many tokens one job of the head scores: large enough that a job outweighs handing it out, and
/// that what lies ahead of it in memory is nearly always its own.
const TOKENS_PER_JOB: usize = 128;

/// A row of `cols` floats for each token.
pub struct FloatTable {
    cols: usize,
    store: Store,
}

enum Store {
    F32(Vec<f32>),
    Bf16(Vec<u16>),
    F16(Vec<u16>),
    Codes { codes: Vec<i8>, scales: Vec<f32> },
}

impl FloatTable {
    /// A table of little-endian `bytes` in `encoding`, `row_size` of which are a row of `cols` floats:
    /// as many rows as there are whole ones. Made on all threads of `pool`, each of which is the first
    /// to write the memory of its part.
    pub fn new(
        pool: &Pool,
        encoding: FloatEncoding,
        (cols, row_size): (usize, usize),
        bytes: &[u8],
    ) -> Self {
        let shape = (bytes.len() / row_size, cols);
        if let FloatEncoding::Q8_0 | FloatEncoding::Q6K | FloatEncoding::Q4_0 = encoding {
            return Self { cols, store: codes_of(pool, encoding, (cols, row_size), bytes) };
        }
        let read = |piece, out: &mut [u8]| -> Result<(), Infallible> {
            out.copy_from_slice(&bytes[piece * Pieces::LEN..][..out.len()]);
            Ok(())
        };
        let Ok(table) = Self::read(pool, encoding, shape, read);
        table
    }

    /// A table of plain floats, little-endian, whose bytes `read` gives: in pieces of
    /// [`Pieces::LEN`], by their numbers, of which the last may be shorter.
    ///
    /// # Panics
    ///
    /// If `encoding` is one of blocks.
    pub fn read<E: Send>(
        pool: &Pool,
        encoding: FloatEncoding,
        (rows, cols): (usize, usize),
        read: impl Fn(usize, &mut [u8]) -> Result<(), E> + Sync,
    ) -> Result<Self, E> {
        let len = rows * cols;
        let store = match encoding {
            FloatEncoding::F32 => Store::F32(numbers(pool, len, read, f32::from_le_bytes)?),
            FloatEncoding::Bf16 => Store::Bf16(numbers(pool, len, read, u16::from_le_bytes)?),
            FloatEncoding::F16 => Store::F16(numbers(pool, len, read, u16::from_le_bytes)?),
            FloatEncoding::Q8_0 | FloatEncoding::Q6K | FloatEncoding::Q4_0 => {
                panic!("{encoding} is one of blocks, which pieces would cut")
            }
        };
        Ok(Self { cols, store })
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
            Store::Codes { codes, .. } => codes.len() / self.cols,
        }
    }

    /// Bytes held in memory.
    pub fn size_bytes(&self) -> usize {
        match &self.store {
            Store::F32(values) => size_of_val(&values[..]),
            Store::Bf16(values) | Store::F16(values) => size_of_val(&values[..]),
            Store::Codes { codes, scales } => codes.len() + size_of_val(&scales[..]),
        }
    }

    /// One row, widened.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let at = row * self.cols;
        match &self.store {
            Store::F32(values) => out.copy_from_slice(&values[at..][..self.cols]),
            Store::Bf16(values) => widen(&values[at..][..self.cols], half::bf16_to_f32, out),
            Store::F16(values) => widen(&values[at..][..self.cols], half::f16_to_f32, out),
            Store::Codes { codes, scales } => {
                let codes = codes[at..][..self.cols].as_chunks::<CODES_PER_SCALE>().0;
                let scales = &scales[at / CODES_PER_SCALE..];
                let outs = out.as_chunks_mut::<CODES_PER_SCALE>().0.iter_mut();
                for (out, (codes, scale)) in outs.zip(codes.iter().zip(scales)) {
                    for (out, &code) in out.iter_mut().zip(codes) {
                        *out = f32::from(code) * scale;
                    }
                }
            }
        }
    }

    /// Whether every value of a row is finite.
    pub(crate) fn row_is_finite(&self, row: usize, scratch: &mut [f32]) -> bool {
        // Numbers whose exponents are all ones are not finite.
        let none_has = |values: &[u16], exponent: u16| {
            let values = &values[row * self.cols..][..self.cols];
            !values.iter().fold(false, |any, value| any | (value & exponent == exponent))
        };
        match &self.store {
            Store::Bf16(values) => none_has(values, 0x7f80),
            Store::F16(values) => none_has(values, 0x7c00),
            Store::F32(_) | Store::Codes { .. } => {
                self.row(row, scratch);
                scratch.iter().all(|value| value.is_finite())
            }
        }
    }

    /// `out[t][v]` = row `v` · `hidden[t]`, for every token `v` of the vocabulary.
    pub(crate) fn scores(&self, cx: &Compute, hidden: &[f32], out: &mut [f32]) {
        cx.pool.strips(out, self.rows(), TOKENS_PER_JOB, |job, mut out| {
            let first = job * TOKENS_PER_JOB;
            self.score_rows(cx.kernel, first..first + out.width(), hidden, &mut out);
        });
    }

    /// `out[i]` = row `tokens[i]` · `x`: the same bits as [`scores`](Self::scores) gives.
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
            Store::Codes { codes, scales } => {
                let scales = &scales[span.start / CODES_PER_SCALE..span.end / CODES_PER_SCALE];
                kernel.code_dots(CodeRows { codes: &codes[span], scales }, xs, out);
            }
        }
    }
}

/// Plain numbers of `N` bytes.
fn numbers<T: Copy + Default + Send, const N: usize, E: Send>(
    pool: &Pool,
    len: usize,
    read: impl Fn(usize, &mut [u8]) -> Result<(), E> + Sync,
    from_bytes: impl Fn([u8; N]) -> T + Sync,
) -> Result<Vec<T>, E> {
    let mut values = zeros(len);
    let mut buffers = vec![vec![0; Pieces::LEN.min(len * N)]; pool.threads()];
    let first_error = FirstError::new();
    let piece_len = Pieces::LEN / N;
    pool.strips_with(&mut values, len, piece_len, &mut buffers, |piece, mut values, buffer| {
        let values = values.row(0);
        let bytes = &mut buffer[..values.len() * N];
        first_error.note(piece, read(piece, bytes));
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
            *value = from_bytes(*bytes);
        }
    });
    first_error.or(values)
}

/// Rows of a block encoding, which the file was checked to have.
fn codes_of(
    pool: &Pool,
    encoding: FloatEncoding,
    (cols, row_size): (usize, usize),
    bytes: &[u8],
) -> Store {
    let rows = bytes.len() / row_size;
    let groups = cols / CODES_PER_SCALE;
    let (mut codes, mut scales) = (zeros(rows * cols), zeros(rows * groups));
    pool.row_pairs((&mut codes, cols), (&mut scales, groups), |row, codes, scales| {
        decode_codes(encoding, &bytes[row * row_size..][..row_size], codes, scales)
            .expect("a row's size was checked when the file was opened");
    });
    Store::Codes { codes, scales }
}

/// Room for a table that is read from end to end: small pages would cost a quarter of the speed.
///
/// Zeros come from the system as pages that exist only once they are written.
fn zeros<T: Clone + Default>(len: usize) -> Vec<T> {
    let room = vec![T::default(); len];
    prefer_huge_pages(&room);
    room
}

fn widen(stored: &[u16], to_f32: impl Fn(u16) -> f32, out: &mut [f32]) {
    for (out, &stored) in out.iter_mut().zip(stored) {
        *out = to_f32(stored);
    }
}
