//! TL1 and TL2 (bitnet.cpp): nibbles that index lookup tables, arranged in tiles.
//!
//! The position of a trit depends on three numbers that a kernel was compiled with; files do not store
//! them.
//! With `pair` = 3 w0 + w1 + 4 (0 to 8) and `triple` = 9 w0 + 3 w1 + w2 (−13 to 13), slowest first:
//!
//! ```text
//! TL1   row tile, column tile, strip of rows, strip of 256 / strip columns, 16 rows, 4 columns, row
//!       one byte: four columns of a row, the first pair in the high nibble
//! TL2   columns up to the last whole column tile:
//!         row tile, column tile, 32 rows, 6 columns, row        high nibble: |triple| of columns 0–2
//!         then the signs: row tile, column tile, 32 rows, 24 columns, 16 words of 16 bits:
//!         triple q of row r in word r mod 16, bit 15 − (2 q + r / 16)
//!       the other columns, in tiles of 32:
//!         row tile, column tile, 32 rows, 4 columns, row        pairs, as in TL1
//!       in each run of 32 rows, bytes 8–15 and 16–23 are swapped
//! ```

use super::TernaryEncoding;
use super::codec::{Codec, Layout, Project, Tiled, Tiles, check_multiple};
use crate::encoding::error::{BadByte, EncodingError, Fault};

impl TernaryEncoding {
    /// bitnet.cpp on Arm: pairs of trits in tiles, the scale in a tensor of its own. Read only.
    pub const TL1: Self = Self::new(&Codec {
        gguf: Project::BitNet.gguf(38),
        ..Codec::new("TL1", Layout::Tiled(Tiled { size: Tiles::tl1_size, decode: decode_tl1 }))
    });

    /// bitnet.cpp on x86: triples of trits in tiles, the scale in a tensor of its own. Read only.
    pub const TL2: Self = Self::new(&Codec {
        gguf: Project::BitNet.gguf(39),
        ..Codec::new("TL2", Layout::Tiled(Tiled { size: Tiles::tl2_size, decode: decode_tl2 }))
    });

    /// Returns the encoding with these tiles, which only TL1 and TL2 use.
    #[must_use]
    pub fn with_tiles(self, tiles: Tiles) -> Self {
        Self { tiles, ..self }
    }
}

const TL1_STRIP: usize = 256;
/// Rows of a strip of TL2; the converter supports no other number.
const TL2_ROWS: usize = 32;
const TRIPLE_COLS: usize = 6;
const SIGN_COLS: usize = 24;
/// Columns of a tile after the last whole column tile.
const REST_COLS: usize = 32;
const PAIR_COLS: usize = 4;

impl Tiles {
    /// Bytes of a TL1 matrix.
    fn tl1_size(self, rows: usize, cols: usize) -> Result<u64, EncodingError> {
        let Self { rows: tile_rows, cols: tile_cols, strip } = self;
        let by = TL1_STRIP.checked_div(strip).unwrap_or(0);
        let cuts = strip.is_multiple_of(16) && by >= PAIR_COLS && by * strip == TL1_STRIP;
        self.check("TL1", cuts, tile_rows, tile_cols, strip, by)?;
        check_multiple("TL1", "rows", rows, tile_rows)?;
        check_multiple("TL1", "columns", cols, tile_cols)?;
        Ok((rows as u64).saturating_mul((cols / 4) as u64))
    }

    /// Bytes of a TL2 matrix, without the padding after it.
    fn tl2_size(self, rows: usize, cols: usize) -> Result<u64, EncodingError> {
        let cuts = self.strip == TL2_ROWS;
        self.check("TL2", cuts, self.rows, self.cols, TL2_ROWS, SIGN_COLS)?;
        check_multiple("TL2", "rows", rows, self.rows)?;
        check_multiple("TL2", "columns", cols % self.cols, REST_COLS)?;
        let rest = cols % self.cols;
        let triples = (rows as u64).saturating_mul(((cols - rest) / SIGN_COLS * 5) as u64);
        Ok(triples.saturating_add((rows as u64).saturating_mul((rest / 4) as u64)))
    }

    fn check(
        self,
        encoding: &'static str,
        cuts: bool,
        rows: usize,
        cols: usize,
        strip_rows: usize,
        strip_cols: usize,
    ) -> Result<(), EncodingError> {
        let whole = |len: usize, part: usize| part != 0 && len != 0 && len.is_multiple_of(part);
        if cuts && whole(rows, strip_rows) && whole(cols, strip_cols) {
            return Ok(());
        }
        Err(EncodingError::Tiles { encoding, rows, cols, strip: self.strip })
    }
}

