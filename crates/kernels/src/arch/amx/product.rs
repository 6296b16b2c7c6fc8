//! Products of two strips of a ternary matrix and many tokens.
//!
//! The trits of a chunk of columns are unpacked once, to a byte each, while the first two bands are
//! multiplied, and stay in the second-level cache for the bands after them. Most matrices have one chunk,
//! so that sums stay in registers. Smaller chunks, which stay in the first-level cache, were slower: sums
//! are then loaded and stored for each chunk.
//!
//! Where pieces of columns have scales of their own, two bands go through all pieces of a chunk before the
//! next two do, so that the sums of pieces and those of scaled pieces stay in the first-level cache.
//!
//! One field of a line, with a byte for each trit, is sixteen rows by four columns with the columns of a
//! row side by side: a row of a tile as the instruction needs it.

use std::cell::RefCell;
use std::ops::Range;

use super::Amx;
use super::tiles::{PackedTiles, SumTile, TILE_LINES, Tiles, WeightTiles};
use crate::arch::avx512::Avx512;
use crate::lanes::{F32x16, Simd};
use crate::line::{Line, STRIP};
use crate::quant::{GROUP, RUN};
use crate::ternary::{PieceScales, StripScales};
use crate::tiles::{BAND, PAIR, Tile};
use crate::{QuantBatch, QuantRow, Strip, TernaryMatrix};

/// Tiles of a strip that are unpacked at once: those of two strips take 256 KiB.
const CHUNK: usize = 128;

/// Places for unpacked tiles that are used once: twice the tiles of the longest piece.
const RING: usize = 8;

/// Tokens that share one unpacking. Their sums take 32 KiB, and so do their results.
const PASS: usize = 256;

/// The buffers of a thread. Without a token in a band, or a second strip in a pair, they hold old numbers
/// that are not read.
struct Work {
    /// The trits of the current chunk, of the two strips in turns.
    weights: [[Tile; 2]; CHUNK],
    /// The sums of each band, for the two strips.
    sums: [[SumTile; 2]; PASS / BAND],
    /// The scaled sums of the pieces so far, for pieces with scales of their own.
    scaled: [[ScaledTile; 2]; PASS / BAND],
}

/// The scaled sums of a band and a strip.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct ScaledTile([[f32; STRIP]; BAND]);

thread_local! {
    static WORK: RefCell<Work> = const {
        RefCell::new(Work {
            weights: [[[Line([0; RUN]); BAND]; 2]; CHUNK],
            sums: [[SumTile::ZERO; 2]; PASS / BAND],
            scaled: [[ScaledTile([[0.0; STRIP]; BAND]); 2]; PASS / BAND],
        })
    };
}

/// See [`TileKernel::multiply_pair`](crate::TileKernel::multiply_pair).
pub(super) fn multiply_pair(
    cpu: Amx,
    w: &TernaryMatrix,
    pair: usize,
    (xs, tokens): (&QuantBatch, Range<usize>),
    y: &mut Strip<'_, f32>,
) {
    let rows = PAIR * pair..w.rows().min(PAIR * (pair + 1));
    assert!(y.rows() == tokens.len() && y.width() == rows.len(), "the strips of w");
    assert!(tokens.start.is_multiple_of(BAND), "whole bands before the tokens");
    let tiles = w.strip_lines(2 * pair).len() / TILE_LINES;
    assert_eq!(xs.tiles().tiles_per_band(), tiles, "as many tiles of codes as of weights");
    let strips = [2 * pair, rows.end.div_ceil(STRIP) - 1];
    WORK.with_borrow_mut(|work| {
        for (pass, rows) in xs.rows()[tokens.clone()].chunks(PASS).enumerate() {
            let first = (tokens.start + pass * PASS) / BAND;
            let pass = Pass { w, strips, xs, rows, first, out: pass * PASS };
            // SAFETY: `cpu` exists, so the CPU has the features.
            unsafe { pass.multiply(cpu, y, work) };
        }
    });
}

/// The product of two strips and at most [`PASS`] tokens.
struct Pass<'a> {
    w: &'a TernaryMatrix,
    /// Both strips; a single strip is there twice.
    strips: [usize; 2],
    xs: &'a QuantBatch,
    /// Rows of `xs` from band `first` on.
    rows: &'a [QuantRow],
    first: usize,
    /// Row of the results of the first of them.
    out: usize,
}

/// Columns whose trits are unpacked together.
struct Chunk {
    /// Their tiles.
    columns: Range<usize>,
    /// Number of places for unpacked tiles, at least one for each, or [`RING`].
    places: usize,
}

