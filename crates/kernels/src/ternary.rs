//! Matrices of trits in the layout the kernels read.
//!
//! A **strip** is sixteen output rows. A **line** is 64 bytes: one strip times sixteen columns, two
//! bits a trit, holding the trit plus one. Byte `4n + q` of line `i` belongs to row `n` of the strip,
//! and its field `j` (bits `2j` and `2j + 1`) to column `16i + 4j + q`:
//!
//! ```text
//!             bits 1:0      bits 3:2      bits 5:4      bits 7:6
//! byte 4n+q   16i +  0 + q  16i +  4 + q  16i +  8 + q  16i + 12 + q      <- columns of row n
//! ```
//!
//! So masking one field of a line gives sixteen rows times four neighbouring columns, which is what
//! a four-way byte dot product wants against four activations broadcast to all rows; no result ever
//! has to be summed across a vector. The lines of a strip lie one after the other.

use std::ops::Range;

use crate::Pool;
use crate::arch::Lines;
use crate::line::{Line, MAX_COLS, STRIP, fill};
use crate::quant::RUN;

/// Columns in a line.
pub(crate) const LINE_COLS: usize = 16;

/// Four fields that all hold code 1, the zero trit.
pub(crate) const ZERO_TRITS: u8 = 0b01_01_01_01;

/// What a trit is multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// One scale for the whole matrix.
    Tensor(f32),
    /// One scale for every row.
    Rows(Vec<f32>),
    /// One scale for every `len` trits of a row; the last group of a row may be shorter.
    Groups {
        /// 64, 128 or 256.
        len: usize,
        /// Row by row, and within a row group by group.
        values: Vec<f32>,
    },
}

/// [`Scales`] as kernels read them: those of the sixteen rows of a strip side by side.
pub(crate) enum StripScales {
    Tensor(f32),
    /// Strip by strip.
    Rows(Vec<[f32; STRIP]>),
    /// Strip by strip, and within a strip group by group.
    Groups {
        len: usize,
        values: Vec<[f32; STRIP]>,
    },
}

impl StripScales {
    fn new(scales: Scales, rows: usize, cols: usize) -> Self {
        match scales {
            Scales::Tensor(scale) => Self::Tensor(scale),
            Scales::Rows(values) => {
                assert_eq!(values.len(), rows, "one scale a row");
                Self::Rows(side_by_side(&values, 1))
            }
            Scales::Groups { len, values } => {
                assert!([64, 128, 256].contains(&len), "groups of {len}, allowed are 64, 128, 256");
                let groups = cols.div_ceil(len);
                assert_eq!(values.len(), rows * groups, "one scale a group");
                Self::Groups { len, values: side_by_side(&values, groups) }
            }
        }
    }
}

/// From row by row, each with its `groups`, to strip by strip. Rows of padding get zeros.
fn side_by_side(values: &[f32], groups: usize) -> Vec<[f32; STRIP]> {
    let strips = values.chunks(STRIP * groups);
    let scale = |strip: &[f32], group, row| strip.get(row * groups + group).copied().unwrap_or(0.0);
    strips
        .flat_map(|strip| {
            (0..groups).map(move |group| std::array::from_fn(|row| scale(strip, group, row)))
        })
        .collect()
}

/// How trits lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Two bits a trit, in lines of sixteen rows by sixteen columns.
    QuadLines,
}

/// A matrix of trits with its scales.
pub struct TernaryMatrix {
    rows: usize,
    cols: usize,
    scales: StripScales,
    layout: Layout,
    /// Rows are padded to whole strips and columns to whole runs of codes, both with zero trits.
    lines: Lines,
}

