//! Checks of all sums of an instruction set against their definitions.

use super::*;
use crate::TernaryColumns;
use crate::ahead::{Ahead, LinesAhead};
use crate::int_lanes::{COLUMN_LINE_ROWS, COLUMNS_AT_ONCE, Keys, ValuePairs};
use crate::int8::{BIAS, Bytes};
use crate::kv::PAGE_LEN;
use crate::layout::five_trits::sums_by_quad_lines;
use crate::nibble::Nibbles;
use crate::quant::RUN;
use crate::sparse::place_in_column;
use crate::{Layout, Pool, Scales, TernaryMatrix};

/// Checks all sums of an instruction set against their definitions, for each number of tokens
/// that share a line. `tests/exact.rs` compares whole kernels; this also covers code that no
/// kernel of this CPU leads to.
pub(crate) fn check_sums<C: IntSums>(cpu: C) {
    // Miri would take an hour for long rows.
    let all_runs: &[usize] = if cfg!(miri) { &[1, 2] } else { &[1, 2, 5, 17, 40] };
    for &runs in all_runs {
        let random = &mut Random(runs as u64);
        check_tokens::<C, 1>(cpu, runs, random);
        check_tokens::<C, 2>(cpu, runs, random);
        check_tokens::<C, 3>(cpu, runs, random);
        check_tokens::<C, 4>(cpu, runs, random);
        check_rows::<C, 1>(cpu, runs, random);
        check_rows::<C, 4>(cpu, runs, random);
        check_columns(cpu, runs, random);
        check_values(cpu, runs, random);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) as usize % n
    }

    /// Activations, some tokens having only the largest.
    fn codes(&mut self, t: usize, len: usize) -> Vec<i8> {
        (0..len).map(|_| if t == 1 { -128 } else { self.below(256) as i8 }).collect()
    }

    /// Trits of some rows, the first two having only the largest codes.
    fn trits(&mut self, rows: usize, cols: usize) -> Vec<i8> {
        let mut trits: Vec<i8> = (0..rows * cols).map(|_| self.below(3) as i8 - 1).collect();
        trits[..2.min(rows) * cols].fill(1);
        trits
    }

    fn lines(&mut self, len: usize) -> Vec<Line> {
        let mut line = || Line(std::array::from_fn(|_| 1 + self.below(255) as u8));
        (0..len).map(|_| line()).collect()
    }
}

/// The sum of code times activation over the columns of row `row`, as the layouts define them: a
/// byte holds the codes of columns four apart.
fn naive_sum<const N: usize>(
    lines: &[Line],
    row: usize,
    activations: &[i8],
    codes: impl Fn(u8) -> [i32; N],
) -> i32 {
    let by_line = lines.iter().zip(activations.chunks(4 * N));
    let products = by_line.flat_map(|(line, activations)| {
        activations.iter().enumerate().map(|(column, &activation)| {
            codes(line.0[4 * row + column % 4])[column / 4] * i32::from(activation)
        })
    });
    products.sum()
}

fn check_tokens<C: IntSums, const T: usize>(cpu: C, runs: usize, random: &mut Random) {
    let cols = runs * RUN - random.below(40);
    let trits = random.trits(STRIP, cols);
    let xs: [QuantRow; T] =
        std::array::from_fn(|t| QuantRow::from_codes(&random.codes(t, cols), 1.0));
    let tokens = xs.each_ref().map(QuantRow::codes);
    let expected: [[i32; STRIP]; T] = std::array::from_fn(|t| {
        std::array::from_fn(|row| {
            let codes = trits[row * cols..][..cols].iter().map(|trit| i32::from(trit + 1));
            // Columns past the end have code 1 and activation 0.
            codes.zip(tokens[t]).map(|(code, &activation)| code * i32::from(activation)).sum()
        })
    });
    let packed = |layout: Layout| {
        let mut lines = vec![layout.zeros(); layout.lines_per_strip(cols)];
        layout.pack_strip(&trits, cols, &mut lines);
        lines
    };
    assert_eq!(
        expected,
        cpu.line_sums(&packed(Layout::QuadLines), tokens, [0; T], Ahead::NOTHING),
        "{cols} columns"
    );
    let five_trits = packed(Layout::FiveTrits);
    assert_eq!(expected, sums_by_quad_lines(cpu, &five_trits, tokens), "{cols} columns");
    if cpu.decodes_five_trits() {
        assert_eq!(
            expected,
            cpu.five_trit_sums(&five_trits, tokens, Ahead::NOTHING),
            "{cols} columns"
        );
    }

    let weight = |i| BIAS.wrapping_add([127, 129][i % 2]);
    let mut bytes = random.lines(runs * RUN / 4);
    bytes[0] = Line(std::array::from_fn(weight));
    let [plain, keys] = [
        cpu.code_sums::<Bytes, T>(&bytes, xs.each_ref(), Ahead::NOTHING),
        cpu.code_sums::<Keys, T>(&bytes, xs.each_ref(), Ahead::NOTHING),
    ];
    for found in [plain, keys] {
        check_codes(&bytes, tokens, found, |byte| [i32::from((byte ^ BIAS).cast_signed())]);
    }
    let mut nibbles = random.lines(runs * RUN / 8);
    nibbles[0] = Line([0xff; 64]);
    let found = cpu.code_sums::<Nibbles, T>(&nibbles, xs.each_ref(), Ahead::NOTHING);
    check_codes(&nibbles, tokens, found, |byte| [byte & 15, byte >> 4].map(i32::from));
}

