//! Tests of lanes, which those of each instruction set call. `tests/lookup.rs` compares whole products.

use super::tables::fill_table;
use super::{ENTRIES, LookupLanes, Tokens};
use crate::layout::quad_lines::codes;
use crate::line::{Line, STRIP};

/// Checks what the algorithm relies on: entries of lines, tables and transposed sums.
#[inline(always)]
pub(in crate::arch) fn check_lanes<C: LookupLanes>(cpu: C) {
    every_byte_selects_the_entry_of_its_codes(cpu);
    an_entry_is_the_sum_of_its_trits_times_their_columns(cpu);
    columns_become_rows(cpu);
}

#[inline(always)]
fn every_byte_selects_the_entry_of_its_codes<C: LookupLanes>(cpu: C) {
    for start in [0_u8, 64, 128, 192] {
        let line = Line(std::array::from_fn(|i| start + i as u8));
        let mut entries = [0; STRIP];
        cpu.entries_of_line(&line, &mut entries);
        for (byte, entry) in line.0.iter().zip(entries.iter().flat_map(|word| word.to_le_bytes())) {
            let codes = codes(*byte);
            if codes.iter().all(|&code| code < 3) {
                assert_eq!(entry, codes.iter().rev().fold(0, |entry, code| 3 * entry + code));
            }
            assert!(usize::from(entry) < ENTRIES, "{entry} for {byte}");
        }
    }
}

#[inline(always)]
fn an_entry_is_the_sum_of_its_trits_times_their_columns<C: LookupLanes>(cpu: C) {
    let column = |i: i16| [0, 1].map(|h| std::array::from_fn(|t| 31 * i - 9 * h + t as i16 - 40));
    let columns: [[Tokens; 2]; 4] = [0, 1, 2, 3].map(column);
    let mut table = [[0; 16]; 2 * ENTRIES];
    fill_table(cpu, columns.each_ref(), &mut table);
    for (index, entry) in table.as_chunks::<2>().0.iter().enumerate() {
        for (h, tokens) in entry.iter().enumerate() {
            for (t, &sum) in tokens.iter().enumerate() {
                let trit = |i: u32| (index / 3_usize.pow(i) % 3) as i16 - 1;
                let expected: i16 = (0..4).map(|i| trit(i) * columns[i as usize][h][t]).sum();
                assert_eq!(sum, expected, "entry {index}, token {t} of register {h}");
            }
        }
    }
}

#[inline(always)]
fn columns_become_rows<C: LookupLanes>(cpu: C) {
    let rows: [[i32; 16]; 16] =
        std::array::from_fn(|r| std::array::from_fn(|c| (16 * r + c) as i32));
    let columns = cpu.transpose(&rows);
    for (r, row) in rows.iter().enumerate() {
        assert!(row.iter().enumerate().all(|(c, value)| columns[c][r] == *value));
    }
}
