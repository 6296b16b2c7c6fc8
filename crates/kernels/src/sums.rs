//! The integer algorithms, written once over [`IntLanes`].
//!
//! Integer sums are exact in any order, so every instruction set returns the same numbers. Loops stay
//! loops here: a closure passed to `map` would remain a call in functions as large as these become,
//! and a call cannot use the instructions of the function around it.

use crate::QuantRow;
use crate::int_lanes::{
    COLUMN_LINE_ROWS, COLUMNS_AT_ONCE, CodeWidth, ColumnLines, IntLanes, Interleave, QuadBlock,
    Trits, ValuePages, WeightPair,
};
use crate::line::{Line, STRIP};
use crate::quant::RUN;

/// Blocks in a run of activations.
const BLOCKS_PER_RUN: usize = RUN / 16;

/// A run of activations.
type QuadRun = [QuadBlock; BLOCKS_PER_RUN];

/// Returns the number of products that may be added to a narrow sum.
#[inline(always)]
fn dots_in_narrow<C: IntLanes, W: CodeWidth>() -> usize {
    // A power of two, so that sums are widened at the same points of every block.
    1 << (C::CAPACITY / W::MAX).ilog2()
}

/// For each of `T` tokens and each of sixteen rows, returns `initial` plus the sum of code times
/// activation over `lines`, which are whole runs of columns. Each token has four activations per code
/// and row of a line.
#[inline(always)]
pub(crate) fn strip_sums<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    lines: &[Line],
    tokens: [&[i8]; T],
    initial: [i32; T],
) -> [[i32; STRIP]; T] {
    let blocks_len = lines.len() / W::BLOCK_LINES;
    let mut blocks: [&[QuadBlock]; T] = [&[]; T];
    for (blocks, codes) in blocks.iter_mut().zip(tokens) {
        *blocks = &codes.as_chunks::<4>().0.as_chunks().0[..blocks_len];
    }
    let mut results = [[0; STRIP]; T];
    for pass in 0..C::PASSES {
        let mut sums = [cpu.splat_sums(0); T];
        for (sums, initial) in sums.iter_mut().zip(initial) {
            *sums = cpu.splat_sums(initial);
        }
        if C::CAPACITY == usize::MAX {
            add_runs::<C, W, T>(cpu, pass, lines, &blocks, &mut sums);
        } else {
            add_in_chunks::<C, W, T>(cpu, pass, lines, &blocks, &mut sums);
        }
        for (sums, results) in sums.into_iter().zip(&mut results) {
            cpu.store_sums(sums, results, pass);
        }
    }
    results
}

/// Adds the products of all blocks to sums that need not be widened, one run at a time: the fewer
/// instructions a line takes, the more of the following lines the CPU has in sight and loads ahead.
#[inline(always)]
fn add_runs<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    pass: usize,
    lines: &[Line],
    blocks: &[&[QuadBlock]; T],
    sums: &mut [C::Sums; T],
) {
    let mut runs: [&[QuadRun]; T] = [&[]; T];
    for (runs, blocks) in runs.iter_mut().zip(blocks) {
        *runs = blocks.as_chunks().0;
    }
    let mut narrow = [[cpu.zero(); 4]; T];
    for (i, lines) in lines.chunks_exact(BLOCKS_PER_RUN * W::BLOCK_LINES).enumerate() {
        let mut run = [&runs[0][i]; T];
        for t in 1..T {
            run[t] = &runs[t][i];
        }
        for b in 0..BLOCKS_PER_RUN {
            let lines = &lines[b * W::BLOCK_LINES..][..W::BLOCK_LINES];
            let mut block = [&run[0][b]; T];
            for t in 1..T {
                block[t] = &run[t][b];
            }
            add_block::<C, W, T>(cpu, pass, lines, block, &mut narrow, sums);
        }
    }
    widen::<C, W, T>(cpu, &narrow, sums);
}