/// Decodes one row of TL1; the shape has passed `tl1_size`.
fn decode_tl1(
    tiles: Tiles,
    bytes: &[u8],
    _rows: usize,
    row: usize,
    out: &mut [i8],
) -> Result<(), BadByte> {
    let Tiles { rows: tile_rows, cols: tile_cols, strip } = tiles;
    let by = TL1_STRIP / strip;
    let (tile, inside) = (row / tile_rows, row % tile_rows);
    let (strip_at, lane) = (inside / strip, inside % strip);
    let tiles_per_row = out.len() / tile_cols;
    let (fours, _) = out.as_chunks_mut::<PAIR_COLS>();
    for (at, four) in fours.iter_mut().enumerate() {
        let (col_tile, col) = (at * PAIR_COLS / tile_cols, at * PAIR_COLS % tile_cols);
        let strips = ((tile * tiles_per_row + col_tile) * (tile_rows / strip) + strip_at)
            * (tile_cols / by)
            + col / by;
        let groups = (strips * (strip / 16) + lane / 16) * (by / PAIR_COLS) + col % by / PAIR_COLS;
        pairs("TL1", bytes, groups * 16 + lane % 16, at * PAIR_COLS, four)?;
    }
    Ok(())
}

/// Decodes one row of TL2 out of `rows`; the shape has passed `tl2_size`.
fn decode_tl2(
    tiles: Tiles,
    bytes: &[u8],
    rows: usize,
    row: usize,
    out: &mut [i8],
) -> Result<(), BadByte> {
    let rest_cols = out.len() % tiles.cols;
    let triple_cols = out.len() - rest_cols;
    let (tile, inside) = (row / tiles.rows, row % tiles.rows);
    let (strip, lane) = (inside / TL2_ROWS, inside % TL2_ROWS);
    let strips = tiles.rows / TL2_ROWS;
    let (triples, rest) = out.split_at_mut(triple_cols);
    let signs_at = rows * triple_cols / TRIPLE_COLS;
    for (at, triple) in triples.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        let col = at * 3;
        let block = (tile * (triple_cols / tiles.cols) + col / tiles.cols) * strips + strip;
        let col_in = col % tiles.cols;
        let byte_at =
            (block * (tiles.cols / TRIPLE_COLS) + col_in / TRIPLE_COLS) * TL2_ROWS + swapped(lane);
        let value = bytes.get(byte_at).copied().unwrap_or(u8::MAX);
        let nibble = if col % TRIPLE_COLS == 0 { value >> 4 } else { value & 15 };
        let words = signs_at
            + (block * (tiles.cols / SIGN_COLS) + col_in / SIGN_COLS) * TL2_ROWS
            + lane % 16 * 2;
        let word = bytes.get(words..words + 2).and_then(|pair| pair.first_chunk()).copied();
        let word = u16::from_le_bytes(word.unwrap_or_default());
        let negative = word >> (15 - (2 * (col_in % SIGN_COLS / 3) + lane / 16)) & 1 == 1;
        if nibble > 13 || (nibble == 0 && negative) {
            return Err(bad_tile("TL2", byte_at, col, value));
        }
        let number = if negative { 13 - nibble } else { 13 + nibble };
        *triple = [number / 9, number / 3 % 3, number % 3].map(|digit| digit as i8 - 1);
    }
    let rest_at = signs_at + rows * triple_cols / SIGN_COLS;
    for (at, four) in rest.as_chunks_mut::<PAIR_COLS>().0.iter_mut().enumerate() {
        let col = at * PAIR_COLS;
        let block = (tile * (rest_cols / REST_COLS) + col / REST_COLS) * strips + strip;
        let strip_at = block * (REST_COLS / PAIR_COLS) + col % REST_COLS / PAIR_COLS;
        let byte_at = rest_at + strip_at * TL2_ROWS + swapped(lane);
        pairs("TL2", bytes, byte_at, triple_cols + col, four)?;
    }
    Ok(())
}

fn bad_tile(encoding: &'static str, offset: usize, col: usize, byte: u8) -> BadByte {
    BadByte::new(offset, col, Fault::Tile { encoding, byte })
}

/// Decodes the two pairs of a byte.
fn pairs(
    encoding: &'static str,
    bytes: &[u8],
    at: usize,
    col: usize,
    out: &mut [i8; 4],
) -> Result<(), BadByte> {
    let value = bytes.get(at).copied().unwrap_or(u8::MAX);
    let (first, second) = (value >> 4, value & 15);
    if first > 8 || second > 8 {
        return Err(bad_tile(encoding, at, col, value));
    }
    *out = [first / 3, first % 3, second / 3, second % 3].map(|digit| digit as i8 - 1);
    Ok(())
}

/// The position of a row among 32 of which the second and third eight are swapped.
fn swapped(lane: usize) -> usize {
    match lane / 8 {
        1 => lane + 8,
        2 => lane - 8,
        _ => lane,
    }
}
