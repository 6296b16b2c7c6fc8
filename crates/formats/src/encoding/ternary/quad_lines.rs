//! Quad lines: the layout that kernels compute with, as it lies in a `.wf` file.
//!
//! Sixteen rows are a strip. A line is 64 bytes: one strip times sixteen columns, and bytes `4n` to
//! `4n + 3` of it are row `n`. Field `f` (bits `2f` and `2f + 1`) of byte `4n + q` of line `i` is column
//! `16i + 4f + q`. The lines of a strip are adjacent, and so are strips. Columns are padded to
//! multiples of 64 and rows to whole strips, both with zero trits. After the last line come the scales
//! as f32: one, one a row, or one a group, row after row.

use super::TernaryEncoding;
#[cfg(test)]
use super::codec::Position;
use super::codec::{BadByte, Bundles, Codec, Layout};
use super::fields::{bad_code, code_of, trit_of};
use super::scales::{ScaleFloat, ScaleUnit, ScalesAt, StoredScales};
use crate::encoding::error::EncodingError;
use wf_core::Scales;

const STRIP_ROWS: usize = 16;
/// Columns of a line.
const LINE_COLS: usize = 16;
/// Bytes of a line.
const LINE_LEN: usize = 64;
/// Columns are padded to a multiple of this.
const RUN_COLS: usize = 64;
/// Four zero trits.
const ZERO_TRITS: u8 = 0b01_01_01_01;

const NAME: &str = "quad lines";

impl TernaryEncoding {
    /// `.wf` files: two bits a trit in the order of the kernels, one f32 scale a tensor.
    pub const QUAD_LINES: Self = Self::new(&codec(NAME, "QUAD_LINES", ScaleUnit::Tensor));
    /// Quad lines with one scale a row.
    pub const QUAD_LINES_ROW: Self =
        Self::new(&codec("quad lines, one scale per row", "QUAD_LINES_ROW", ScaleUnit::Row));
    /// Quad lines with one scale per 64 columns.
    pub const QUAD_LINES_64: Self =
        Self::new(&codec("quad lines groups of 64", "QUAD_LINES_64", ScaleUnit::Group(64)));
    /// Quad lines with one scale per 128 columns.
    pub const QUAD_LINES_128: Self =
        Self::new(&codec("quad lines groups of 128", "QUAD_LINES_128", ScaleUnit::Group(128)));
    /// Quad lines with one scale per 256 columns.
    pub const QUAD_LINES_256: Self =
        Self::new(&codec("quad lines groups of 256", "QUAD_LINES_256", ScaleUnit::Group(256)));

    /// Returns the number of bytes before the scales of a matrix in quad lines.
    pub fn quad_lines_len(self, rows: usize, cols: usize) -> Option<usize> {
        match &self.codec.layout {
            Layout::Bundles(bundles) if self.name() == NAME => Some(bundles.len(rows, cols)),
            _ => None,
        }
    }

    /// Returns the quad lines that hold such scales. Groups of a length that kernels do not support
    /// are divided into shorter ones.
    pub(crate) fn quad_lines_for(scales: &Scales) -> Result<Self, EncodingError> {
        match scales {
            Scales::Tensor(_) => Ok(Self::QUAD_LINES),
            Scales::Rows(_) => Ok(Self::QUAD_LINES_ROW),
            Scales::Groups { len, .. } if len.is_multiple_of(256) => Ok(Self::QUAD_LINES_256),
            Scales::Groups { len, .. } if len.is_multiple_of(128) => Ok(Self::QUAD_LINES_128),
            Scales::Groups { len, .. } if len.is_multiple_of(64) => Ok(Self::QUAD_LINES_64),
            Scales::Groups { len: found, .. } => {
                let allowed = "64, 128 or 256";
                Err(EncodingError::GroupLen { encoding: NAME, allowed, found: *found })
            }
        }
    }
}

const fn codec(label: &'static str, wf_name: &'static str, unit: ScaleUnit) -> Codec {
    Codec {
        name: NAME,
        label,
        flag: None,
        gguf: None,
        wf_name: Some(wf_name),
        layout: Layout::Bundles(Bundles {
            rows: STRIP_ROWS,
            block_cols: RUN_COLS,
            block_len: RUN_COLS / LINE_COLS * LINE_LEN,
            padding: Some(ZERO_TRITS),
            scales: Some(StoredScales { unit, float: ScaleFloat::F32, at: ScalesAt::Tail(0) }),
            decode: decode_row,
            encode: encode_row,
            ..Bundles::DEFAULT
        }),
        #[cfg(test)]
        position: Some(|_, cols, r, c| {
            let line = r / 16 * cols.div_ceil(64) * 4 + c / 16;
            Position::Bits { byte: 64 * line + 4 * (r % 16) + c % 4, shift: c % 16 / 4 * 2 }
        }),
    }
}