/// Adds the products of all blocks to sums that are widened as often as needed.
#[inline(always)]
fn add_in_chunks<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    pass: usize,
    lines: &[Line],
    blocks: &[&[QuadBlock]; T],
    sums: &mut [C::Sums; T],
) {
    let chunk_len = (dots_in_narrow::<C, W>() / 4).max(1);
    for (chunk, lines) in lines.chunks(chunk_len * W::BLOCK_LINES).enumerate() {
        let mut narrow = [[cpu.zero(); 4]; T];
        for (i, lines) in lines.chunks_exact(W::BLOCK_LINES).enumerate() {
            let mut block = [&blocks[0][chunk * chunk_len + i]; T];
            for t in 1..T {
                block[t] = &blocks[t][chunk * chunk_len + i];
            }
            add_block::<C, W, T>(cpu, pass, lines, block, &mut narrow, sums);
        }
        if dots_in_narrow::<C, W>() >= 4 {
            widen::<C, W, T>(cpu, &narrow, sums);
        }
    }
}

/// Adds the products of four quads of each token.
#[inline(always)]
fn add_block<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    pass: usize,
    lines: &[Line],
    block: [&QuadBlock; T],
    narrow: &mut [[C::Narrow; 4]; T],
    sums: &mut [C::Sums; T],
) {
    let mut quads = [cpu.quads(block[0]); T];
    for t in 1..T {
        quads[t] = cpu.quads(block[t]);
    }
    // A macro, because the number of a quad has to be a constant. Codes are extracted for two quads
    // ahead of their products.
    macro_rules! add {
        ($bytes:ident, $quad:literal, $next:literal) => {
            let codes = codes_of::<C, W>(cpu, $bytes, $quad);
            if $next % W::PER_BYTE == 0 {
                $bytes = load_line::<C, W, T>(cpu, &lines[$next / W::PER_BYTE], pass);
            }
            let next_codes = codes_of::<C, W>(cpu, $bytes, $next);
            cpu.extract_first(codes, next_codes);
            add_quad::<C, W, T, $quad>(cpu, codes, &quads, narrow, sums);
            add_quad::<C, W, T, $next>(cpu, next_codes, &quads, narrow, sums);
        };
    }
    let mut bytes = load_line::<C, W, T>(cpu, &lines[0], pass);
    add!(bytes, 0, 1);
    if W::PER_BYTE < 4 {
        bytes = load_line::<C, W, T>(cpu, &lines[2 / W::PER_BYTE], pass);
    }
    add!(bytes, 2, 3);
}

#[inline(always)]
fn load_line<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    line: &Line,
    pass: usize,
) -> C::Bytes {
    cpu.prefetch_after(line, W::BITS, T);
    cpu.load_bytes(&line.0, pass)
}

/// Extracts the codes that are multiplied by quad `quad` of a block.
#[inline(always)]
fn codes_of<C: IntLanes, W: CodeWidth>(cpu: C, bytes: C::Bytes, quad: usize) -> C::Bytes {
    if W::SIGNED {
        cpu.signed(bytes)
    } else {
        let mask = ((1 << W::BITS) - 1) as u8;
        cpu.field(bytes, W::BITS * (quad % W::PER_BYTE), mask)
    }
}

