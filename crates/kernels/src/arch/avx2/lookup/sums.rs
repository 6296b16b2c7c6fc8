//! The sums of all rows of a job for a band of tokens.

use std::arch::x86_64::*;

use super::tables::{Columns, columns_of, fill_table, lines, load, store};
use super::{BAND, ENTRIES, LINE_TABLES, MAX_ROWS, Tokens};
use crate::QuantRow;
use crate::arch::{Lines, numbers, numbers_mut};
use crate::layout::quad_lines::LINE_COLS;
use crate::line::STRIP;

/// The sums of a band of one or two registers of tokens.
pub(super) struct BandSums {
    registers: usize,
    rows: usize,
    /// For each row, the sums of its tokens since they were last widened.
    narrow: Lines,
    /// The sums until then, if they were widened at all.
    wide: Lines,
    has_wide: bool,
    /// For each token, the most that a narrow sum can have reached: the magnitudes of its activations.
    magnitudes: [Tokens; 2],
}

impl BandSums {
    pub(super) fn new() -> Self {
        Self {
            registers: 0,
            rows: 0,
            narrow: lines(MAX_ROWS * BAND * size_of::<i16>()),
            wide: lines(MAX_ROWS * BAND * size_of::<i32>()),
            has_wide: false,
            magnitudes: [[0; 16]; 2],
        }
    }

    /// Sets the sums of `rows` rows and `tokens` tokens to zero.
    pub(super) fn clear(&mut self, rows: usize, tokens: usize) {
        (self.rows, self.registers) = (rows, tokens.div_ceil(16));
        self.has_wide = false;
        self.magnitudes = [[0; 16]; 2];
        self.narrow_mut().fill([0; 16]);
    }

    fn narrow_mut(&mut self) -> &mut [Tokens] {
        &mut numbers_mut(&mut self.narrow)[..self.rows * self.registers]
    }

    /// Adds the products of some lines, whose indices follow each other: those of the columns from
    /// `first_column` on.
    #[target_feature(enable = "avx2")]
    pub(super) fn add_lines(
        &mut self,
        xs: &[QuantRow],
        first_column: usize,
        indices: &[u32],
        tables: &mut [Tokens],
    ) {
        let lines = indices.chunks_exact(self.rows);
        let columns = (first_column..).step_by(LINE_COLS);
        if self.registers == 1 {
            let pairs = indices.chunks_exact(2 * self.rows);
            for (pair, column) in pairs.zip(columns.step_by(2)) {
                let (first, second) = pair.split_at(self.rows);
                let next = column + LINE_COLS;
                let activations = [columns_of::<1>(xs, column), columns_of(xs, next)];
                self.add_pass([first, second], &activations, tables);
            }
        } else {
            for (line, column) in lines.zip(columns) {
                self.add_pass([line], &[columns_of::<2>(xs, column)], tables);
            }
        }
    }

    /// Adds the products of `P` lines and their activations.
    #[target_feature(enable = "avx2")]
    fn add_pass<const H: usize, const P: usize>(
        &mut self,
        indices: [&[u32]; P],
        activations: &[Columns<H>; P],
        tables: &mut [Tokens],
    ) {
        let tables = &mut tables[..P * LINE_TABLES * ENTRIES * H];
        let mut magnitudes = [_mm256_setzero_si256(); H];
        for (i, table) in tables.chunks_exact_mut(ENTRIES * H).enumerate() {
            let (columns, first) = (&activations[i / LINE_TABLES], i % LINE_TABLES);
            let columns =
                [&columns[first], &columns[first + 4], &columns[first + 8], &columns[first + 12]];
            fill_table(columns, table);
            for h in 0..H {
                for column in columns {
                    let magnitude = _mm256_abs_epi16(load(&column[h]));
                    magnitudes[h] = _mm256_add_epi16(magnitudes[h], magnitude);
                }
            }
        }
        self.make_room(magnitudes);
        add_entries::<H, P>(indices, tables, self.narrow_mut());
    }

    /// Widens the sums if adding up to `magnitudes` could overflow.
    #[target_feature(enable = "avx2")]
    fn make_room<const H: usize>(&mut self, magnitudes: [__m256i; H]) {
        let limit = _mm256_set1_epi16(i16::MAX);
        let mut full = _mm256_setzero_si256();
        for (so_far, magnitudes) in self.magnitudes.iter_mut().zip(magnitudes) {
            // Saturated at the limit.
            let reached = _mm256_adds_epi16(load(so_far), magnitudes);
            full = _mm256_or_si256(full, _mm256_cmpeq_epi16(reached, limit));
            store(so_far, reached);
        }
        if _mm256_movemask_epi8(full) != 0 {
            self.widen();
            for (so_far, magnitudes) in self.magnitudes.iter_mut().zip(magnitudes) {
                store(so_far, magnitudes);
            }
        }
    }

    /// Moves all narrow sums to the wide ones.
    #[target_feature(enable = "avx2")]
    fn widen(&mut self) {
        let len = self.rows * self.registers;
        let narrow = &mut numbers_mut::<Tokens>(&mut self.narrow)[..len];
        let wide = &mut numbers_mut::<[i32; 16]>(&mut self.wide)[..len];
        for (narrow, wide) in narrow.iter_mut().zip(wide) {
            let sums = if self.has_wide { total(narrow, Some(wide)) } else { total(narrow, None) };
            *wide = sums;
            *narrow = [0; 16];
        }
        self.has_wide = true;
    }

