//! Copies of ternary matrices by column, and the product that reads only the columns it needs.

use std::marker::PhantomData;

use super::{RowScales, TernaryCopy};
use crate::arch::Lines;
use crate::int_lanes::{COLUMN_LINE_ROWS, COLUMNS_AT_ONCE, ColumnQuads, ColumnSums};
use crate::lanes::{F32x16, Simd};
use crate::layout::quad_lines::ZERO_TRITS;
use crate::line::{Line, STRIP};
use crate::quant::RUN;
use crate::sums::IntSums;
use crate::{Kernel, Pool, QuantRow, Strip, TernaryMatrix};

/// Neighbouring lines of a column that are read together. A layer of 2B with 86 % zeros on one thread
/// takes 47 µs with one, 39 with two, 46 with eight.
const LINES_AT_ONCE: usize = 2;

/// Groups of four columns that are added to the sums of a line before the next line.
const QUADS: usize = COLUMNS_AT_ONCE / 4;

/// Columns whose lines stay in the first-level cache while several tokens read theirs.
const BLOCK_COLUMNS: usize = 384;

/// Maximum number of tokens that read a block of columns before the next block is read.
const BLOCK_TOKENS: usize = 128;

/// Minimum number of tokens for which blocks are copied: fewer would not read most of their columns.
const MIN_BLOCK_TOKENS: usize = 6;

/// Room behind the columns of a token, because several are stored at a time.
const SPARE: usize = RUN;

/// Jobs of several tokens for each thread, so that a slow one delays the others little.
const JOBS_PER_THREAD: usize = 4;

/// Maximum number of columns, for which sums of unshifted fields fit into 32 bits: 2^16 * 128 * 128 is
/// 2^30.
const MAX_SPARSE_COLS: usize = 1 << 16;

/// A copy of a ternary matrix whose columns can be read one by one.
///
/// A line has 64 bytes of one column, 256 rows, with two bits per trit, holding the trit plus one.
/// `place_in_column` defines the order of rows. The lines of a column follow each other.
pub type TernaryColumns = TernaryCopy<ByColumn>;

/// The order of [`TernaryColumns`].
pub struct ByColumn;

/// Returns the byte and the field of a row of a line.
///
/// The bytes of four columns are interleaved before they are multiplied, within parts of sixteen bytes,
/// and sixteen neighbouring rows must then be side by side: row `64 * field + 16 * k + r` is in part
/// `r / 4`, at byte `4k + r % 4` of it.
#[inline(always)]
pub(crate) fn place_in_column(row: usize) -> (usize, usize) {
    let (field, k, r) = (row / 64, row % 64 / 16, row % 16);
    (16 * (r / 4) + 4 * k + r % 4, field)
}

impl TernaryColumns {
    /// Copies `w`. Returns `None` if it has scales per group or more than 65,536 columns.
    pub fn new(pool: &Pool, w: &TernaryMatrix) -> Option<Self> {
        let scales = RowScales::new(w.scales())?;
        let (rows, cols) = (w.rows(), w.cols());
        if cols > MAX_SPARSE_COLS {
            return None;
        }
        let per_column = rows.div_ceil(COLUMN_LINE_ROWS);
        let (zeros, shape) = (Line([ZERO_TRITS; 64]), (cols, per_column));
        let mut lines =
            Lines::made(pool, zeros, shape, &mut vec![(); pool.threads()], |_, _, ()| {});
        if per_column > 0 {
            // Lines are packed side by side and then copied to their columns. Writing them trit by trit
            // would take 256 rounds through all of the memory.
            let buffers = (vec![0; cols], vec![Line([0; 64]); cols]);
            let mut buffers = vec![buffers; pool.threads()];
            pool.strips_with(
                &mut lines,
                per_column,
                1,
                &mut buffers,
                |line, mut lines, buffers| {
                    let (trits, packed) = buffers;
                    let first_row = line * COLUMN_LINE_ROWS;
                    packed.fill(Line([ZERO_TRITS; 64]));
                    for r in 0..COLUMN_LINE_ROWS.min(rows - first_row) {
                        w.unpack(first_row + r, trits);
                        let (byte, field) = place_in_column(r);
                        for (line, &trit) in packed.iter_mut().zip(&*trits) {
                            // From code 1, the zero trit, to trit + 1.
                            line.0[byte] ^= (1 ^ (trit + 1) as u8) << (2 * field);
                        }
                    }
                    for (column, packed) in packed.iter().enumerate() {
                        lines.row(column)[0] = *packed;
                    }
                },
            );
        }
        Some(Self { rows, cols, scales, lines, order: PhantomData })
    }