/// Adds the products of quad `QUAD` of each token and the codes of its columns. Widens the sums if they
/// cannot take four of them.
#[inline(always)]
fn add_quad<C: IntLanes, W: CodeWidth, const T: usize, const QUAD: usize>(
    cpu: C,
    codes: C::Bytes,
    quads: &[C::Quads<'_>; T],
    narrow: &mut [[C::Narrow; 4]; T],
    sums: &mut [C::Sums; T],
) {
    let sum = QUAD % C::sums_per_row(T, W::SHORT);
    for (narrow, quads) in narrow.iter_mut().zip(quads) {
        narrow[sum] = if W::SIGNED {
            cpu.dot_signed::<QUAD>(narrow[sum], codes, *quads)
        } else {
            cpu.dot_quad::<QUAD>(narrow[sum], codes, *quads)
        };
    }
    let dots = dots_in_narrow::<C, W>();
    if dots < 4 && (QUAD + 1).is_multiple_of(dots) {
        widen::<C, W, T>(cpu, narrow, sums);
        *narrow = [[cpu.zero(); 4]; T];
    }
}

/// Adds narrow sums to wide ones.
#[inline(always)]
fn widen<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    narrow: &[[C::Narrow; 4]; T],
    sums: &mut [C::Sums; T],
) {
    for (sums, narrow) in sums.iter_mut().zip(narrow) {
        for (sum, &narrow) in narrow.iter().enumerate().take(C::sums_per_row(T, W::SHORT)) {
            *sums = cpu.widen(*sums, narrow, W::BITS * (sum % W::PER_BYTE));
        }
    }
}

/// For each of `T` tokens and each of sixteen rows, returns the sum of code times activation over quad
/// lines. Each token has sixteen activations per line.
#[inline(always)]
pub(crate) fn line_sums<C: IntLanes, const T: usize>(
    cpu: C,
    lines: &[Line],
    tokens: [&[i8]; T],
) -> [[i32; STRIP]; T] {
    match cpu.paired_line_sums(lines, tokens) {
        Some(sums) => sums,
        None => strip_sums::<C, Trits, T>(cpu, lines, tokens, [0; T]),
    }
}

/// For each of `T` tokens and each of sixteen rows, returns the dot product of codes and activations
/// over `lines`, which are all lines of a strip.
#[inline(always)]
pub(crate) fn code_sums<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    lines: &[Line],
    xs: [&QuantRow; T],
) -> [[i32; STRIP]; T] {
    let (mut tokens, mut initial) = ([xs[0].codes(); T], [0; T]);
    for ((tokens, initial), x) in tokens.iter_mut().zip(&mut initial).zip(xs) {
        *tokens = x.codes();
        if W::SIGNED && C::BIASED {
            // Sums with the bias may leave 32 bits on the way. They wrap, and the result fits.
            *initial = x.sum().wrapping_mul(-128);
        }
    }
    strip_sums::<C, W, T>(cpu, lines, tokens, initial)
}

/// For each of `T` rows of weights and of `B` blocks of sixteen columns from block `first` on, returns
/// the sum of weight times value over all positions, which the caller knows to fit into 32 bits.
#[inline(always)]
pub(crate) fn value_sums<C: IntLanes, V: ValuePages, const T: usize, const B: usize>(
    cpu: C,
    values: &V,
    first: usize,
    weights: [&[WeightPair]; T],
) -> [[[i32; 16]; B]; T] {
    let len = weights[0].len();
    let mut sums = [[cpu.zero_columns(); B]; T];
    for start in (0..len).step_by(V::ROWS) {
        let mut page_weights = weights;
        for weights in &mut page_weights {
            *weights = &weights[start..len.min(start + V::ROWS)];
        }
        let rows = values.page(start / V::ROWS).chunks_exact(values.columns());
        for (i, row) in rows.take(page_weights[0].len()).enumerate() {
            let row = &row[first..][..B];
            for b in 0..B {
                let pairs = cpu.load_pairs(&row[b]);
                for (sums, weights) in sums.iter_mut().zip(page_weights) {
                    sums[b] = cpu.dot_pairs(sums[b], pairs, weights[i]);
                }
            }
        }
    }
    let mut results = [[[0; 16]; B]; T];
    for (results, sums) in results.iter_mut().zip(sums) {
        for (result, sum) in results.iter_mut().zip(sums) {
            cpu.store_columns(sum, result);
        }
    }
    results
}

