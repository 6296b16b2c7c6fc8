//! Products of many tokens, for CPUs with a unit that multiplies tiles.
//!
//! A **tile** is sixteen rows of 64 bytes. A **band** is sixteen tokens, as a strip is sixteen output
//! rows. Tile `k` of a band holds the codes `64k..64k + 64` of its tokens, one token per row. The tiles
//! of a band follow each other, so that each is contiguous in memory.

use crate::line::STRIP;
use crate::quant::RUN;
use crate::{Pool, QuantRow};

/// Tokens in a band, and rows of a tile.
pub(crate) const BAND: usize = 16;

/// Output rows in a job of a [`TileKernel`](crate::TileKernel): two strips.
pub(crate) const PAIR: usize = 2 * STRIP;

/// Sixteen rows of 64 bytes, each of which is a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Tile(pub(crate) [[u8; RUN]; BAND]);

impl Tile {
    pub(crate) const ZERO: Self = Self([[0; RUN]; BAND]);
}

/// The codes of a batch in tiles.
#[derive(Clone, Debug, Default)]
pub(crate) struct TiledCodes {
    /// Allocated when first filled, for the largest possible batch. Rows of the last band without a
    /// token hold old codes.
    tiles: Vec<Tile>,
    /// Zero if there are no codes.
    tiles_per_band: usize,
}

impl TiledCodes {
    pub(crate) fn clear(&mut self) {
        self.tiles_per_band = 0;
    }

    /// Copies the codes of `rows`, which are equally long. Allocates `max_tiles` the first time.
    pub(crate) fn fill(&mut self, pool: &Pool, rows: &[QuantRow], max_tiles: usize) {
        if self.tiles.is_empty() {
            self.tiles = vec![Tile::ZERO; max_tiles];
        }
        self.tiles_per_band = rows.first().map_or(0, |row| row.codes().len() / RUN);
        let tiles = &mut self.tiles[..rows.len().div_ceil(BAND) * self.tiles_per_band];
        pool.rows(tiles, self.tiles_per_band, |band, tiles| {
            for (place, row) in rows[BAND * band..].iter().take(BAND).enumerate() {
                for (tile, run) in tiles.iter_mut().zip(row.codes().as_chunks().0) {
                    tile.0[place] = run.map(i8::cast_unsigned);
                }
            }
        });
    }

    /// Returns the number of tiles of a band, zero if there are no codes.
    pub(crate) fn tiles_per_band(&self) -> usize {
        self.tiles_per_band
    }

    #[cfg_attr(
        not(any(test, all(target_os = "linux", target_arch = "x86_64"))),
        expect(dead_code, reason = "no kernel for this target multiplies tiles")
    )]
    pub(crate) fn band(&self, band: usize) -> &[Tile] {
        &self.tiles[band * self.tiles_per_band..][..self.tiles_per_band]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_its_tile() {
        let pool = Pool::new(2);
        let mut tiled = TiledCodes::default();
        for (tokens, cols) in [(37, 200), (1, 64), (16, 65), (40, 256)] {
            let code = |token: usize, column: usize| (token * 41 + column * 3) as i8;
            let row = |token| (0..cols).map(|column| code(token, column)).collect::<Vec<_>>();
            let rows: Vec<_> = (0..tokens).map(|t| QuantRow::from_codes(&row(t), 1.0)).collect();
            tiled.fill(&pool, &rows, 3 * 4);
            for token in 0..tokens {
                for column in 0..cols.next_multiple_of(RUN) {
                    let tile = &tiled.band(token / BAND)[column / RUN];
                    let expected = if column < cols { code(token, column) } else { 0 };
                    assert_eq!(tile.0[token % BAND][column % RUN].cast_signed(), expected);
                }
            }
        }
        tiled.clear();
        assert_eq!(tiled.tiles_per_band(), 0);
    }
}
