//! Products of two strips of a ternary matrix and many tokens.
//!
//! The trits of a chunk of columns are unpacked once, to a byte each, while the first two bands are
//! multiplied, and stay in the second-level cache for the bands after them. Most matrices have one chunk,
//! so that sums stay in registers. Smaller chunks, which stay in the first-level cache, were slower: sums
//! are then loaded and stored for each chunk.
//!
//! One field of a line, with a byte for each trit, is sixteen rows by four columns with the columns of a
//! row side by side: a row of a tile as the instruction needs it.

use std::cell::RefCell;
use std::ops::Range;

use super::Amx;
use super::tiles::{PackedTiles, SumTile, TILE_LINES, Tiles, WeightTiles};
use crate::lanes::{F32x16, Simd};
use crate::line::{Line, STRIP};
use crate::product::strip::dot_products;
use crate::quant::{GROUP, RUN};
use crate::ternary::StripScales;
use crate::tiles::{BAND, PAIR, Tile};
use crate::{QuantBatch, QuantRow, Strip, TernaryMatrix};

/// Tiles of a strip that are unpacked at once: those of two strips take 256 KiB.
const CHUNK: usize = 128;

/// Places for unpacked tiles that are used once.
const RING: usize = 4;

/// Tokens that share one unpacking. Their sums take 32 KiB, and so do their results.
const PASS: usize = 256;

/// The buffers of a thread. Without a token in a band, or a second strip in a pair, they hold old numbers
/// that are not read.
struct Work {
    /// The codes of the current chunk, of the two strips in turns.
    weights: [[Tile; 2]; CHUNK],
    /// The sums of each band, for the two strips.
    sums: [[SumTile; 2]; PASS / BAND],
    /// The scaled sums of the groups so far, for matrices with scales per group.
    scaled: [[[[f32; STRIP]; BAND]; 2]; PASS / BAND],
}

