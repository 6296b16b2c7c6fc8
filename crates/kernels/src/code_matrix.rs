//! Matrices of small integer codes, in strips of lines: what those of a byte (`int8.rs`) and of four
//! bits (`nibble.rs`) have in common.

use std::marker::PhantomData;
use std::ops::Range;

use crate::Pool;
use crate::arch::Lines;
use crate::line::{Line, MAX_COLS, STRIP, packed};
use crate::quant::RUN;

/// How codes lie in a line: row `n` of a strip has bytes `4n` to `4n + 3`.
pub trait Packing {
    /// Columns in a line.
    const LINE_COLS: usize;

    /// A byte of zeros.
    const ZEROS: u8;

    /// What to say to a code that there is not.
    const REFUSAL: &'static str;

    /// Whether there is such a code.
    fn allows(code: i8) -> bool;

    /// Puts the codes of one row of a line, at most [`LINE_COLS`](Self::LINE_COLS) of them, in its
    /// bytes, which hold zeros.
    fn pack(codes: &[i8], bytes: &mut [u8; 4]);

    /// The codes of one row of a line, as many as there is room for.
    fn unpack(bytes: [u8; 4], codes: &mut [i8]);
}

/// A matrix of codes. What a code of a row is worth is known to the caller.
pub struct CodeMatrix<P> {
    rows: usize,
    cols: usize,
    /// Rows are padded to whole strips and columns to whole runs of codes, both with zeros.
    lines: Lines,
    packing: PhantomData<P>,
}

impl<P: Packing> CodeMatrix<P> {
    /// A matrix of the codes that `read` gives, made strip by strip on all threads of `pool`, each of
    /// which is the first to write the memory of its part.
    ///
    /// `read` is given a range of at most sixteen rows and writes their codes, row by row. The
    /// buffer holds old codes when it comes. If some strips cannot be read, the error of the first
    /// of them is returned.
    ///
    /// # Panics
    ///
    /// If there are no columns or more than 131,072 (up to there the arithmetic is exact), or if
    /// `read` leaves a code that the matrix cannot hold.
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

    /// Rows, without padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Strips of sixteen rows, the last of which may be padded.
    pub fn strips(&self) -> usize {
        self.rows.div_ceil(STRIP)
    }

    /// Bytes of codes, padding included.
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

    /// The lines of one strip.
    pub(crate) fn strip_lines(&self, strip: usize) -> &[Line] {
        let len = lines_per_strip::<P>(self.cols);
        &self.lines[strip * len..][..len]
    }

    /// How many rows a strip has, padding not counted.
    pub(crate) fn strip_height(&self, strip: usize) -> usize {
        self.rows.min(STRIP * (strip + 1)) - STRIP * strip
    }
}

fn lines_per_strip<P: Packing>(cols: usize) -> usize {
    cols.next_multiple_of(RUN) / P::LINE_COLS
}

/// Packs up to sixteen rows of codes.
fn pack_strip<P: Packing>(codes: &[i8], cols: usize, lines: &mut [Line]) {
    let strays = codes.iter().fold(false, |strays, &code| strays | !P::allows(code));
    assert!(!strays, "{}", P::REFUSAL);
    for (n, row) in codes.chunks_exact(cols).enumerate() {
        for (codes, line) in row.chunks(P::LINE_COLS).zip(lines.iter_mut()) {
            P::pack(codes, &mut line.0.as_chunks_mut().0[n]);
        }
    }
}