/// Unpacks row `n` of a strip.
fn decode_row(strip: &[u8], n: usize, out: &mut [i8]) -> Result<(), BadByte> {
    let mut bad = 0;
    for (line, out) in strip.as_chunks::<LINE_LEN>().0.iter().zip(out.chunks_mut(LINE_COLS)) {
        let word = u32::from_le_bytes(line.as_chunks().0.get(n).copied().unwrap_or_default());
        bad |= threes(word);
        for (field, out) in out.chunks_mut(4).enumerate() {
            let codes = (word >> (2 * field) & 0x0303_0303).to_le_bytes();
            for (trit, code) in out.iter_mut().zip(codes) {
                *trit = trit_of(code);
            }
        }
    }
    if bad == 0 { Ok(()) } else { Err(first_bad(strip, n)) }
}

/// Sets a bit for each field that holds code 3.
fn threes(word: u32) -> u32 {
    word & word >> 1 & 0x5555_5555
}

#[cold]
fn first_bad(strip: &[u8], n: usize) -> BadByte {
    let bytes = strip.iter().enumerate().filter(|(at, _)| at % LINE_LEN / 4 == n);
    let mut fields = bytes.flat_map(|(at, &byte)| (0..4).map(move |field| (at, byte, field)));
    let bad = fields.find(|&(_, byte, field)| byte >> (2 * field) & 3 == 3);
    bad.map_or(bad_code(0, 0), |(at, _, field)| {
        bad_code(at, at / LINE_LEN * LINE_COLS + 4 * field + at % 4)
    })
}

/// Packs row `n` of a strip that holds zero trits.
fn encode_row(trits: &[i8], n: usize, strip: &mut [u8]) {
    let lines = strip.as_chunks_mut::<LINE_LEN>().0.iter_mut();
    for (line, trits) in lines.zip(trits.chunks(LINE_COLS)) {
        let mut codes = [code_of(0); LINE_COLS];
        for (code, &trit) in codes.iter_mut().zip(trits) {
            *code = code_of(trit);
        }
        let fields = codes.as_chunks::<4>().0.iter().enumerate();
        let word = fields.fold(0, |word, (f, quad)| word | u32::from_le_bytes(*quad) << (2 * f));
        if let Some(row) = line.as_chunks_mut().0.get_mut(n) {
            *row = word.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_divided_into_the_longest_supported() {
        let unit = |len| {
            let scales = Scales::Groups { len, values: Vec::new() };
            TernaryEncoding::quad_lines_for(&scales).ok().and_then(TernaryEncoding::scale_unit)
        };
        let found = [512, 256, 384, 128, 192, 64, 96, 32].map(unit);
        let group = |len| Some(ScaleUnit::Group(len));
        let [long, some, short] = [256, 128, 64].map(group);
        assert_eq!(found, [long, long, some, some, short, short, None, None]);
    }

    #[test]
    fn sizes_are_of_whole_strips_and_runs() {
        type E = TernaryEncoding;
        assert_eq!(E::QUAD_LINES.size(1, 1).unwrap(), 256 + 4);
        assert_eq!(E::QUAD_LINES_ROW.size(17, 65).unwrap(), 2 * 512 + 4 * 17);
        assert_eq!(E::QUAD_LINES_64.size(16, 128).unwrap(), 512 + 4 * 32);
        assert!(E::QUAD_LINES_64.size(16, 100).is_err());
        assert!(E::QUAD_LINES_ROW.size(usize::MAX / 2, 2).is_err());
    }

    #[test]
    fn reports_the_row_and_column_of_code_three() {
        let mut strip = [ZERO_TRITS; 256];
        strip[64 + 4 * 3 + 2] |= 3 << 4;
        let mut trits = [9; 64];
        for n in [0, 2, 4, 15] {
            assert_eq!(decode_row(&strip, n, &mut trits), Ok(()));
        }
        assert_eq!(decode_row(&strip, 3, &mut trits), Err(bad_code(78, 16 + 8 + 2)));
    }
}