/// For each of `R` rows of a [`TernaryRows`](crate::TernaryRows), returns the sum of code times
/// activation. Field `j` of line `i` meets run `4i + j` of the activations.
#[inline(always)]
pub(crate) fn row_sums<C: IntLanes, const R: usize>(
    cpu: C,
    rows: [&[Line]; R],
    codes: &[i8],
) -> [i32; R] {
    let lines_in_narrow = dots_in_narrow::<C, Trits>() / (4 * C::PASSES);
    let mut sums = [cpu.splat_sums(0); R];
    let chunks = codes.as_chunks::<RUN>().0.chunks(lines_in_narrow.saturating_mul(4));
    for (chunk, runs) in chunks.enumerate() {
        let mut lines = rows;
        for lines in &mut lines {
            *lines = &lines[chunk * lines_in_narrow..][..runs.len().div_ceil(4)];
        }
        let (whole, rest) = runs.as_chunks::<4>();
        let mut narrow = [[cpu.zero(); 4]; R];
        for (i, runs) in whole.iter().enumerate() {
            add_fields(cpu, &lines, i, runs, &mut narrow);
        }
        if !rest.is_empty() {
            add_fields(cpu, &lines, whole.len(), rest, &mut narrow);
        }
        for (sum, narrow) in sums.iter_mut().zip(narrow) {
            let fields = if C::UNSHIFTED { 4 } else { 1 };
            for (field, &narrow) in narrow.iter().enumerate().take(fields) {
                *sum = cpu.widen(*sum, narrow, 2 * field);
            }
        }
    }
    let mut totals = [0; R];
    for (total, sum) in totals.iter_mut().zip(sums) {
        *total = cpu.total(sum);
    }
    totals
}

/// Adds the products of line `i` of some rows and at most four runs of activations.
#[inline(always)]
fn add_fields<C: IntLanes, const R: usize>(
    cpu: C,
    rows: &[&[Line]; R],
    i: usize,
    runs: &[[i8; RUN]],
    narrow: &mut [[C::Narrow; 4]; R],
) {
    for pass in 0..C::PASSES {
        let mut bytes = [cpu.load_bytes(&rows[0][i].0, pass); R];
        for r in 1..R {
            bytes[r] = cpu.load_bytes(&rows[r][i].0, pass);
        }
        for field in 0..4 {
            if let Some(run) = runs.get(field) {
                let activations = cpu.load_activations(run, pass);
                let sum = if C::UNSHIFTED { field } else { 0 };
                for (narrow, bytes) in narrow.iter_mut().zip(bytes) {
                    let codes = cpu.field(bytes, 2 * field, 3);
                    narrow[sum] = cpu.dot(narrow[sum], codes, activations);
                }
            }
        }
    }
}

/// Adds code times activation over at most [`COLUMNS_AT_ONCE`] columns to the sums of the rows
/// of one line, which are `4^j` times too large for field `j` if the codes are
/// [`UNSHIFTED`](IntLanes::UNSHIFTED).
///
/// Four columns are interleaved byte by byte, so that each 32-bit lane has the same row of all four.
#[inline(always)]
pub(crate) fn add_columns<C: Interleave>(
    cpu: C,
    lines: ColumnLines<'_>,
    columns: &[[u32; 4]],
    codes: &[[i8; 4]],
    sums: &mut [i32; COLUMN_LINE_ROWS],
) {
    let strips = sums.as_chunks_mut::<STRIP>().0;
    if C::MANY_REGISTERS {
        // All sums stay in registers; by field, and within a field by strip.
        let mut narrow = [[cpu.zero(); 4]; 4];
        for (narrow, sums) in narrow.as_flattened_mut().iter_mut().zip(strips.iter()) {
            *narrow = cpu.resume(sums);
        }
        for (columns, codes) in columns.iter().zip(codes) {
            let activations = cpu.broadcast(*codes);
            let bytes = interleaved(cpu, lines, *columns);
            for (field, narrow) in narrow.iter_mut().enumerate() {
                for (narrow, bytes) in narrow.iter_mut().zip(bytes) {
                    *narrow = cpu.dot(*narrow, cpu.field(bytes, 2 * field, 3), activations);
                }
            }
        }
        for (sums, narrow) in strips.iter_mut().zip(narrow.as_flattened()) {
            cpu.flush(*narrow, sums);
        }
    } else {
        // Columns are interleaved first, and then added to the sums of one strip at a time.
        let mut packed = [interleaved(cpu, lines, columns[0]); COLUMNS_AT_ONCE / 4];
        for (packed, columns) in packed.iter_mut().zip(columns).skip(1) {
            *packed = interleaved(cpu, lines, *columns);
        }
        for field in 0..4 {
            for k in 0..4 {
                let sums = &mut strips[4 * field + k];
                let mut narrow = cpu.resume(sums);
                for (packed, codes) in packed.iter().zip(codes) {
                    let codes_of_field = cpu.field(packed[k], 2 * field, 3);
                    narrow = cpu.dot(narrow, codes_of_field, cpu.broadcast(*codes));
                }
                cpu.flush(narrow, sums);
            }
        }
    }
}

