//! The sums of all rows of a job for a band of tokens.

use super::lanes::LookupLanes;
use super::tables::{Columns, columns_of, fill_table, lines};
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

    /// Adds the products of some lines, whose words of entries follow each other: those of the columns from
    /// `first_column` on.
    #[inline(always)]
    pub(super) fn add_lines<C: LookupLanes>(
        &mut self,
        cpu: C,
        (xs, first_column): (&[QuantRow], usize),
        entries: &[u32],
        tables: &mut [Tokens],
    ) {
        let lines = entries.chunks_exact(self.rows);
        let columns = (first_column..).step_by(LINE_COLS);
        if self.registers == 1 {
            let pairs = entries.chunks_exact(2 * self.rows);
            for (pair, column) in pairs.zip(columns.step_by(2)) {
                let (first, second) = pair.split_at(self.rows);
                let next = column + LINE_COLS;
                let activations = [columns_of::<_, 1>(cpu, xs, column), columns_of(cpu, xs, next)];
                self.add_pass(cpu, [first, second], &activations, tables);
            }
        } else {
            for (line, column) in lines.zip(columns) {
                self.add_pass(cpu, [line], &[columns_of::<_, 2>(cpu, xs, column)], tables);
            }
        }
    }

    /// Adds the products of `P` lines and their activations.
    #[inline(always)]
    fn add_pass<C: LookupLanes, const H: usize, const P: usize>(
        &mut self,
        cpu: C,
        entries: [&[u32]; P],
        activations: &[Columns<H>; P],
        tables: &mut [Tokens],
    ) {
        let tables = &mut tables[..P * LINE_TABLES * ENTRIES * H];
        let mut magnitudes = [cpu.zero_tokens(); H];
        for (i, table) in tables.chunks_exact_mut(ENTRIES * H).enumerate() {
            let (columns, first) = (&activations[i / LINE_TABLES], i % LINE_TABLES);
            let columns =
                [&columns[first], &columns[first + 4], &columns[first + 8], &columns[first + 12]];
            fill_table(cpu, columns, table);
            for h in 0..H {
                for column in columns {
                    let magnitude = cpu.abs_tokens(cpu.load_tokens(&column[h]));
                    magnitudes[h] = cpu.add_tokens(magnitudes[h], magnitude);
                }
            }
        }
        self.make_room(cpu, magnitudes);
        add_entries::<C, H, P>(cpu, entries, tables, self.narrow_mut());
    }

    /// Widens the sums if adding up to `magnitudes` could overflow.
    #[inline(always)]
    fn make_room<C: LookupLanes, const H: usize>(&mut self, cpu: C, magnitudes: [C::I16x16; H]) {
        let mut is_full = false;
        for (so_far, magnitudes) in self.magnitudes.iter_mut().zip(magnitudes) {
            let reached = cpu.add_saturating(cpu.load_tokens(so_far), magnitudes);
            is_full |= cpu.any_is_largest(reached);
            cpu.store_tokens(reached, so_far);
        }
        if is_full {
            self.widen(cpu);
            for (so_far, magnitudes) in self.magnitudes.iter_mut().zip(magnitudes) {
                cpu.store_tokens(magnitudes, so_far);
            }
        }
    }

    /// Moves all narrow sums to the wide ones.
    #[inline(always)]
    fn widen<C: LookupLanes>(&mut self, cpu: C) {
        let len = self.rows * self.registers;
        let narrow = &mut numbers_mut::<Tokens>(&mut self.narrow)[..len];
        let wide = &mut numbers_mut::<[i32; 16]>(&mut self.wide)[..len];
        for (narrow, wide) in narrow.iter_mut().zip(wide) {
            if !self.has_wide {
                *wide = [0; 16];
            }
            cpu.widen_tokens(cpu.load_tokens(narrow), wide);
            *narrow = [0; 16];
        }
        self.has_wide = true;
    }

    /// Returns the dot products of strip `i` of the job: for each token of register `j`, those of sixteen
    /// rows.
    #[inline(always)]
    pub(super) fn dots<C: LookupLanes>(&self, cpu: C, i: usize, j: usize) -> [[i32; STRIP]; 16] {
        let narrow = numbers::<Tokens>(&self.narrow);
        let wide = numbers::<[i32; 16]>(&self.wide);
        let mut rows = [[0; 16]; STRIP];
        for (r, sums) in rows.iter_mut().enumerate() {
            let place = (STRIP * i + r) * self.registers + j;
            if self.has_wide {
                *sums = wide[place];
            }
            cpu.widen_tokens(cpu.load_tokens(&narrow[place]), sums);
        }
        cpu.transpose(&rows)
    }
}

/// Adds to the sums of each row, `H` registers, the entries that its words of four select from the tables.
#[inline(always)]
fn add_entries<C: LookupLanes, const H: usize, const P: usize>(
    cpu: C,
    entries: [&[u32]; P],
    tables: &[Tokens],
    sums: &mut [Tokens],
) {
    let rows = sums.len() / H;
    assert!(entries.iter().all(|words| words.len() == rows), "words for each row");
    assert_eq!(tables.len(), P * LINE_TABLES * ENTRIES * H, "a table for each byte of a word");
    for (row, sums) in sums.chunks_exact_mut(H).enumerate() {
        let mut registers = [cpu.zero_tokens(); H];
        for (register, sums) in registers.iter_mut().zip(&*sums) {
            *register = cpu.load_tokens(sums);
        }
        for (line, words) in entries.iter().enumerate() {
            // SAFETY: there are words for each row.
            let word = unsafe { *words.get_unchecked(row) };
            for i in 0..LINE_TABLES {
                let table = &tables[(line * LINE_TABLES + i) * ENTRIES * H..][..ENTRIES * H];
                add_entry(cpu, word, i, table, &mut registers);
            }
        }
        for (sums, register) in sums.iter_mut().zip(registers) {
            cpu.store_tokens(register, sums);
        }
    }
}

/// Adds the entry that byte `i` of `word` selects.
#[inline(always)]
fn add_entry<C: LookupLanes, const H: usize>(
    cpu: C,
    word: u32,
    i: usize,
    table: &[Tokens],
    sums: &mut [C::I16x16; H],
) {
    // The place of the entry times its size, without a multiplication.
    let scale = (size_of::<Tokens>() * H).ilog2() as usize;
    let shifted = if i == 0 { word << scale } else { word >> (8 * i - scale) };
    let offset = (shifted & 0x7f << scale) as usize;
    debug_assert!(offset < size_of_val(table), "an entry below {ENTRIES}");
    for (h, sum) in sums.iter_mut().enumerate() {
        // SAFETY: `entries_of_line` gives numbers below `ENTRIES`, so the entry is in the table.
        let entry = unsafe { &*table.as_ptr().byte_add(offset).add(h) };
        *sum = cpu.add_tokens(*sum, cpu.load_tokens(entry));
    }
}
