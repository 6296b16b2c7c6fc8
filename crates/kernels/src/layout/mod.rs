//! Memory layouts of trits.
//!
//! A **strip** is sixteen output rows. A **line** has 64 bytes: one strip by some columns. The lines of a
//! strip follow each other. In every layout, bytes `4n` to `4n + 3` of a line belong to row `n` of the
//! strip, and each part of byte `4n + q` to a column that is `q` more than a multiple of four. One part
//! of all bytes is therefore sixteen rows by four neighbouring columns, the operand of a byte dot
//! product with four activations broadcast to all rows, and no result is summed across a vector.
//!
//! A trit is stored as its **code**: the trit plus one. `docs/kernels.md` has pictures.

pub(crate) mod five_trits;
mod measured;
pub(crate) mod quad_lines;

use crate::line::Line;

/// The memory layout of trits. Products have the same bits in each layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Two bits per trit, in lines of sixteen rows by sixteen columns: the fastest to unpack.
    QuadLines,
    /// Five trits per byte, in lines of sixteen rows by twenty columns: the fewest bytes. Not available
    /// for matrices with a scale per group, because groups do not end between lines.
    FiveTrits,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 2] = [Self::QuadLines, Self::FiveTrits];

    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::QuadLines => "quad-lines",
            Self::FiveTrits => "five-trits",
        }
    }

    /// Returns the number of lines in a strip of `cols` columns. The last may end with zero trits.
    pub(crate) fn lines_per_strip(self, cols: usize) -> usize {
        match self {
            Self::QuadLines => quad_lines::lines_per_strip(cols),
            Self::FiveTrits => cols.div_ceil(five_trits::LINE_COLS),
        }
    }

    /// Returns a line of zero trits.
    pub(crate) fn zeros(self) -> Line {
        match self {
            Self::QuadLines => Line([quad_lines::ZERO_TRITS; 64]),
            Self::FiveTrits => Line([five_trits::ZERO_TRITS; 64]),
        }
    }

    /// Packs up to sixteen rows of `cols` trits into the lines of their strip.
    pub(crate) fn pack_strip(self, trits: &[i8], cols: usize, lines: &mut [Line]) {
        let strays = trits.iter().fold(false, |strays, trit| strays | !(-1..=1).contains(trit));
        assert!(!strays, "only -1, 0 and 1 are trits");
        for (n, row) in trits.chunks_exact(cols).enumerate() {
            match self {
                Self::QuadLines => pack_row(row, n, lines, quad_lines::pack_columns),
                Self::FiveTrits => pack_row(row, n, lines, five_trits::pack_columns),
            }
        }
    }

    /// Unpacks the trits of row `n` of a strip.
    pub(crate) fn unpack_row(self, n: usize, lines: &[Line], out: &mut [i8]) {
        match self {
            Self::QuadLines => unpack_row(n, lines, out, quad_lines::codes),
            Self::FiveTrits => unpack_row(n, lines, out, five_trits::codes),
        }
    }
}

fn pack_row<const COLS: usize>(
    row: &[i8],
    n: usize,
    lines: &mut [Line],
    pack_columns: impl Fn(&[i8; COLS]) -> [u8; 4],
) {
    let (whole, rest) = row.as_chunks::<COLS>();
    let mut last = [0; COLS];
    last[..rest.len()].copy_from_slice(rest);
    let columns = whole.iter().chain((!rest.is_empty()).then_some(&last));
    for (trits, line) in columns.zip(lines) {
        line.0[4 * n..][..4].copy_from_slice(&pack_columns(trits));
    }
}

/// Unpacks row `n` of a strip, whose bytes have the codes of `PARTS` columns, four apart.
fn unpack_row<const PARTS: usize>(
    n: usize,
    lines: &[Line],
    out: &mut [i8],
    codes: impl Fn(u8) -> [u8; PARTS],
) {
    for (line, out) in lines.iter().zip(out.chunks_mut(4 * PARTS)) {
        for (column, trit) in out.iter_mut().enumerate() {
            let (part, byte) = (column / 4, column % 4);
            *trit = codes(line.0[4 * n + byte])[part] as i8 - 1;
        }
    }
}
