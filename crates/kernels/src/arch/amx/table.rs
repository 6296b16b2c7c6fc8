//! Dot products of two strips of a table of codes and many rows of activations.

use std::cell::RefCell;
use std::ops::Range;

use super::Amx;
use super::tiles::{NIBBLE_TILE_LINES, SumTile, Tiles, WeightTiles, unpack_nibbles};
use crate::code_matrix::{CodeMatrix, Packing};
use crate::int8::BIAS;
use crate::line::{Line, STRIP};
use crate::quant::RUN;
use crate::tiles::{BAND, PAIR, Tile};
use crate::{Int8Matrix, NibbleMatrix, QuantBatch, QuantRow, Strip};

/// Tiles of a strip that all bands are multiplied by before the next ones: those of two strips, with a byte for each
/// code, take 16 KiB of the first-level cache.
const CHUNK: usize = 8;

/// Bands whose sums are kept while a chunk is multiplied.
const BANDS: usize = 4;

/// The buffers of a thread.
struct Work {
    /// Unpacked codes of the two strips in turns.
    codes: [[Tile; 2]; CHUNK],
    /// The sums of each band, for the two strips.
    sums: [[SumTile; 2]; BANDS],
}

thread_local! {
    static WORK: RefCell<Work> = const {
        RefCell::new(Work {
            codes: [[[Line([0; RUN]); BAND]; 2]; CHUNK],
            sums: [[SumTile::ZERO; 2]; BANDS],
        })
    };
}

/// See [`TileKernel::int8_dots`](crate::TileKernel::int8_dots).
pub(super) fn int8_dots(
    cpu: Amx,
    w: &Int8Matrix,
    pair: usize,
    xs: &QuantBatch,
    y: &mut Strip<'_, i32>,
) {
    let strips = both_strips(w, pair).map(|strip| w.strip_lines(strip).as_chunks().0);
    let columns = check_shape(w, strips[0].len(), pair, xs, y);
    let surplus = |x: &QuantRow| i32::from(BIAS) * x.sum();
    for_each_pass(cpu, xs, y, surplus, |tiles, first, work| {
        for chunk in chunks(columns) {
            let weights = WeightTiles::Separate(strips.map(|strip| &strip[chunk.clone()]));
            add_bands(tiles, (xs, first), chunk, weights, work.1);
        }
    });
}

/// See [`TileKernel::nibble_dots`](crate::TileKernel::nibble_dots).
pub(super) fn nibble_dots(
    cpu: Amx,
    w: &NibbleMatrix,
    pair: usize,
    xs: &QuantBatch,
    y: &mut Strip<'_, i32>,
) {
    let strips =
        both_strips(w, pair).map(|strip| w.strip_lines(strip).as_chunks::<NIBBLE_TILE_LINES>().0);
    let columns = check_shape(w, strips[0].len(), pair, xs, y);
    for_each_pass(
        cpu,
        xs,
        y,
        |_| 0,
        |tiles, first, (codes, sums)| {
            for chunk in chunks(columns) {
                let codes = &mut codes[..chunk.len()];
                for (codes, column) in codes.iter_mut().zip(chunk.clone()) {
                    for (codes, strip) in codes.iter_mut().zip(strips) {
                        // SAFETY: `cpu` exists, so the CPU has the features.
                        unsafe { unpack_nibbles(&strip[column], codes) };
                    }
                }
                let weights = WeightTiles::Interleaved(codes);
                add_bands(tiles, (xs, first), chunk, weights, sums);
            }
        },
    );
}

/// Returns both strips of a pair; a single strip is returned twice.
fn both_strips<P: Packing>(w: &CodeMatrix<P>, pair: usize) -> [usize; 2] {
    [2 * pair, (2 * pair + 1).min(w.strips() - 1)]
}

/// Checks that all shapes match, and returns the number of tiles of a strip, which is `tiles`.
fn check_shape<P: Packing>(
    w: &CodeMatrix<P>,
    tiles: usize,
    pair: usize,
    xs: &QuantBatch,
    y: &Strip<'_, i32>,
) -> usize {
    let width = w.rows().min(PAIR * (pair + 1)) - PAIR * pair;
    assert!(y.rows() == xs.rows().len() && y.width() == width, "the strips of w");
    assert_eq!(xs.tiles().tiles_per_band(), tiles, "as many tiles of codes as of weights");
    tiles
}

/// Calls `sum(tiles, first, (codes, sums))` for the bands from `first` on, as many as there are sums, and
/// writes the sums, less the surplus of each row.
fn for_each_pass(
    cpu: Amx,
    xs: &QuantBatch,
    y: &mut Strip<'_, i32>,
    surplus: impl Fn(&QuantRow) -> i32,
    sum: impl Fn(&Tiles, usize, (&mut [[Tile; 2]; CHUNK], &mut [[SumTile; 2]])),
) {
    let tiles = &Tiles::configure(cpu, xs.rows().len().min(BAND));
    WORK.with_borrow_mut(|Work { codes, sums }| {
        for (pass, rows) in xs.rows().chunks(BANDS * BAND).enumerate() {
            let sums = &mut sums[..rows.len().div_ceil(BAND)];
            sum(tiles, pass * BANDS, (codes, sums));
            for (t, x) in rows.iter().enumerate() {
                let surplus = surplus(x);
                let of_strips = &sums[t / BAND];
                let y = y.row(pass * BANDS * BAND + t);
                for (out, sums) in y.chunks_mut(STRIP).zip(of_strips) {
                    for (out, sum) in out.iter_mut().zip(sums.0[t % BAND]) {
                        *out = sum.wrapping_sub(surplus);
                    }
                }
            }
        }
    });
}

/// Iterates over chunks of `0..columns`.
fn chunks(columns: usize) -> impl Iterator<Item = Range<usize>> {
    (0..columns).step_by(CHUNK).map(move |start| start..columns.min(start + CHUNK))
}

/// Adds the products of weights and the activations of the same columns to the sums of the bands from `first`
/// on, or replaces the sums if these are the first columns.
fn add_bands(
    tiles: &Tiles,
    (xs, first): (&QuantBatch, usize),
    columns: Range<usize>,
    weights: WeightTiles<'_>,
    sums: &mut [[SumTile; 2]],
) {
    for (i, sums) in sums.iter_mut().enumerate() {
        let band = &xs.tiles().band(first + i)[columns.clone()];
        tiles.add_band(band, weights, sums, columns.start == 0);
    }
}
