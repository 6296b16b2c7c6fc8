//! Products of many tokens, for CPUs with a unit that multiplies tiles.
//!
//! A **tile** is sixteen rows of 64 bytes. A **band** is sixteen tokens, as a strip is sixteen output
//! rows. Tile `k` of a band holds the codes `64k..64k + 64` of its tokens, one token per row. The tiles
//! of a band follow each other, so that each is contiguous in memory.

use crate::arch::numbers_mut;
use crate::line::{Line, STRIP};
use crate::quant::RUN;
use crate::{QuantRow, Strip};

/// Tokens in a band, and rows of a tile.
pub(crate) const BAND: usize = 16;

/// Output rows in a job of a [`TileKernel`](crate::TileKernel): two strips.
pub const PAIR: usize = 2 * STRIP;

/// Sixteen rows of 64 bytes, each of which is a cache line.
pub(crate) type Tile = [Line; BAND];

/// The codes of a batch in tiles.
#[derive(Clone, Debug, Default)]
pub(crate) struct TiledCodes {
    /// The rows of all tiles. Allocated when first used, for the largest possible batch. Rows of the
    /// last band without a token hold old codes.
    lines: Vec<Line>,
    /// Zero if there are no codes.
    tiles_per_band: usize,
}

impl TiledCodes {
    pub(crate) fn clear(&mut self) {
        self.tiles_per_band = 0;
    }

    /// Prepares for `tokens` tokens of `tiles_per_band` tiles each. Allocates the first time, for
    /// `max_tokens` tokens of `max_tiles` tiles.
    pub(crate) fn resize(
        &mut self,
        (tokens, max_tokens): (usize, usize),
        (tiles_per_band, max_tiles): (usize, usize),
    ) {
        assert!(tokens <= max_tokens && tiles_per_band <= max_tiles, "no more than allocated");
        if self.lines.is_empty() {
            self.lines = vec![Line([0; RUN]); max_tokens.div_ceil(BAND) * BAND * max_tiles];
        }
        self.tiles_per_band = tiles_per_band;
    }

    /// Returns the tiles of the first `bands` bands, row by row: row `r` of tile `k` of band `b` is line
    /// `r` of row `b * tiles_per_band + k` of a matrix of rows of [`BAND`] lines.
    pub(crate) fn lines_mut(&mut self, bands: usize) -> &mut [Line] {
        &mut self.lines[..bands * self.tiles_per_band * BAND]
    }

    /// Returns the number of tiles of a band, zero if there are no codes.
    pub(crate) fn tiles_per_band(&self) -> usize {
        self.tiles_per_band
    }

    /// Returns the tiles of a band.
    #[cfg_attr(
        not(any(test, all(target_os = "linux", target_arch = "x86_64"))),
        expect(dead_code, reason = "no kernel for this target multiplies tiles")
    )]
    pub(crate) fn band(&self, band: usize) -> &[Tile] {
        &self.lines.as_chunks().0[band * self.tiles_per_band..][..self.tiles_per_band]
    }
}

/// Copies the codes of a row to line `place` of each tile.
pub(crate) fn copy_codes(row: &QuantRow, place: usize, tiles: &mut Strip<'_, Line>) {
    for (tile, run) in row.codes().as_chunks::<RUN>().0.iter().enumerate() {
        numbers_mut(std::slice::from_mut(&mut tiles.row(tile)[place])).copy_from_slice(run);
    }
}