    /// Returns line `line` of some columns, with their activations.
    #[inline(always)]
    pub(crate) fn quads<'a>(
        &'a self,
        line: usize,
        columns: &'a [[u32; 4]],
        codes: &'a [[i8; 4]],
    ) -> ColumnQuads<'a> {
        ColumnQuads {
            lines: &self.lines[line..],
            stride: self.lines_per_column(),
            first: 0,
            columns,
            codes,
        }
    }

    /// Returns line `line` of the columns from `first` on.
    #[inline(always)]
    fn lines_of_columns(&self, line: usize, first: usize) -> impl Iterator<Item = &Line> {
        let stride = self.lines_per_column();
        self.lines.get(first * stride + line..).unwrap_or(&[]).iter().step_by(stride)
    }

    #[inline(always)]
    pub(super) fn lines_per_column(&self) -> usize {
        self.rows.div_ceil(COLUMN_LINE_ROWS)
    }
}

/// The nonzero codes of a token and their columns.
#[derive(Clone, Debug)]
pub struct NonZeros {
    /// In groups of four, of which some end with zero codes of any column.
    columns: Vec<u32>,
    codes: Vec<i8>,
    /// Number of codes that are not zero.
    len: usize,
    /// Number of groups of four.
    quads_len: usize,
    /// Groups of four that begin before the end of each block of columns.
    block_ends: Vec<usize>,
    pub(super) sum: i32,
    pub(super) scale: f32,
    /// The second row of sixteen bits, if there is one.
    pub(super) fine: Option<FineCodes>,
}

/// The codes of a second row, in the columns of the first, with their sum and scale.
#[derive(Clone, Debug)]
pub(super) struct FineCodes {
    codes: Vec<i8>,
    pub(super) sum: i32,
    pub(super) scale: f32,
}

impl NonZeros {
    /// Creates a buffer for the codes of rows of at most `max_cols` columns.
    pub fn with_capacity(max_cols: usize) -> Self {
        let blocks = max_cols.div_ceil(BLOCK_COLUMNS);
        let room = max_cols.next_multiple_of(RUN) + SPARE;
        let (columns, codes, block_ends) = (vec![0; room], vec![0; room], vec![0; blocks]);
        Self { columns, codes, block_ends, len: 0, quads_len: 0, sum: 0, scale: 0.0, fine: None }
    }

    /// Finds the columns of a token, of one row or of two of sixteen bits, in which a code is not zero. Allocates if
    /// no token had as many columns.
    ///
    /// # Panics
    ///
    /// Panics if there are more than two rows.
    pub fn find_token(&mut self, kernel: &dyn Kernel, rows: &[QuantRow]) {
        let len = rows[0].codes().len();
        if self.columns.len() < len + SPARE {
            *self = Self::with_capacity(len);
        }
        let [coarse, fine] = match rows {
            [row] => return self.find(kernel, row),
            [coarse, fine] => [coarse, fine],
            _ => panic!("one or two rows, not {}", rows.len()),
        };
        let mut found = 0;
        for (column, (&coarse, &fine)) in coarse.codes().iter().zip(fine.codes()).enumerate() {
            self.columns[found] = column as u32;
            found += usize::from(coarse | fine != 0);
        }
        let mut fine_codes = self.fine.take().map_or(Vec::new(), |fine| fine.codes);
        fine_codes.resize(self.codes.len(), 0);
        self.columns[found..found.next_multiple_of(4)].fill(0);
        for (row, codes) in [(coarse, &mut self.codes), (fine, &mut fine_codes)] {
            codes[found..found.next_multiple_of(4)].fill(0);
            for (code, &column) in codes.iter_mut().zip(&self.columns[..found]) {
                *code = row.codes()[column as usize];
            }
        }
        (self.len, self.quads_len) = (found, found.div_ceil(4));
        (self.sum, self.scale) = (coarse.sum(), coarse.scale());
        self.fine = Some(FineCodes { codes: fine_codes, sum: fine.sum(), scale: fine.scale() });
    }