    /// Returns the dot products of strip `i` of the job: for each token of register `j`, those of sixteen
    /// rows.
    #[target_feature(enable = "avx2")]
    pub(super) fn dots(&self, i: usize, j: usize) -> [[i32; STRIP]; 16] {
        let narrow = numbers::<Tokens>(&self.narrow);
        let wide = numbers::<[i32; 16]>(&self.wide);
        let mut rows = [[0; 16]; STRIP];
        for (r, sums) in rows.iter_mut().enumerate() {
            let place = (STRIP * i + r) * self.registers + j;
            *sums = total(&narrow[place], self.has_wide.then_some(&wide[place]));
        }
        transposed(&rows)
    }
}

/// Returns narrow sums plus wide ones.
#[inline]
#[target_feature(enable = "avx2")]
fn total(narrow: &Tokens, wide: Option<&[i32; 16]>) -> [i32; 16] {
    let narrow = load(narrow);
    let mut low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(narrow));
    let mut high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256::<1>(narrow));
    if let Some(wide) = wide {
        let wide = wide.as_ptr().cast::<__m256i>();
        // SAFETY: 64 readable bytes; the loads need no alignment.
        let halves = unsafe { (_mm256_loadu_si256(wide), _mm256_loadu_si256(wide.add(1))) };
        low = _mm256_add_epi32(low, halves.0);
        high = _mm256_add_epi32(high, halves.1);
    }
    let mut sums = [0; 16];
    let out = sums.as_mut_ptr().cast::<__m256i>();
    // SAFETY: 64 writable bytes; the stores need no alignment.
    unsafe {
        _mm256_storeu_si256(out, low);
        _mm256_storeu_si256(out.add(1), high);
    }
    sums
}

/// Adds to the sums of each row, `H` registers, the entries that its words of four indices select from the
/// tables.
#[inline]
#[target_feature(enable = "avx2")]
fn add_entries<const H: usize, const P: usize>(
    indices: [&[u32]; P],
    tables: &[Tokens],
    sums: &mut [Tokens],
) {
    let rows = sums.len() / H;
    assert!(indices.iter().all(|words| words.len() == rows), "words for each row");
    assert_eq!(tables.len(), P * LINE_TABLES * ENTRIES * H, "a table for each index");
    for (row, sums) in sums.chunks_exact_mut(H).enumerate() {
        let mut registers = [_mm256_setzero_si256(); H];
        for (register, sums) in registers.iter_mut().zip(&*sums) {
            *register = load(sums);
        }
        for (line, words) in indices.iter().enumerate() {
            // SAFETY: there are words for each row.
            let word = unsafe { *words.get_unchecked(row) };
            for i in 0..LINE_TABLES {
                let table = &tables[(line * LINE_TABLES + i) * ENTRIES * H..][..ENTRIES * H];
                add_entry(word, i, table, &mut registers);
            }
        }
        for (sums, register) in sums.iter_mut().zip(registers) {
            store(sums, register);
        }
    }
}

/// Adds the entry that byte `i` of `word` selects.
#[inline]
#[target_feature(enable = "avx2")]
fn add_entry<const H: usize>(word: u32, i: usize, table: &[Tokens], sums: &mut [__m256i; H]) {
    // The index times the size of an entry, without a multiplication.
    let scale = (size_of::<Tokens>() * H).ilog2() as usize;
    let shifted = if i == 0 { word << scale } else { word >> (8 * i - scale) };
    let offset = (shifted & 0x7f << scale) as usize;
    debug_assert!(offset < size_of_val(table), "an index below {ENTRIES}");
    for (h, sum) in sums.iter_mut().enumerate() {
        // SAFETY: `index_line` gives indices below `ENTRIES`, so the entry is in the table.
        let entry = unsafe { &*table.as_ptr().byte_add(offset).add(h) };
        *sum = _mm256_add_epi16(*sum, load(entry));
    }
}

/// Transposes sixteen rows of sixteen numbers, in blocks of eight by eight.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(rows: &[[i32; 16]; 16]) -> [[i32; 16]; 16] {
    let mut out = [[0; 16]; 16];
    for down in [0, 8] {
        for right in [0, 8] {
            let mut block = [_mm256_setzero_si256(); 8];
            for (i, block) in block.iter_mut().enumerate() {
                let part = rows[down + i][right..].as_ptr();
                // SAFETY: eight readable numbers; the load needs no alignment.
                *block = unsafe { _mm256_loadu_si256(part.cast()) };
            }
            for (i, block) in transposed_block(block).into_iter().enumerate() {
                let part = out[right + i][down..].as_mut_ptr();
                // SAFETY: eight writable numbers; the store needs no alignment.
                unsafe { _mm256_storeu_si256(part.cast(), block) };
            }
        }
    }
    out
}

#[inline]
#[target_feature(enable = "avx2")]
fn transposed_block(rows: [__m256i; 8]) -> [__m256i; 8] {
    let mut pairs = rows;
    for i in [0, 2, 4, 6] {
        pairs[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    let mut quads = pairs;
    for i in [0, 4] {
        quads[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
        quads[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
        quads[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        quads[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    let mut columns = quads;
    for i in 0..4 {
        columns[i] = _mm256_permute2x128_si256::<0x20>(quads[i], quads[i + 4]);
        columns[i + 4] = _mm256_permute2x128_si256::<0x31>(quads[i], quads[i + 4]);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_rows() {
        if !super::super::super::has_avx2() {
            return;
        }
        let rows: [[i32; 16]; 16] =
            std::array::from_fn(|r| std::array::from_fn(|c| (16 * r + c) as i32));
        // SAFETY: the CPU has AVX2.
        let columns = unsafe { transposed(&rows) };
        for (r, row) in rows.iter().enumerate() {
            assert!(row.iter().enumerate().all(|(c, value)| columns[c][r] == *value));
        }
    }
}