thread_local! {
    static WORK: RefCell<Work> = const {
        RefCell::new(Work {
            weights: [[[Line([0; RUN]); BAND]; 2]; CHUNK],
            sums: [[SumTile::ZERO; 2]; PASS / BAND],
            scaled: [[[[0.0; STRIP]; BAND]; 2]; PASS / BAND],
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
    let strips = 2 * pair..rows.end.div_ceil(STRIP);
    WORK.with_borrow_mut(|work| {
        for (pass, rows) in xs.rows()[tokens.clone()].chunks(PASS).enumerate() {
            let first = (tokens.start + pass * PASS) / BAND;
            let pass = Pass { w, strips: strips.clone(), xs, rows, first, out: pass * PASS };
            // SAFETY: `cpu` exists, so the CPU has the features.
            unsafe { pass.multiply(cpu, y, work) };
        }
    });
}

/// The product of two strips and at most [`PASS`] tokens.
struct Pass<'a> {
    w: &'a TernaryMatrix,
    strips: Range<usize>,
    xs: &'a QuantBatch,
    /// Rows of `xs` from band `first` on.
    rows: &'a [QuantRow],
    first: usize,
    /// Row of the results of the first of them.
    out: usize,
}

impl Pass<'_> {
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
    fn multiply(&self, cpu: Amx, y: &mut Strip<'_, f32>, work: &mut Work) {
        let tiles = &Tiles::configure(cpu, self.rows.len().min(BAND));
        let cpu = *cpu.vectors;
        let columns = 0..self.xs.tiles().tiles_per_band();
        match self.w.scales() {
            _ if self.rows[0].group_scales().is_some() => {
                let [mut same, mut also_same] = [[0.0; STRIP]; 2];
                let [first, second] = self.both_strips();
                let first = self.w.piece_scales(first, &mut same);
                let second = self.w.piece_scales(second, &mut also_same);
                let runs_per_piece = self.w.scales().piece_len() / RUN;
                for (piece, start) in columns.clone().step_by(runs_per_piece).enumerate() {
                    let runs = start..columns.end.min(start + runs_per_piece);
                    self.sum(tiles, runs.clone(), work);
                    let scales = [first.at(piece), second.at(piece)];
                    self.add_group(cpu, work, scales, runs, piece == 0);
                }
                self.finish(cpu, y, |t, side| cpu.load(&work.scaled[t / BAND][side][t % BAND]));
            }
            StripScales::Tensor(scale) => {
                self.sum(tiles, columns, work);
                self.finish_rows(cpu, work, y, [cpu.splat(*scale); 2]);
            }
            StripScales::Rows(values) => {
                self.sum(tiles, columns, work);
                let scales = self.both_strips().map(|strip| cpu.load(&values[strip]));
                self.finish_rows(cpu, work, y, scales);
            }
            StripScales::Groups { len, values } => {
                let groups = self.w.cols().div_ceil(*len);
                for (group, start) in columns.clone().step_by(len / RUN).enumerate() {
                    self.sum(tiles, start..columns.end.min(start + len / RUN), work);
                    let scales = self.both_strips().map(|strip| &values[strip * groups + group]);
                    let runs = start..columns.end.min(start + len / RUN);
                    self.add_group(cpu, work, scales, runs, group == 0);
                }
                self.finish(cpu, y, |t, side| cpu.load(&work.scaled[t / BAND][side][t % BAND]));
            }
        }
    }

    /// Returns both strips; a single strip is returned twice.
    fn both_strips(&self) -> [usize; 2] {
        [self.strips.start, self.strips.end - 1]
    }

    /// Sets the sums to those of code times activation over the tiles in `columns`.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn sum(&self, tiles: &Tiles, columns: Range<usize>, work: &mut Work) {
        let bands = self.rows.len().div_ceil(BAND);
        if bands <= 2 {
            // Unpacked tiles are used once, so a few places are enough, and sums stay in registers.
            return self.add_chunk(tiles, columns, RING, work, true);
        }
        for start in columns.clone().step_by(CHUNK) {
            let chunk = start..columns.end.min(start + CHUNK);
            self.add_chunk(tiles, chunk, CHUNK, work, start == columns.start);
        }
    }

    /// Adds the products with a chunk of weights to the sums of all tokens, or replaces the sums if
    /// `fresh`. The weights are unpacked to the first `places` places.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn add_chunk(
        &self,
        tiles: &Tiles,
        chunk: Range<usize>,
        places: usize,
        work: &mut Work,
        fresh: bool,
    ) {
        let strip_tiles = |strip| &self.w.strip_lines(strip).as_chunks().0[chunk.clone()];
        let packed = PackedTiles::new(self.both_strips().map(strip_tiles));
        let weights = &mut work.weights[..places];
        let band = |i: usize| &self.xs.tiles().band(self.first + i)[chunk.clone()];
        let two_bands = |i: usize| [band(2 * i), band(2 * i + 1)];
        let bands = self.rows.len().div_ceil(BAND);
        match work.sums[..bands].as_chunks_mut() {
            ([first, twos @ ..], rest) => {
                tiles.unpack_and_add_two_bands(two_bands(0), packed, weights, first, fresh);
                let weights = WeightTiles::Interleaved(weights.get(..chunk.len()).unwrap_or(&[]));
                for (i, sums) in twos.iter_mut().enumerate() {
                    tiles.add_two_bands(two_bands(i + 1), weights, sums, fresh);
                }
                if let [sums] = rest {
                    tiles.add_band(band(bands - 1), weights, sums, fresh);
                }
            }
            (_, [sums]) => tiles.unpack_and_add_band(band(0), packed, weights, sums, fresh),
            _ => {}
        }
    }

    /// Scales the sums of a group or piece, over these runs of activations, and adds them to those of the previous
    /// groups, unless it is the first.
    #[inline(always)]
    fn add_group<C: Simd>(
        &self,
        cpu: C,
        work: &mut Work,
        scales: [&[f32; STRIP]; 2],
        runs: Range<usize>,
        first: bool,
    ) {
        for (t, x) in self.rows.iter().enumerate() {
            let activations = x.sum_of(runs.clone());
            let factor = x.group_scales().map(|scales| cpu.splat(scales[runs.start * RUN / GROUP]));
            for (side, scales) in scales.into_iter().enumerate() {
                let scaled = &mut work.scaled[t / BAND][side][t % BAND];
                let dots = dot_products(cpu, work.sums[t / BAND][side].0[t % BAND], activations);
                let dots = if let Some(factor) = factor { dots.mul(factor) } else { dots };
                let so_far = if first { cpu.splat(0.0) } else { cpu.load(scaled) };
                dots.mul_add(cpu.load(scales), so_far).store(scaled);
            }
        }
    }

    /// Stores the results of a strip with one scale per row.
    #[inline(always)]
    fn finish_rows<C: Simd>(
        &self,
        cpu: C,
        work: &Work,
        y: &mut Strip<'_, f32>,
        scales: [C::Lanes; 2],
    ) {
        self.finish(cpu, y, |t, side| {
            let sums = work.sums[t / BAND][side].0[t % BAND];
            dot_products(cpu, sums, self.rows[t].sum()).mul(scales[side])
        });
    }

    /// Stores the results: for token `t`, `scaled(t, side)` of each strip times the scale of the token.
    #[inline(always)]
    fn finish<C: Simd>(
        &self,
        cpu: C,
        y: &mut Strip<'_, f32>,
        scaled: impl Fn(usize, usize) -> C::Lanes,
    ) {
        for (t, x) in self.rows.iter().enumerate() {
            let factor = cpu.splat(x.scale());
            for (side, results) in y.row(self.out + t).chunks_mut(STRIP).enumerate() {
                let lanes = scaled(t, side).mul(factor);
                match results.as_chunks_mut() {
                    ([whole], _) => lanes.store(whole),
                    (_, part) => lanes.store_tail(part),
                }
            }
        }
    }
}