    /// Finds the nonzero codes of `x`. Does not allocate.
    ///
    /// # Panics
    ///
    /// Panics if `x` has more columns than the capacity, or a scale per group.
    pub fn find(&mut self, kernel: &dyn Kernel, x: &QuantRow) {
        kernel.find_non_zeros(x, self);
    }

    /// Returns the number of nonzero codes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if all codes are zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the columns and the codes in groups of four.
    #[inline(always)]
    pub(super) fn quads(&self) -> (&[[u32; 4]], &[[i8; 4]]) {
        let quads = self.quads_len;
        (&self.columns.as_chunks().0[..quads], &self.codes.as_chunks().0[..quads])
    }

    /// Returns the columns and the codes of the groups of four that begin in a block of columns.
    #[inline(always)]
    fn quads_of_block(&self, block: usize) -> (&[[u32; 4]], &[[i8; 4]]) {
        let begin = block.checked_sub(1).map_or(0, |block| self.block_ends[block]);
        let quads = begin..self.block_ends[block];
        (&self.columns.as_chunks().0[quads.clone()], &self.codes.as_chunks().0[quads])
    }

    /// Returns the codes of the second row in groups of four, if there is one.
    #[inline(always)]
    pub(super) fn fine_quads(&self) -> Option<&[[i8; 4]]> {
        let quads = self.quads_len;
        self.fine.as_ref().map(|fine| &fine.codes.as_chunks().0[..quads])
    }
}

/// Finds the nonzero codes of a token.
#[inline(always)]
pub(crate) fn find_non_zeros<C: IntSums>(cpu: C, x: &QuantRow, found: &mut NonZeros) {
    let codes = x.codes();
    assert!(x.group_scales().is_none(), "one scale per token");
    assert!(codes.len() + SPARE <= found.columns.len(), "{} codes are too many", codes.len());
    let (mut len, mut padded) = (0, 0);
    for (block, of_block) in codes.chunks(BLOCK_COLUMNS).enumerate() {
        let begin = padded;
        for (run, of_run) in of_block.as_chunks().0.iter().enumerate() {
            let first = (block * BLOCK_COLUMNS + run * RUN) as u32;
            let out = found.columns[padded..].first_chunk_mut().expect("spare columns");
            padded += cpu.store_non_zeros(of_run, first, out);
        }
        len += padded - begin;
        // A group of four belongs to one block: the last column is repeated until its group is full.
        while !padded.is_multiple_of(4) {
            found.columns[padded] = found.columns[padded - 1];
            padded += 1;
        }
        found.block_ends[block] = padded / 4;
    }
    let mut last = u32::MAX;
    for (code, &column) in found.codes.iter_mut().zip(&found.columns[..padded]) {
        *code = if column == last { 0 } else { codes[column as usize] };
        last = column;
    }
    (found.len, found.quads_len, found.fine) = (len, padded / 4, None);
    (found.sum, found.scale) = (x.sum(), x.scale());
}

/// Computes `y = w · x` and `total += y` with the bits of [`multiply_add`](crate::multiply_add), reading
/// only the columns of `x`. Does not allocate.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn multiply_add_columns(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryColumns,
    x: &NonZeros,
    y: &mut [f32],
    total: &mut [f32],
) {
    assert_eq!(y.len(), w.rows, "one result per row");
    // A job has at least a line, and there are few of them: each thread gets one job.
    let job_lines = w.lines_per_column().div_ceil(pool.threads()).max(1);
    let shape = (1, job_lines * COLUMN_LINE_ROWS);
    pool.tile_pairs((y, total), w.rows, shape, |_, job, mut y, mut total| {
        kernel.multiply_columns(w, job * job_lines, x, y.row(0));
        kernel.add(total.row(0), y.row(0));
    });
}

