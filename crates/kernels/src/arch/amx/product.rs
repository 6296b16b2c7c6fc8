//! Products of two strips of a ternary matrix and many tokens.
//!
//! One or two bands are multiplied while their weights are unpacked, and keep their sums in registers. More
//! bands share the unpacking: the trits of a chunk of columns are unpacked to a byte each, and stay in the
//! first-level cache while one band after another is multiplied.
//!
//! Where pieces of columns have scales of their own, a band goes through all pieces of a chunk before the
//! next one does, so that the sums of pieces stay in the first-level cache.
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

/// Tiles of a strip that are unpacked at once: those of two strips take 16 KiB. The pieces of a matrix are whole in
/// them, because they have one, two or four tiles.
const CHUNK: usize = 8;

/// Places for unpacked tiles that are used once.
const RING: usize = 4;

/// Tokens that share one unpacking. Their sums take 32 KiB, and so do their results.
const PASS: usize = 256;

/// The buffers of a thread. Without a token in a band, or a second strip in a pair, they hold old numbers
/// that are not read.
struct Work {
    /// Unpacked trits, those of the two strips in turns.
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
        let columns = self.xs.tiles().tiles_per_band();
        let bands = self.rows.len().div_ceil(BAND);
        let Some(pieces) = self.pieces() else {
            let scales = [scales[0].at(cpu, 0), scales[1].at(cpu, 0)];
            match bands {
                1 | 2 => self.multiply_few(tiles, bands, work),
                _ => self.multiply_many(tiles, bands, work),
            }
            return self.finish(cpu, y, |band, t, side| {
                cpu.load_i32(&work.sums[band][side].0[t]).mul(scales[side])
            });
        };
        work.scaled[..bands].as_flattened_mut().fill(ScaledTile([[0.0; STRIP]; BAND]));
        for start in (0..columns).step_by(CHUNK) {
            let chunk = start..columns.min(start + CHUNK);
            self.packed().unpack(chunk.clone(), &mut work.weights);
            for band in 0..bands {
                self.add_pieces(cpu, tiles, (chunk.clone(), &pieces), &scales, band, work);
            }
        }
        self.finish(cpu, y, |band, t, side| cpu.load(&work.scaled[band][side].0[t]));
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

    /// Computes the sums of one or two bands.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn multiply_few(&self, tiles: &Tiles, bands: usize, work: &mut Work) {
        let Work { weights, sums, .. } = work;
        let (packed, ring) = (self.packed(), &mut weights[..RING]);
        let band = |band| self.band(band, 0..self.xs.tiles().tiles_per_band());
        match &mut sums[..bands] {
            [sums] => tiles.unpack_and_multiply_band(band(0), packed, ring, sums),
            sums => {
                let sums = sums.first_chunk_mut().expect("one or two bands");
                tiles.unpack_and_multiply_two_bands([band(0), band(1)], packed, ring, sums);
            }
        }
    }

    /// Computes the sums of some bands, chunk by chunk.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn multiply_many(&self, tiles: &Tiles, bands: usize, work: &mut Work) {
        let columns = self.xs.tiles().tiles_per_band();
        for start in (0..columns).step_by(CHUNK) {
            let chunk = start..columns.min(start + CHUNK);
            self.packed().unpack(chunk.clone(), &mut work.weights);
            let weights = WeightTiles::Trits(&work.weights[..chunk.len()]);
            for (band, sums) in work.sums[..bands].iter_mut().enumerate() {
                tiles.add_band(self.band(band, chunk.clone()), weights, sums, start == 0);
            }
        }
    }

    /// Adds the scaled products of a band with each piece of a chunk, whose weights are unpacked, to its scaled sums.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
    fn add_pieces(
        &self,
        cpu: Avx512,
        tiles: &Tiles,
        (chunk, pieces): (Range<usize>, &Pieces),
        scales: &[PieceScales<'_>; 2],
        band: usize,
        work: &mut Work,
    ) {
        let Work { weights, sums, scaled } = work;
        let (sums, scaled) = (&mut sums[band], &mut scaled[band]);
        for start in chunk.clone().step_by(pieces.tiles) {
            let piece = start..chunk.end.min(start + pieces.tiles);
            let places = piece.start - chunk.start..piece.end - chunk.start;
            let weights = WeightTiles::Trits(&weights[places]);
            tiles.add_band(self.band(band, piece), weights, sums, true);
            let index = start / pieces.tiles * pieces.step;
            let scales = [scales[0].at(cpu, index), scales[1].at(cpu, index)];
            self.scale_piece(cpu, band, start, sums, scales, scaled);
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

    /// Stores the results: for token `t` of each band, `scaled(band, t, side)` of each strip times the scale of the
    /// token.
    #[inline(always)]
    fn finish<C: Simd>(
        &self,
        cpu: C,
        y: &mut Strip<'_, f32>,
        scaled: impl Fn(usize, usize, usize) -> C::Lanes,
    ) {
        for (i, x) in self.rows.iter().enumerate() {
            let factor = cpu.splat(x.scale());
            for (side, results) in y.row(self.out + i).chunks_mut(STRIP).enumerate() {
                let lanes = scaled(i / BAND, i % BAND, side).mul(factor);
                match results.as_chunks_mut() {
                    ([whole], _) => lanes.store(whole),
                    (_, part) => lanes.store_tail(part),
                }
            }
        }
    }
}
