//! Products of many tokens by table lookups.
//!
//! A byte of a quad line has the codes of four columns of a row, one of 81 combinations. For a band of
//! tokens, a **table** holds the 81 sums that four columns can contribute to a row, each sum for all tokens
//! side by side, in 16 bits. A row then takes a load and an addition for four columns of sixteen tokens, 64
//! products, where `vpmaddubsw` and its addition give half as many.
//!
//! A job has some hundred rows, because tables take time to fill. The tables of a pass, [`PASS_BYTES`], stay in
//! the first-level cache, and the sums of all rows stream past them from the second level. Sums are widened
//! to 32 bits before their tokens' activations could overflow 16, so they are exact.

mod index;
mod sums;
mod tables;
mod work;

use std::ops::Range;

use super::Avx2;
use crate::arch::x86_64::{Madd, prefetch};
use crate::lanes::{F32x16, Simd};
use crate::layout::quad_lines::LINE_COLS;
use crate::line::STRIP;
use crate::ternary::StripScales;
use crate::{Layout, LookupKernel, QuantRow, Strip, TernaryMatrix};
use index::index_line;
use sums::BandSums;
use work::{Work, with_work};

/// Numbers of sixteen tokens, a register.
type Tokens = [i16; 16];

/// Tokens in a band: two registers.
const BAND: usize = 32;

/// Tokens that share the computation of indices.
const BLOCK: usize = 64;

/// Most rows in a job: with two bands, their sums take 160 KiB of second-level cache.
const MAX_ROWS: usize = 1280;

/// Lines of a strip whose indices are computed at once.
const CHUNK_LINES: usize = 8;

/// Tables of a line, one for each byte of a row.
const LINE_TABLES: usize = 4;

/// Entries of a table: four trits.
const ENTRIES: usize = 81;

/// Size of the tables of a pass: one line for two registers of tokens, or two lines for one.
const PASS_BYTES: usize = 2 * LINE_TABLES * ENTRIES * size_of::<Tokens>();

impl LookupKernel for Avx2<Madd> {
    /// Sixteen tokens take as long as thirteen by multiplication, and tables as long to fill as 150 rows
    /// to read them.
    fn min_shape(&self) -> (usize, usize) {
        (14, 256)
    }

    fn max_shape(&self) -> (usize, usize) {
        (BLOCK, MAX_ROWS)
    }

    fn multiply_strips(
        &self,
        w: &TernaryMatrix,
        strips: Range<usize>,
        xs: &[QuantRow],
        y: &mut Strip<'_, f32>,
    ) {
        let rows = STRIP * strips.start..w.rows().min(STRIP * strips.end);
        assert!(y.rows() == xs.len() && y.width() == rows.len(), "the strips of w");
        assert_eq!(w.layout(), Layout::QuadLines, "bytes of four trits");
        assert!(xs.len() <= BLOCK && STRIP * strips.len() <= MAX_ROWS, "no more than a block");
        assert!(xs.iter().all(|x| x.codes().len() == w.padded_cols()), "one code per column");
        assert!(xs.iter().all(|x| x.group_scales().is_none()), "one scale per token");
        let block = Block { w, strips, xs };
        // SAFETY: `self` exists, so the CPU has the features.
        with_work(|work| unsafe { block.multiply(*self, work, y) });
    }
}

/// The product of some strips and at most [`BLOCK`] tokens.
struct Block<'a> {
    w: &'a TernaryMatrix,
    strips: Range<usize>,
    xs: &'a [QuantRow],
}

impl Block<'_> {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn multiply(&self, cpu: Avx2<Madd>, work: &mut Work, y: &mut Strip<'_, f32>) {
        let rows = STRIP * self.strips.len();
        let (indices, tables, bands) = work.parts();
        let lines_len = self.w.strip_lines(self.strips.start).len();
        for (sums, xs) in bands.iter_mut().zip(self.xs.chunks(BAND)) {
            sums.clear(rows, xs.len());
        }
        for first in (0..lines_len).step_by(CHUNK_LINES) {
            let chunk = first..lines_len.min(first + CHUNK_LINES);
            let indices = &mut indices[..chunk.len() * rows];
            self.index(chunk, indices);
            for (sums, xs) in bands.iter_mut().zip(self.xs.chunks(BAND)) {
                sums.add_lines(xs, LINE_COLS * first, indices, tables);
            }
        }
        for (band, (sums, xs)) in bands.iter().zip(self.xs.chunks(BAND)).enumerate() {
            self.finish(cpu, sums, (xs, band * BAND), y);
        }
    }

    /// Computes the indices of some lines of all strips, and prefetches the lines after them.
    #[target_feature(enable = "avx2")]
    fn index(&self, chunk: Range<usize>, indices: &mut [u32]) {
        let strips = self.strips.len();
        let indices = indices.as_chunks_mut::<STRIP>().0;
        for (i, strip) in self.strips.clone().enumerate() {
            let lines = self.w.strip_lines(strip);
            prefetch(&lines[chunk.end..lines.len().min(chunk.end + CHUNK_LINES)]);
            for (line, indices) in lines[chunk.clone()].iter().zip(indices.chunks_exact_mut(strips))
            {
                index_line(line, &mut indices[i]);
            }
        }
    }

    /// Stores the results of a band, whose tokens are rows of `y` from `first` on.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn finish(
        &self,
        cpu: Avx2<Madd>,
        sums: &BandSums,
        (xs, first): (&[QuantRow], usize),
        y: &mut Strip<'_, f32>,
    ) {
        for (i, strip) in self.strips.clone().enumerate() {
            let scales = match self.w.scales() {
                StripScales::Tensor(scale) => cpu.splat(*scale),
                StripScales::Rows(values) => cpu.load(&values[strip]),
                StripScales::Groups { .. } => panic!("lookups add up whole rows, not groups"),
            };
            let rows = STRIP * i..y.width().min(STRIP * (i + 1));
            for (j, xs) in xs.chunks(16).enumerate() {
                for (t, (x, dots)) in xs.iter().zip(sums.dots(i, j)).enumerate() {
                    let results = cpu.load_i32(&dots).mul(scales).mul(cpu.splat(x.scale()));
                    match y.row(first + 16 * j + t)[rows.clone()].as_chunks_mut() {
                        ([whole], _) => results.store(whole),
                        (_, part) => results.store_tail(part),
                    }
                }
            }
        }
    }
}