/// Loads a line of each of four columns and interleaves them.
#[inline(always)]
fn interleaved<C: Interleave>(
    cpu: C,
    lines: ColumnLines<'_>,
    [a, b, c, d]: [u32; 4],
) -> [C::Bytes; 4] {
    let (a, b) = (cpu.load_bytes(&lines.get(a).0, 0), cpu.load_bytes(&lines.get(b).0, 0));
    let (c, d) = (cpu.load_bytes(&lines.get(c).0, 0), cpu.load_bytes(&lines.get(d).0, 0));
    cpu.interleave([a, b, c, d])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::TernaryColumns;
    use crate::int_lanes::{IntSums, Keys, ValuePairs};
    use crate::int8::{BIAS, Bytes};
    use crate::kv::PAGE_LEN;
    use crate::layout::five_trits::sums_by_quad_lines;
    use crate::nibble::Nibbles;
    use crate::sparse::place_in_column;
    use crate::{Layout, Pool, Scales, TernaryMatrix};

    /// Checks all sums of an instruction set against their definitions, for each number of tokens
    /// that share a line. `tests/exact.rs` compares whole kernels; this also covers code that no
    /// kernel of this CPU leads to.
    pub(crate) fn check_sums<C: IntSums>(cpu: C) {
        for runs in [1, 2, 5, 17, 40] {
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
        assert_eq!(expected, cpu.line_sums(&packed(Layout::QuadLines), tokens), "{cols} columns");
        let five_trits = packed(Layout::FiveTrits);
        assert_eq!(expected, sums_by_quad_lines(cpu, &five_trits, tokens), "{cols} columns");
        if cpu.decodes_five_trits() {
            assert_eq!(expected, cpu.five_trit_sums(&five_trits, tokens), "{cols} columns");
        }

        let weight = |i| BIAS.wrapping_add([127, 129][i % 2]);
        let mut bytes = random.lines(runs * RUN / 4);
        bytes[0] = Line(std::array::from_fn(weight));
        let [plain, keys] = [
            cpu.code_sums::<Bytes, T>(&bytes, xs.each_ref()),
            cpu.code_sums::<Keys, T>(&bytes, xs.each_ref()),
        ];
        for found in [plain, keys] {
            check_codes(&bytes, tokens, found, |byte| [i32::from((byte ^ BIAS).cast_signed())]);
        }
        let mut nibbles = random.lines(runs * RUN / 8);
        nibbles[0] = Line([0xff; 64]);
        let found = cpu.code_sums::<Nibbles, T>(&nibbles, xs.each_ref());
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
            let trits = rows.each_ref().map(|row| {
                row.iter().map(|line| Line(line.0.map(without_threes))).collect::<Vec<_>>()
            });
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
                cpu.add_columns(w.lines(line), &columns, &codes, &mut found);
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
}
