//! The layout that kernels compute with, as it lies in our own file.
//!
//! Sixteen rows are a strip. A line is 64 bytes: one strip times sixteen columns, and bytes `4n` to
//! `4n + 3` of it are row `n`. Field `f` (bits `2f` and `2f + 1`) of byte `4n + q` of line `i` is column
//! `16i + 4f + q`. Lines of a strip follow each other, and so do strips. Columns are padded to whole
//! runs of 64 and rows to whole strips, both with zero trits. After the last line come the scales as
//! f32: one, one a row, or one a group, row after row.

use super::error::EncodingError;
use super::fields::{BadCode, code_of, trit_of};
use super::scales::ScaleUnit;

/// Rows of a strip.
pub(super) const STRIP_ROWS: usize = 16;
/// Columns of a line.
const LINE_COLS: usize = 16;
/// Bytes of a line.
const LINE_BYTES: usize = 64;
/// Columns are padded to a multiple of this.
const RUN_COLS: usize = 64;
/// Groups that kernels know.
const GROUP_LENS: [usize; 3] = [256, 128, 64];
/// Four zero trits.
pub(super) const ZERO_TRITS: u8 = 0b01_01_01_01;

const NAME: &str = "quad lines";

/// The longest groups that kernels know and that scales for `len` columns can be said with.
pub(super) fn group_len(len: usize) -> Option<usize> {
    GROUP_LENS.into_iter().find(|&known| len.is_multiple_of(known))
}

/// Bytes of one strip. No larger than `4 * cols + 256`, so it does not wrap.
pub(super) fn strip_bytes(cols: usize) -> usize {
    cols.div_ceil(RUN_COLS).saturating_mul(RUN_COLS / LINE_COLS * LINE_BYTES)
}

/// Bytes of all lines of a matrix.
pub(super) fn lines_bytes(rows: usize, cols: usize) -> usize {
    rows.div_ceil(STRIP_ROWS).saturating_mul(strip_bytes(cols))
}

/// Bytes of a matrix with its scales.
pub(super) fn size(unit: ScaleUnit, rows: usize, cols: usize) -> Result<u64, EncodingError> {
    let scales = match unit {
        ScaleUnit::Tensor => 1,
        ScaleUnit::Row => rows,
        ScaleUnit::Group(len) if !GROUP_LENS.contains(&len) => {
            return Err(EncodingError::GroupLen {
                encoding: NAME,
                allowed: "64, 128 or 256",
                found: len,
            });
        }
        ScaleUnit::Group(len) if !cols.is_multiple_of(len) => {
            let (axis, multiple) = ("columns", len);
            return Err(EncodingError::Shape { encoding: NAME, axis, multiple, found: cols });
        }
        ScaleUnit::Group(len) => rows.saturating_mul(cols / len),
    };
    let too_large = EncodingError::TooLarge { encoding: NAME, rows, cols };
    let size = lines_bytes(rows, cols).checked_add(scales.saturating_mul(size_of::<f32>()));
    // Trits are decoded to a byte each, and slices cannot be longer than this.
    let fits = [size, rows.checked_mul(cols)]
        .iter()
        .all(|len| len.is_some_and(|len| len <= isize::MAX as usize));
    size.filter(|_| fits).map(|size| size as u64).ok_or(too_large)
}

/// Unpacks row `n` of a strip.
pub(super) fn decode_row(strip: &[u8], n: usize, out: &mut [i8]) -> Result<(), BadCode> {
    let mut bad = 0;
    for (line, out) in strip.as_chunks::<LINE_BYTES>().0.iter().zip(out.chunks_mut(LINE_COLS)) {
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

/// A bit is set for each field that holds code 3.
fn threes(word: u32) -> u32 {
    word & word >> 1 & 0x5555_5555
}

#[cold]
fn first_bad(strip: &[u8], n: usize) -> BadCode {
    let bytes = strip.iter().enumerate().filter(|(at, _)| at % LINE_BYTES / 4 == n);
    let mut fields = bytes.flat_map(|(at, &byte)| (0..4).map(move |field| (at, byte, field)));
    let bad = fields.find(|&(_, byte, field)| byte >> (2 * field) & 3 == 3);
    bad.map_or(BadCode { byte: 0, col: 0 }, |(byte, _, field)| BadCode {
        byte,
        col: byte / LINE_BYTES * LINE_COLS + 4 * field + byte % 4,
    })
}

/// Packs row `n` of a strip that holds zero trits.
pub(super) fn encode_row(trits: &[i8], n: usize, strip: &mut [u8]) {
    let lines = strip.as_chunks_mut::<LINE_BYTES>().0.iter_mut();
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
    fn groups_are_said_with_the_longest_that_kernels_know() {
        let found = [512, 256, 384, 128, 192, 64, 96, 32].map(group_len);
        let (long, some, short) = (Some(256), Some(128), Some(64));
        assert_eq!(found, [long, long, some, some, short, short, None, None]);
    }

    #[test]
    fn sizes_are_of_whole_strips_and_runs() {
        assert_eq!(size(ScaleUnit::Tensor, 1, 1).unwrap(), 256 + 4);
        assert_eq!(size(ScaleUnit::Row, 17, 65).unwrap(), 2 * 512 + 4 * 17);
        assert_eq!(size(ScaleUnit::Group(64), 16, 128).unwrap(), 512 + 4 * 32);
        assert!(size(ScaleUnit::Group(32), 16, 128).is_err());
        assert!(size(ScaleUnit::Group(64), 16, 100).is_err());
        assert!(size(ScaleUnit::Row, usize::MAX / 2, 2).is_err());
    }

    #[test]
    fn a_code_of_three_is_found_in_its_own_row_and_column() {
        let mut strip = [ZERO_TRITS; 256];
        strip[64 + 4 * 3 + 2] |= 3 << 4;
        let mut trits = [9; 64];
        for n in [0, 2, 4, 15] {
            assert_eq!(decode_row(&strip, n, &mut trits), Ok(()));
        }
        assert_eq!(decode_row(&strip, 3, &mut trits), Err(BadCode { byte: 78, col: 16 + 8 + 2 }));
    }
}