fn check_codes<const T: usize, const N: usize>(
    lines: &[Line],
    tokens: [&[i8]; T],
    found: [[i32; STRIP]; T],
    codes: impl Fn(u8) -> [i32; N] + Copy,
) {
    for (codes_of_token, found) in tokens.into_iter().zip(found) {
        for (row, found) in found.into_iter().enumerate() {
            assert_eq!(naive_sum(lines, row, codes_of_token, codes), found, "{N} codes a byte");
        }
    }
}

fn check_rows<C: IntSums, const R: usize>(cpu: C, runs: usize, random: &mut Random) {
    let rows: [Vec<Line>; R] = std::array::from_fn(|r| match r {
        0 => vec![Line([0xaa; 64]); runs.div_ceil(4)],
        _ => random.lines(runs.div_ceil(4)),
    });
    for t in [0, 1] {
        let activations = random.codes(t, runs * RUN);
        let expected = rows.each_ref().map(|row| {
            let products = activations.iter().enumerate().map(|(column, &activation)| {
                let (run, byte) = (column / RUN, column % RUN);
                let code = row[run / 4].0[byte] >> (2 * (run % 4)) & 3;
                i32::from(code.min(2)) * i32::from(activation)
            });
            products.sum::<i32>()
        });
        let trits = rows
            .each_ref()
            .map(|row| row.iter().map(|line| Line(line.0.map(without_threes))).collect::<Vec<_>>());
        let found = cpu.row_sums(trits.each_ref().map(|row| &row[..]), &activations);
        assert_eq!(expected, found, "{runs} runs");
    }
}

/// Replaces each code 3, which is no trit, by 2.
fn without_threes(byte: u8) -> u8 {
    byte & !(byte >> 1 & byte & 0x55)
}

fn check_columns<C: IntSums>(cpu: C, runs: usize, random: &mut Random) {
    let (rows, cols) = (300, runs * RUN);
    let trits = random.trits(rows, cols);
    let mut w = TernaryMatrix::new(rows, cols, Scales::Tensor(1.0));
    let pool = Pool::new(1);
    let filled = w.fill(&pool, |range, out| {
        out.copy_from_slice(&trits[range.start * cols..range.end * cols]);
        Ok::<(), ()>(())
    });
    filled.expect("reading cannot fail");
    let w = TernaryColumns::new(&pool, &w).expect("one scale");
    for t in [0, 1] {
        let columns: Vec<[u32; 4]> = (0..1 + random.below(COLUMNS_AT_ONCE / 4))
            .map(|_| std::array::from_fn(|_| random.below(cols) as u32))
            .collect();
        let codes: Vec<[i8; 4]> =
            columns.iter().map(|_| random.codes(t, 4)[..].try_into().expect("four")).collect();
        for line in 0..2 {
            let mut found = [7 << 6; COLUMN_LINE_ROWS];
            cpu.add_columns(w.quads(line, &columns, &codes), &mut found);
            for (row, found) in found.into_iter().enumerate().take(rows - 256 * line) {
                let (_, field) = place_in_column(row);
                let factor = if C::UNSHIFTED { 4_i32.pow(field as u32) } else { 1 };
                let pairs = columns.as_flattened().iter().zip(codes.as_flattened());
                let products = pairs.map(|(&column, &code)| {
                    let trit = trits[(256 * line + row) * cols + column as usize];
                    i32::from(trit + 1) * i32::from(code)
                });
                assert_eq!((7 << 6) + factor * products.sum::<i32>(), found, "row {row}");
            }
        }
    }
}

/// Values of `columns` times sixteen columns.
struct Values(Vec<ValuePairs>, usize);

impl ValuePages for Values {
    const ROWS: usize = PAGE_LEN / 2;

    fn columns(&self) -> usize {
        self.1
    }

    fn page(&self, i: usize) -> &[ValuePairs] {
        &self.0[i * self.1 * PAGE_LEN / 2..][..self.1 * PAGE_LEN / 2]
    }

    fn ahead(&self, _: usize) -> LinesAhead {
        LinesAhead::nothing(0)
    }
}

fn check_values<C: IntSums>(cpu: C, pairs: usize, random: &mut Random) {
    let blocks = 5;
    let pages = pairs.div_ceil(PAGE_LEN / 2);
    let values = (0..pages * blocks * PAGE_LEN / 2)
        .map(|_| std::array::from_fn(|_| random.below(256) as i8))
        .collect();
    let values = Values(values, blocks);
    let weights: [Vec<WeightPair>; 4] = std::array::from_fn(|_| {
        (0..pairs).map(|_| [0, 1].map(|_| random.below(65_535) as i16)).collect()
    });
    let found = cpu.value_sums::<Values, 4, 4>(&values, 1, weights.each_ref().map(|w| &w[..]));
    for (weights, found) in weights.iter().zip(found) {
        for (column, found) in found.as_flattened().iter().enumerate() {
            let products = weights.iter().enumerate().map(|(pair, weights)| {
                let row = &values.0[pair * blocks + 1 + column / 16];
                let [even, odd] = [0, 1].map(|i| i32::from(row[column % 16 * 2 + i]));
                i32::from(weights[0]) * even + i32::from(weights[1]) * odd
            });
            assert_eq!(products.sum::<i32>(), *found, "{pairs} pairs, column {column}");
        }
    }
}
