//! Products of many tokens by table lookups.
//!
//! A byte of a quad line has the codes of four columns of a row, one of 81 combinations. For a band of
//! tokens, a **table** holds the 81 sums that four columns can contribute to a row, each sum for all tokens
//! side by side, in 16 bits. A row then takes a load and an addition for four columns of a register of tokens,
//! where products of bytes in 16 bits (`vpmaddubsw`, `smlal`) need several instructions.
//!
//! A job has some hundred rows, because tables take time to fill. The tables of a pass, [`PASS_BYTES`], stay in
//! the first-level cache, and the sums of all rows stream past them from the second level. Sums are widened
//! to 32 bits before their tokens' activations could overflow 16, so they are exact.

mod lanes;
mod sums;
mod tables;
#[cfg(test)]
pub(super) mod tests;
mod work;

use std::ops::Range;

use crate::lanes::F32x16;
use crate::layout::quad_lines::LINE_COLS;
use crate::line::STRIP;
use crate::ternary::StripScales;
use crate::{Layout, QuantRow, Strip, TernaryMatrix};
pub(super) use lanes::{LookupLanes, PAIR_OF_CODES};
use sums::BandSums;
pub(super) use work::{Work, with_work};

/// Numbers of sixteen tokens.
pub(super) type Tokens = [i16; 16];

/// Tokens in a band: two times sixteen.
const BAND: usize = 32;

/// Tokens that share the computation of entries; the maximum of a job.
pub(super) const BLOCK: usize = 64;

/// Maximum number of rows in a job: with two bands, their sums take 160 KiB of second-level cache.
pub(super) const MAX_ROWS: usize = 1280;

/// Lines of a strip whose entries are computed at once.
const CHUNK_LINES: usize = 8;

/// Tables of a line, one for each byte of a row.
const LINE_TABLES: usize = 4;

/// Entries of a table: four trits.
const ENTRIES: usize = 81;

/// Size of the tables of a pass: one line for 32 tokens, or two lines for sixteen.
const PASS_BYTES: usize = 2 * LINE_TABLES * ENTRIES * size_of::<Tokens>();

/// The product of some strips and at most [`BLOCK`] tokens.
pub(super) struct Block<'a> {
    w: &'a TernaryMatrix,
    strips: Range<usize>,
    xs: &'a [QuantRow],
}

impl<'a> Block<'a> {
    /// Describes a product whose results `y` has room for.
    ///
    /// # Panics
    ///
    /// As [`LookupKernel::multiply_strips`](crate::LookupKernel::multiply_strips) does.
    pub(super) fn new(
        w: &'a TernaryMatrix,
        strips: Range<usize>,
        xs: &'a [QuantRow],
        y: &Strip<'_, f32>,
    ) -> Self {
        let rows = STRIP * strips.start..w.rows().min(STRIP * strips.end);
        assert!(y.rows() == xs.len() && y.width() == rows.len(), "the strips of w");
        assert_eq!(w.layout(), Layout::QuadLines, "bytes of four trits");
        assert!(xs.len() <= BLOCK && STRIP * strips.len() <= MAX_ROWS, "no more than a block");
        assert!(xs.iter().all(|x| x.codes().len() == w.padded_cols()), "one code per column");
        assert!(xs.iter().all(|x| x.group_scales().is_none()), "one scale per token");
        Self { w, strips, xs }
    }

    #[inline(always)]
    pub(super) fn multiply<C: LookupLanes>(&self, cpu: C, work: &mut Work, y: &mut Strip<'_, f32>) {
        let rows = STRIP * self.strips.len();
        let (entries, tables, bands) = work.parts();
        let lines_len = self.w.strip_lines(self.strips.start).len();
        for (sums, xs) in bands.iter_mut().zip(self.xs.chunks(BAND)) {
            sums.clear(rows, xs.len());
        }
        for first in (0..lines_len).step_by(CHUNK_LINES) {
            let chunk = first..lines_len.min(first + CHUNK_LINES);
            let entries = &mut entries[..chunk.len() * rows];
            self.read_entries(cpu, chunk, entries);
            for (sums, xs) in bands.iter_mut().zip(self.xs.chunks(BAND)) {
                sums.add_lines(cpu, (xs, LINE_COLS * first), entries, tables);
            }
        }
        for (band, (sums, xs)) in bands.iter().zip(self.xs.chunks(BAND)).enumerate() {
            self.finish(cpu, sums, (xs, band * BAND), y);
        }
    }

    /// Computes the entries of some lines of all strips, and prefetches the lines after them.
    #[inline(always)]
    fn read_entries<C: LookupLanes>(&self, cpu: C, chunk: Range<usize>, entries: &mut [u32]) {
        let strips = self.strips.len();
        let entries = entries.as_chunks_mut::<STRIP>().0;
        for (i, strip) in self.strips.clone().enumerate() {
            let lines = self.w.strip_lines(strip);
            cpu.prefetch(&lines[chunk.end..lines.len().min(chunk.end + CHUNK_LINES)]);
            for (line, entries) in lines[chunk.clone()].iter().zip(entries.chunks_exact_mut(strips))
            {
                cpu.entries_of_line(line, &mut entries[i]);
            }
        }
    }

    /// Stores the results of a band, whose tokens are rows of `y` from `first` on.
    #[inline(always)]
    fn finish<C: LookupLanes>(
        &self,
        cpu: C,
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
                for (t, (x, dots)) in xs.iter().zip(sums.dots(cpu, i, j)).enumerate() {
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
