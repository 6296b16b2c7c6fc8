//! Matrices of small integer codes, in strips of lines; of eight bits in `int8.rs`, of four in
//! `nibble.rs`.

use std::marker::PhantomData;
use std::ops::Range;

use crate::arch::Lines;
use crate::line::{Line, MAX_COLS, STRIP};
use crate::quant::RUN;
use crate::{FirstError, Pool};

/// The encoding of codes in a line, in which row `n` of a strip has bytes `4n` to `4n + 3`.
pub trait Packing {
    /// Columns in a line.
    const LINE_COLS: usize;

    /// The byte of zero codes.
    const ZEROS: u8;

    /// The message for a code that is out of range.
    const OUT_OF_RANGE: &'static str;

    /// Returns `true` if `code` is in range.
    fn allows(code: i8) -> bool;

    /// Packs the codes of one row of a line, at most [`LINE_COLS`](Self::LINE_COLS) of them, into
    /// bytes of zero codes.
    fn pack(codes: &[i8], bytes: &mut [u8; 4]);

    /// Unpacks the first codes of one row of a line.
    fn unpack(bytes: [u8; 4], codes: &mut [i8]);
}

/// A matrix of codes. Their scales are up to the caller.
pub struct CodeMatrix<P> {
    rows: usize,
    cols: usize,
    /// Rows are padded to whole strips and columns to whole runs of codes, both with zeros.
    lines: Lines,
    packing: PhantomData<P>,
}

impl<P: Packing> CodeMatrix<P> {
    /// Creates a matrix from the codes that `read` returns, strip by strip on all threads of `pool`,
    /// each of which is the first to write the memory of its part.
    ///
    /// `read` gets a range of at most sixteen rows and writes their codes, row by row, over old ones.
    /// If strips cannot be read, the error of the first of them is returned.
    ///
    /// # Panics
    ///
    /// Panics if there are no columns or more than 131,072 (the limit of exact arithmetic), or if a
    /// code is out of range.
    pub fn read<E: Send>(
        pool: &Pool,
        (rows, cols): (usize, usize),
        read: impl Fn(Range<usize>, &mut [i8]) -> Result<(), E> + Sync,
    ) -> Result<Self, E> {
        assert!((1..=MAX_COLS).contains(&cols), "{cols} columns, allowed are 1 to {MAX_COLS}");
        let strip = (Line([P::ZEROS; 64]), lines_per_strip::<P>(cols));
        let lines = packed(pool, (rows, cols), strip, read, |codes, lines| {
            pack_strip::<P>(codes, cols, lines);
        })?;
        Ok(Self { rows, cols, lines, packing: PhantomData })
    }

    /// Returns the number of rows, without padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns, without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of strips of sixteen rows, the last of which may be padded.
    pub fn strips(&self) -> usize {
        self.rows.div_ceil(STRIP)
    }

    /// Returns the size of the codes in bytes, padding included.
    pub fn bytes_len(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Writes the codes of one row.
    pub fn unpack(&self, row: usize, out: &mut [i8]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.cols, "one code a column");
        let lines = self.strip_lines(row / STRIP).iter();
        for (line, out) in lines.zip(out.chunks_mut(P::LINE_COLS)) {
            P::unpack(line.0.as_chunks().0[row % STRIP], out);
        }
    }

    pub(crate) fn strip_lines(&self, strip: usize) -> &[Line] {
        let len = lines_per_strip::<P>(self.cols);
        &self.lines[strip * len..][..len]
    }

    /// Returns the number of rows of a strip, without padding.
    pub(crate) fn strip_height(&self, strip: usize) -> usize {
        self.rows.min(STRIP * (strip + 1)) - STRIP * strip
    }
}

fn lines_per_strip<P: Packing>(cols: usize) -> usize {
    cols.next_multiple_of(RUN) / P::LINE_COLS
}

fn pack_strip<P: Packing>(codes: &[i8], cols: usize, lines: &mut [Line]) {
    let strays = codes.iter().fold(false, |strays, &code| strays | !P::allows(code));
    assert!(!strays, "{}", P::OUT_OF_RANGE);
    for (n, row) in codes.chunks_exact(cols).enumerate() {
        for (codes, line) in row.chunks(P::LINE_COLS).zip(lines.iter_mut()) {
            P::pack(codes, &mut line.0.as_chunks_mut().0[n]);
        }
    }
}

/// Creates the lines of a matrix of `rows` by `cols`, strip by strip on all threads of `pool`.
///
/// `read` writes the numbers of at most sixteen rows, row by row, over old ones; `pack` turns them into
/// the lines of their strip, which hold `zeros` until then. If strips cannot be read, the error of the
/// first of them is returned.
pub(crate) fn packed<E: Send>(
    pool: &Pool,
    (rows, cols): (usize, usize),
    (zeros, lines_per_strip): (Line, usize),
    read: impl Fn(Range<usize>, &mut [i8]) -> Result<(), E> + Sync,
    pack: impl Fn(&[i8], &mut [Line]) + Sync,
) -> Result<Lines, E> {
    let strips = (rows.div_ceil(STRIP), lines_per_strip);
    let mut buffers = vec![vec![0; STRIP.min(rows) * cols]; pool.threads()];
    let first_error = FirstError::new();
    let lines = Lines::made(pool, zeros, strips, &mut buffers, |strip, lines, buffer| {
        let range = STRIP * strip..rows.min(STRIP * (strip + 1));
        let numbers = &mut buffer[..range.len() * cols];
        first_error.record(strip, read(range, numbers).map(|()| pack(numbers, lines)));
    });
    first_error.into_result(lines)
}