/// Pieces of columns that are scaled one by one.
struct Pieces {
    /// Number of tiles of a piece, of which the last may have fewer.
    tiles: usize,
    /// Number of steps from the scales of a piece to those of the next.
    step: usize,
}

impl Pass<'_> {
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
    fn multiply(&self, cpu: Amx, y: &mut Strip<'_, f32>, work: &mut Work) {
        let tiles = &Tiles::configure(cpu, self.rows.len().min(BAND));
        let cpu = *cpu.vectors;
        let [mut same, mut also_same] = [[0.0; STRIP]; 2];
        let scales = [
            self.w.piece_scales(self.strips[0], &mut same),
            self.w.piece_scales(self.strips[1], &mut also_same),
        ];
        let pieces = self.pieces();
        let columns = self.xs.tiles().tiles_per_band();
        let bands = self.rows.len().div_ceil(BAND);
        // Two bands use an unpacked tile once, so a few places are enough, and sums stay in registers. Whole pieces are
        // unpacked ahead; otherwise half as many places were faster.
        let ring = if pieces.is_some() { RING } else { RING / 2 };
        let (chunk_len, places) = if bands <= 2 { (columns, ring) } else { (CHUNK, CHUNK) };
        for start in (0..columns).step_by(chunk_len) {
            let chunk = Chunk { columns: start..columns.min(start + chunk_len), places };
            let is_last = chunk.columns.end == columns;
            for first in (0..bands).step_by(2) {
                let bands = first..bands.min(first + 2);
                if let Some(pieces) = &pieces {
                    self.add_pieces(cpu, tiles, (&chunk, pieces), &scales, bands.clone(), work);
                    if is_last {
                        let scaled = |band: usize, t: usize, side: usize| {
                            cpu.load(&work.scaled[band][side].0[t])
                        };
                        self.finish(cpu, y, bands, scaled);
                    }
                } else {
                    self.add_chunk(tiles, &chunk, bands.clone(), work);
                    if is_last {
                        let scales = [scales[0].at(cpu, 0), scales[1].at(cpu, 0)];
                        self.finish(cpu, y, bands, |band, t, side| {
                            cpu.load_i32(&work.sums[band][side].0[t]).mul(scales[side])
                        });
                    }
                }
            }
        }
    }

    /// Returns the pieces of columns that are scaled one by one, if there are any.
    fn pieces(&self) -> Option<Pieces> {
        let piece_len = self.w.scales().piece_len();
        if self.rows[0].group_scales().is_some() {
            return Some(Pieces { tiles: piece_len / RUN, step: 1 });
        }
        match self.w.scales() {
            StripScales::Groups { len, .. } => {
                Some(Pieces { tiles: len / RUN, step: len / piece_len })
            }
            StripScales::Tensor(_) | StripScales::Rows(_) => None,
        }
    }

    /// Returns the packed trits of both strips.
    fn packed(&self) -> PackedTiles<'_> {
        PackedTiles::new(self.strips.map(|strip| self.w.strip_lines(strip).as_chunks().0))
    }

    /// Returns the codes of a band in some columns.
    fn band(&self, band: usize, columns: Range<usize>) -> &[Tile] {
        &self.xs.tiles().band(self.first + band)[columns]
    }

    /// Adds the products with a chunk of weights to the sums of one or two bands, or replaces the sums if it is
    /// the first chunk. The weights are unpacked if these are the first bands.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn add_chunk(&self, tiles: &Tiles, chunk: &Chunk, bands: Range<usize>, work: &mut Work) {
        let columns = chunk.columns.clone();
        let (packed, fresh) = (self.packed().columns(columns.clone()), columns.start == 0);
        let band = |band| self.band(band, columns.clone());
        let unpacks = bands.start == 0;
        let weights = &mut work.weights[..chunk.places];
        match &mut work.sums[bands.clone()] {
            [sums] if unpacks => tiles.unpack_and_add_band(band(0), packed, weights, sums, fresh),
            [sums] => {
                let weights = WeightTiles::Trits(&weights[..columns.len()]);
                tiles.add_band(band(bands.start), weights, sums, fresh);
            }
            sums => {
                let sums = sums.first_chunk_mut().expect("one or two bands");
                let bands = [band(bands.start), band(bands.start + 1)];
                if unpacks {
                    tiles.unpack_and_add_two_bands(bands, packed, weights, sums, fresh);
                } else {
                    let weights = WeightTiles::Trits(&weights[..columns.len()]);
                    tiles.add_two_bands(bands, weights, sums, fresh);
                }
            }
        }
    }

    /// Adds the scaled products with each piece of a chunk to the scaled sums of one or two bands, or replaces these
    /// if it is the first chunk. The weights are unpacked if these are the first bands.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
    fn add_pieces(
        &self,
        cpu: Avx512,
        tiles: &Tiles,
        (chunk, pieces): (&Chunk, &Pieces),
        scales: &[PieceScales<'_>; 2],
        bands: Range<usize>,
        work: &mut Work,
    ) {
        let (packed, unpacks) = (self.packed(), bands.start == 0);
        let columns = chunk.columns.clone();
        let piece_from = |start: usize| start..columns.end.min(start + pieces.tiles);
        let places = |piece: &Range<usize>| {
            let first = (piece.start - columns.start) % chunk.places;
            first..first + piece.len()
        };
        let unpack = |piece: Range<usize>, weights: &mut [[Tile; 2]]| {
            packed.unpack(piece.clone(), &mut weights[places(&piece)]);
        };
        if columns.start == 0 {
            work.scaled[bands.clone()].as_flattened_mut().fill(ScaledTile([[0.0; STRIP]; BAND]));
        }
        if unpacks {
            unpack(piece_from(columns.start), &mut work.weights);
        }
        for start in columns.clone().step_by(pieces.tiles) {
            let piece = piece_from(start);
            if unpacks && piece.end < columns.end {
                // The CPU unpacks the next piece while it multiplies this one.
                unpack(piece_from(piece.end), &mut work.weights);
            }
            let weights = WeightTiles::Trits(&work.weights[places(&piece)]);
            match &mut work.sums[bands.clone()] {
                [sums] => tiles.add_band(self.band(bands.start, piece), weights, sums, true),
                sums => {
                    let sums = sums.first_chunk_mut().expect("one or two bands");
                    let both = [bands.start, bands.start + 1];
                    let both = both.map(|band| self.band(band, piece.clone()));
                    tiles.add_two_bands(both, weights, sums, true);
                }
            }
            let index = start / pieces.tiles * pieces.step;
            let scales = [scales[0].at(cpu, index), scales[1].at(cpu, index)];
            for band in bands.clone() {
                let scaled = &mut work.scaled[band];
                self.scale_piece(cpu, band, start, &work.sums[band], scales, scaled);
            }
        }
    }

    /// Adds the scaled sums of a piece, which begins with tile `start`, to those of the pieces before it.
    #[inline(always)]
    fn scale_piece<C: Simd>(
        &self,
        cpu: C,
        band: usize,
        start: usize,
        sums: &[SumTile; 2],
        scales: [C::Lanes; 2],
        scaled: &mut [ScaledTile; 2],
    ) {
        let rows = self.rows_of(band);
        let sides = sums.iter().zip(scaled).zip(scales);
        if rows[0].group_scales().is_none() {
            // All sixteen rows, whose number the compiler knows: rows without a token are not read later.
            for ((sums, scaled), scales) in sides {
                for t in 0..BAND {
                    let dots = cpu.load_i32(&sums.0[t]);
                    dots.mul_add(scales, cpu.load(&scaled.0[t])).store(&mut scaled.0[t]);
                }
            }
            return;
        }
        for ((sums, scaled), scales) in sides {
            for (t, x) in rows.iter().enumerate() {
                let factor = x.group_scales().expect("scales of one kind")[start * RUN / GROUP];
                let dots = cpu.load_i32(&sums.0[t]).mul(cpu.splat(factor));
                dots.mul_add(scales, cpu.load(&scaled.0[t])).store(&mut scaled.0[t]);
            }
        }
    }

    /// Returns the rows of a band.
    fn rows_of(&self, band: usize) -> &[QuantRow] {
        &self.rows[band * BAND..self.rows.len().min((band + 1) * BAND)]
    }

    /// Stores the results of some bands: for token `t` of each, `scaled(band, t, side)` of each strip times the scale
    /// of the token.
    #[inline(always)]
    fn finish<C: Simd>(
        &self,
        cpu: C,
        y: &mut Strip<'_, f32>,
        bands: Range<usize>,
        scaled: impl Fn(usize, usize, usize) -> C::Lanes,
    ) {
        for band in bands {
            for (t, x) in self.rows_of(band).iter().enumerate() {
                let factor = cpu.splat(x.scale());
                let y = y.row(self.out + band * BAND + t);
                for (side, results) in y.chunks_mut(STRIP).enumerate() {
                    let lanes = scaled(band, t, side).mul(factor);
                    match results.as_chunks_mut() {
                        ([whole], _) => lanes.store(whole),
                        (_, part) => lanes.store_tail(part),
                    }
                }
            }
        }
    }
}
