//! Products of two strips of a ternary matrix and many tokens.
//!
//! The trits of a chunk of columns are unpacked once, to a byte each, and then multiplied with the
//! tokens band by band. Unpacking costs as much as multiplying a few dozen tokens and is shared by all
//! of them; unpacked trits stay in the first-level cache. Between chunks, sums are kept in memory.
//!
//! One field of a line, with a byte for each trit, is sixteen rows by four columns with the columns of a
//! row side by side: a row of a tile as the instruction needs it.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

use super::Amx;
use super::tiles::{SumTile, Tiles};
use crate::arch::x86_64::prefetch_after;
use crate::lanes::{F32x16, Simd};
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::quant::RUN;
use crate::ternary::StripScales;
use crate::tiles::{BAND, PAIR, Tile};
use crate::{QuantBatch, QuantRow, Strip, TernaryMatrix};

/// Tiles of a strip that are unpacked at once: 1024 columns, 32 KiB of two strips.
const CHUNK: usize = 16;

/// Tokens that share one unpacking. Their sums take 32 KiB, and so do their results.
const PASS: usize = 256;

/// Lines that make a tile.
const TILE_LINES: usize = RUN / LINE_COLS;

/// The buffers of a thread. Without a token in a band, or a second strip in a pair, they hold old numbers
/// that are not read.
struct Work {
    /// The current chunk, the two strips side by side.
    weights: [[Tile; 2]; CHUNK],
    /// The sums of each band, for the two strips.
    sums: [[SumTile; 2]; PASS / BAND],
    /// The scaled sums of the groups so far, for matrices with scales per group.
    scaled: [[[[f32; STRIP]; BAND]; 2]; PASS / BAND],
}

thread_local! {
    static WORK: RefCell<Work> = const {
        RefCell::new(Work {
            weights: [[Tile::ZERO; 2]; CHUNK],
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
    xs: &QuantBatch,
    y: &mut Strip<'_, f32>,
) {
    let rows = PAIR * pair..w.rows().min(PAIR * (pair + 1));
    assert!(y.rows() == xs.rows().len() && y.width() == rows.len(), "the strips of w");
    let tiles = w.strip_lines(2 * pair).len() / TILE_LINES;
    assert_eq!(xs.tiles().tiles_per_band(), tiles, "as many tiles of codes as of weights");
    let strips = 2 * pair..rows.end.div_ceil(STRIP);
    WORK.with_borrow_mut(|work| {
        for (pass, rows) in xs.rows().chunks(PASS).enumerate() {
            let pass = Pass { w, strips: strips.clone(), xs, rows, first: pass * PASS };
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
    /// Rows of `xs` from row `first` on, which starts a band.
    rows: &'a [QuantRow],
    first: usize,
}

impl Pass<'_> {
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")]
    fn multiply(&self, cpu: Amx, y: &mut Strip<'_, f32>, work: &mut Work) {
        let tiles = &Tiles::configure(cpu, self.rows.len().min(BAND));
        let cpu = *cpu.vectors;
        let columns = 0..self.xs.tiles().tiles_per_band();
        match self.w.scales() {
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
                    self.add_group(cpu, work, scales, group == 0);
                }
                self.finish(cpu, y, |t, side| cpu.load(&work.scaled[t / BAND][side][t % BAND]));
            }
        }
    }

    /// Returns both strips; a single strip is returned twice.
    fn both_strips(&self) -> [usize; 2] {
        [self.strips.start, self.strips.end - 1]
    }

    /// Sets the sums to those of trit times activation over the tiles in `columns`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn sum(&self, tiles: &Tiles, columns: Range<usize>, work: &mut Work) {
        for start in columns.clone().step_by(CHUNK) {
            let chunk = start..columns.end.min(start + CHUNK);
            for (side, strip) in self.strips.clone().enumerate() {
                let lines = self.w.strip_lines(strip).as_chunks().0;
                for (tiles, lines) in work.weights.iter_mut().zip(&lines[chunk.clone()]) {
                    unpack(lines, &mut tiles[side]);
                }
            }
            self.add_chunk(tiles, chunk, work, start == columns.start);
        }
    }

    /// Adds the products with a chunk of unpacked weights to the sums of all tokens, or replaces the sums
    /// if `fresh`.
    fn add_chunk(&self, tiles: &Tiles, chunk: Range<usize>, work: &mut Work, fresh: bool) {
        let weights = &work.weights[..chunk.len()];
        let band = |i: usize| &self.xs.tiles().band(self.first / BAND + i)[chunk.clone()];
        let bands = self.rows.len().div_ceil(BAND);
        let (twos, rest) = work.sums[..bands].as_chunks_mut();
        for (i, sums) in twos.iter_mut().enumerate() {
            tiles.add_two_bands([band(2 * i), band(2 * i + 1)], weights, sums, fresh);
        }
        if let [sums] = rest {
            tiles.add_band(band(bands - 1), weights, sums, fresh);
        }
    }

    /// Scales the sums of a group and adds them to those of the previous groups, unless it is the first.
    #[inline(always)]
    fn add_group<C: Simd>(&self, cpu: C, work: &mut Work, scales: [&[f32; STRIP]; 2], first: bool) {
        let bands = self.rows.len().div_ceil(BAND);
        for (sums, scaled) in work.sums.iter().zip(&mut work.scaled).take(bands) {
            for ((sums, scaled), scales) in sums.iter().zip(scaled).zip(scales) {
                let scales = cpu.load(scales);
                for (sums, scaled) in sums.0.iter().zip(scaled) {
                    let so_far = if first { cpu.splat(0.0) } else { cpu.load(scaled) };
                    cpu.load_i32(sums).mul_add(scales, so_far).store(scaled);
                }
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
            cpu.load_i32(&work.sums[t / BAND][side].0[t % BAND]).mul(scales[side])
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
            for (side, results) in y.row(self.first + t).chunks_mut(STRIP).enumerate() {
                let lanes = scaled(t, side).mul(factor);
                match results.as_chunks_mut() {
                    ([whole], _) => lanes.store(whole),
                    (_, part) => lanes.store_tail(part),
                }
            }
        }
    }
}

/// Unpacks the fields of four lines, one row of the tile each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn unpack(lines: &[Line; TILE_LINES], tile: &mut Tile) {
    // From code to trit. The table repeats every four bytes, so that only the lowest two of the six index
    // bits matter and fields need no mask.
    let trits = _mm512_set1_epi32(i32::from_le_bytes([0xff, 0, 1, 2]));
    for (line, rows) in lines.iter().zip(tile.0.as_chunks_mut::<4>().0) {
        prefetch_after(line);
        // SAFETY: a line is 64 readable bytes.
        let packed = unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) };
        // Shifts by sixteen bits move bits from byte to byte, but not into the lowest two.
        let fields = [
            packed,
            _mm512_srli_epi16::<2>(packed),
            _mm512_srli_epi16::<4>(packed),
            _mm512_srli_epi16::<6>(packed),
        ];
        for (row, field) in rows.iter_mut().zip(fields) {
            let trits = _mm512_permutexvar_epi8(field, trits);
            // SAFETY: a row is 64 writable bytes.
            unsafe { _mm512_storeu_si512(row.as_mut_ptr().cast(), trits) };
        }
    }
}