/// Computes `total += w · x` for several tokens with the bits of [`multiply_add`](crate::multiply_add), reading only
/// the columns of each: `total` has a row for each of `xs`. Does not allocate.
///
/// # Panics
///
/// Panics if the shapes do not match, or if `xs` are rows of sixteen bits.
pub fn multiply_add_columns_of_each(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryColumns,
    xs: &[NonZeros],
    total: &mut [f32],
) {
    assert_eq!(total.len(), xs.len() * w.rows, "one result per token and row");
    assert!(xs.iter().all(|x| x.fine.is_none()), "one row of codes per token");
    let blocks = (JOBS_PER_THREAD * pool.threads()).div_ceil(w.lines_per_column().max(1));
    let block_tokens = xs.len().div_ceil(blocks).max(1);
    let shape = (block_tokens, COLUMN_LINE_ROWS);
    pool.tiles_of_each([(total, w.rows)], shape, |_, block, line, mut total| {
        let xs = &xs[block * block_tokens..][..total.rows()];
        kernel.add_columns_of_each(w, line, xs, &mut total);
    });
}

/// Adds the products of the rows of line `line` of the columns for several tokens.
#[inline(always)]
pub(crate) fn add_columns_of_each<C: IntSums>(
    cpu: C,
    w: &TernaryColumns,
    line: usize,
    xs: &[NonZeros],
    total: &mut Strip<'_, f32>,
) {
    if xs.len() < MIN_BLOCK_TOKENS {
        for (token, x) in xs.iter().enumerate() {
            let mut sums = [[0; COLUMN_LINE_ROWS]];
            column_sums(cpu, w, line, x, &mut sums);
            add_results(cpu, w, line, x, &sums[0], total.row(token));
        }
        return;
    }
    let mut sums = [[0; COLUMN_LINE_ROWS]; BLOCK_TOKENS];
    for (first, xs) in (0..).step_by(BLOCK_TOKENS).zip(xs.chunks(BLOCK_TOKENS)) {
        let sums = &mut sums[..xs.len()];
        sums.as_flattened_mut().fill(0);
        column_sums_of_each(cpu, w, line, xs, sums);
        for (token, (x, sums)) in (first..).zip(xs.iter().zip(sums)) {
            add_results(cpu, w, line, x, sums, total.row(token));
        }
    }
}

/// Computes the exact sums of code times activation for the rows of a line and several tokens.
///
/// All tokens read their columns of a block before the next block, whose lines have been copied side by side: they
/// come from the first-level cache, and the sums of a token only once a block from the second. In the matrix, they are so
/// far apart that the CPU would fetch others with them.
#[inline(always)]
fn column_sums_of_each<C: IntSums>(
    cpu: C,
    w: &TernaryColumns,
    line: usize,
    xs: &[NonZeros],
    sums: &mut [ColumnSums],
) {
    // With many registers, sums that cannot overflow stay in them for as long as wanted.
    let unlimited = C::MANY_REGISTERS && C::CAPACITY == usize::MAX;
    let quads_at_once = if unlimited { usize::MAX } else { QUADS };
    let mut lines = [Line([0; 64]); BLOCK_COLUMNS];
    let per_token = BLOCK_COLUMNS.div_ceil(xs.len());
    for first in (0..w.cols).step_by(BLOCK_COLUMNS) {
        for (copy, line) in lines.iter_mut().zip(w.lines_of_columns(line, first)) {
            *copy = *line;
        }
        let mut ahead = w.lines_of_columns(line, first + BLOCK_COLUMNS).take(BLOCK_COLUMNS);
        for (x, sums) in xs.iter().zip(sums.iter_mut()) {
            for line in ahead.by_ref().take(per_token) {
                cpu.prefetch(std::slice::from_ref(line));
            }
            let (columns, codes) = x.quads_of_block(first / BLOCK_COLUMNS);
            let parts = columns.chunks(quads_at_once).zip(codes.chunks(quads_at_once));
            for (columns, codes) in parts {
                let first = first as u32;
                let quads = ColumnQuads { lines: &lines, stride: 1, first, columns, codes };
                cpu.add_columns(quads, sums);
            }
        }
    }
    unshift::<C>(sums);
}