impl TernaryMatrix {
    /// A matrix of zero trits.
    ///
    /// # Panics
    ///
    /// If there are no columns or more than 131,072 (up to there the arithmetic is exact), or if the
    /// scales do not fit the shape.
    pub fn new(rows: usize, cols: usize, scales: Scales) -> Self {
        assert!((1..=MAX_COLS).contains(&cols), "{cols} columns, allowed are 1 to {MAX_COLS}");
        let scales = StripScales::new(scales, rows, cols);
        let lines_len = rows.div_ceil(STRIP) * lines_per_strip(cols);
        let lines = Lines::filled(Line([ZERO_TRITS; 64]), lines_len);
        Self { rows, cols, scales, layout: Layout::QuadLines, lines }
    }

    /// Output rows, without padding.
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

    /// How the trits lie in memory.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Bytes of packed trits, padding included, scales not.
    pub fn bytes_len(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Packs the whole matrix, strip by strip, on all threads of `pool`.
    ///
    /// `read` is given a range of rows and writes their trits, row by row. The buffer holds old
    /// trits when it comes. If some strips cannot be read, the error of the first of them is
    /// returned and the content of the matrix is anything.
    ///
    /// # Panics
    ///
    /// If `read` leaves a number that is not -1, 0 or 1.
    pub fn fill<E: Send>(
        &mut self,
        pool: &Pool,
        read: impl Fn(Range<usize>, &mut [i8]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let cols = self.cols;
        let pack = |trits: &[i8], lines: &mut [Line]| pack_strip(trits, cols, lines);
        fill(pool, &mut self.lines, (self.rows, cols), read, pack)
    }

    /// Writes the trits of one row.
    pub fn unpack(&self, row: usize, out: &mut [i8]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.cols, "one trit a column");
        let place = 4 * (row % STRIP);
        for (line, out) in self.strip_lines(row / STRIP).iter().zip(out.chunks_mut(LINE_COLS)) {
            for (column, trit) in out.iter_mut().enumerate() {
                let (field, byte) = (column / 4, column % 4);
                let code = line.0[place + byte] >> (2 * field) & 3;
                *trit = code as i8 - 1;
            }
        }
    }

    /// The lines of one strip.
    pub(crate) fn strip_lines(&self, strip: usize) -> &[Line] {
        let len = lines_per_strip(self.cols);
        &self.lines[strip * len..][..len]
    }

    /// What the trits are multiplied by.
    pub(crate) fn scales(&self) -> &StripScales {
        &self.scales
    }

    /// The rows that strip `strip` has, padding not counted.
    pub(crate) fn strip_rows(&self, strip: usize) -> Range<usize> {
        STRIP * strip..self.rows.min(STRIP * (strip + 1))
    }
}

fn lines_per_strip(cols: usize) -> usize {
    cols.next_multiple_of(RUN) / LINE_COLS
}

/// Packs up to sixteen rows of trits.
fn pack_strip(trits: &[i8], cols: usize, lines: &mut [Line]) {
    let strays = trits.iter().fold(false, |strays, trit| strays | !(-1..=1).contains(trit));
    assert!(!strays, "only -1, 0 and 1 are trits");
    for (n, row) in trits.chunks_exact(cols).enumerate() {
        let (whole, rest) = row.as_chunks::<LINE_COLS>();
        let mut last = [0; LINE_COLS];
        last[..rest.len()].copy_from_slice(rest);
        let columns = whole.iter().chain((!rest.is_empty()).then_some(&last));
        for (trits, line) in columns.zip(lines.iter_mut()) {
            line.0[4 * n..][..4].copy_from_slice(&pack_columns(trits));
        }
    }
}

/// The four bytes of one row in one line. Codes are at most two bits wide, so four bytes are
/// shifted at once without touching each other.
fn pack_columns(trits: &[i8; LINE_COLS]) -> [u8; 4] {
    let mut packed = 0;
    for (field, quad) in trits.as_chunks::<4>().0.iter().enumerate() {
        let codes = u32::from_le_bytes(quad.map(|trit| (trit + 1) as u8));
        packed |= codes << (2 * field);
    }
    packed.to_le_bytes()
}