/// Adds the results of the rows of a line to `total`.
#[inline(always)]
fn add_results<C: Simd>(
    cpu: C,
    w: &TernaryColumns,
    line: usize,
    x: &NonZeros,
    sums: &ColumnSums,
    total: &mut [f32],
) {
    let strips = (line * (COLUMN_LINE_ROWS / STRIP)..).zip(total.chunks_mut(STRIP));
    for ((strip, total), sums) in strips.zip(sums.as_chunks().0) {
        let results = results_of_strip(cpu, w, strip, x, sums);
        match total.as_chunks_mut() {
            ([whole], _) => cpu.load(whole).add(results).store(whole),
            (_, part) => cpu.load_tail(part, 0.0).add(results).store_tail(part),
        }
    }
}

/// Returns the results of a strip from its sums.
#[inline(always)]
fn results_of_strip<C: Simd>(
    cpu: C,
    w: &TernaryColumns,
    strip: usize,
    x: &NonZeros,
    sums: &[i32; STRIP],
) -> C::Lanes {
    let dots = cpu.load_i32(&sums.map(|sum| sum - x.sum));
    dots.mul(cpu.load(&w.scales.of_strip(strip))).mul(cpu.splat(x.scale))
}

/// Computes the results of the rows from line `first_line` of the columns on.
#[inline(always)]
pub(crate) fn sparse_columns<C: IntSums>(
    cpu: C,
    w: &TernaryColumns,
    first_line: usize,
    x: &NonZeros,
    y: &mut [f32],
) {
    let firsts = (first_line..).step_by(LINES_AT_ONCE);
    for (first_line, y) in firsts.zip(y.chunks_mut(LINES_AT_ONCE * COLUMN_LINE_ROWS)) {
        let mut sums = [[0; COLUMN_LINE_ROWS]; LINES_AT_ONCE];
        let sums = &mut sums[..y.len().div_ceil(COLUMN_LINE_ROWS)];
        column_sums(cpu, w, first_line, x, sums);
        let strips = (first_line * (COLUMN_LINE_ROWS / STRIP)..).zip(y.chunks_mut(STRIP));
        for ((strip, y), sums) in strips.zip(sums.as_flattened().as_chunks::<STRIP>().0) {
            let results = results_of_strip(cpu, w, strip, x, sums);
            match y.as_chunks_mut() {
                ([whole], _) => results.store(whole),
                (_, part) => results.store_tail(part),
            }
        }
    }
}

/// Computes the exact sums of code times activation for the rows from line `first_line` on.
///
/// Some columns are added to the sums of one line, then the same columns to those of the next, so that
/// neighbouring lines are read together. The following columns are prefetched.
#[inline(always)]
fn column_sums<C: IntSums>(
    cpu: C,
    w: &TernaryColumns,
    first_line: usize,
    x: &NonZeros,
    sums: &mut [ColumnSums],
) {
    let (columns, codes) = x.quads();
    let prefetch = |columns: &[[u32; 4]], line: usize| {
        let quads = w.quads(line, columns, &[]);
        for &column in columns.as_flattened() {
            cpu.prefetch(std::slice::from_ref(quads.line(column)));
        }
    };
    for line in (first_line..).take(sums.len()) {
        prefetch(&columns[..columns.len().min(QUADS)], line);
    }
    for (i, codes) in codes.chunks(QUADS).enumerate() {
        let (columns, ahead) = columns[i * QUADS..].split_at(codes.len());
        let ahead = &ahead[..ahead.len().min(QUADS)];
        for (line, sums) in (first_line..).zip(sums.iter_mut()) {
            prefetch(ahead, line);
            cpu.add_columns(w.quads(line, columns, codes), sums);
        }
    }
    unshift::<C>(sums);
}

/// Divides sums of fields that were not shifted.
#[inline(always)]
pub(super) fn unshift<C: IntSums>(sums: &mut [ColumnSums]) {
    if C::UNSHIFTED {
        for (row, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
            let (_, field) = place_in_column(row % COLUMN_LINE_ROWS);
            *sum >>= 2 * field;
        }
    }
}
