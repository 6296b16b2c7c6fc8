//! Copies of ternary matrices by column, and the product that reads only the columns it needs.

use std::marker::PhantomData;

use super::{RowScales, TernaryCopy};
use crate::arch::Lines;
use crate::int_lanes::{COLUMN_LINE_ROWS, COLUMNS_AT_ONCE, ColumnQuads, ColumnSums};
use crate::lanes::F32x16;
use crate::layout::quad_lines::ZERO_TRITS;
use crate::line::{Line, STRIP};
use crate::sums::IntSums;
use crate::{Kernel, Pool, QuantRow, TernaryMatrix};

/// Neighbouring lines of a column that are read together. A layer of 2B with 86 % zeros on one thread
/// takes 47 µs with one, 39 with two, 46 with eight.
const LINES_AT_ONCE: usize = 2;

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
        ColumnQuads { lines: &self.lines[line..], stride: self.lines_per_column(), columns, codes }
    }

    #[inline(always)]
    pub(super) fn lines_per_column(&self) -> usize {
        self.rows.div_ceil(COLUMN_LINE_ROWS)
    }
}

/// The nonzero codes of a token and their columns.
#[derive(Clone, Debug)]
pub struct NonZeros {
    /// In groups of four, the last of which is padded with zero codes of column 0.
    columns: Vec<u32>,
    codes: Vec<i8>,
    len: usize,
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
        // One more than needed, because the loop of `find` writes before it counts.
        let room = (max_cols + 1).next_multiple_of(64);
        let (columns, codes) = (vec![0; room], vec![0; room]);
        Self { columns, codes, len: 0, sum: 0, scale: 0.0, fine: None }
    }

    /// Finds the columns of a token, of one row or of two of sixteen bits, in which a code is not zero. Allocates if
    /// no token had as many columns.
    ///
    /// # Panics
    ///
    /// Panics if there are more than two rows.
    pub fn find_token(&mut self, rows: &[QuantRow]) {
        let len = rows[0].codes().len();
        if self.columns.len() <= len {
            *self = Self::with_capacity(len);
        }
        let [coarse, fine] = match rows {
            [row] => return self.find(row),
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
        (self.len, self.sum, self.scale) = (found, coarse.sum(), coarse.scale());
        self.fine = Some(FineCodes { codes: fine_codes, sum: fine.sum(), scale: fine.scale() });
    }

    /// Finds the nonzero codes of `x`. Does not allocate.
    ///
    /// # Panics
    ///
    /// Panics if `x` has more columns than the capacity.
    pub fn find(&mut self, x: &QuantRow) {
        let codes = x.codes();
        assert!(x.group_scales().is_none(), "one scale per token");
        assert!(codes.len() <= self.columns.len(), "capacity of {} codes", self.columns.len());
        let mut len = 0;
        for (column, &code) in codes.iter().enumerate() {
            // Without a branch, which would be mispredicted.
            self.columns[len] = column as u32;
            len += usize::from(code != 0);
        }
        let padded = len.next_multiple_of(4);
        self.columns[len..padded].fill(0);
        self.codes[len..padded].fill(0);
        for (code, &column) in self.codes.iter_mut().zip(&self.columns[..len]) {
            *code = codes[column as usize];
        }
        (self.len, self.sum, self.scale, self.fine) = (len, x.sum(), x.scale(), None);
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
        let quads = self.len.div_ceil(4);
        (&self.columns.as_chunks().0[..quads], &self.codes.as_chunks().0[..quads])
    }

    /// Returns the codes of the second row in groups of four, if there is one.
    #[inline(always)]
    pub(super) fn fine_quads(&self) -> Option<&[[i8; 4]]> {
        let quads = self.len.div_ceil(4);
        self.fine.as_ref().map(|fine| &fine.codes.as_chunks().0[..quads])
    }
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

/// As [`multiply_add_columns`], for several tokens: `y` and `total` have a row for each of `xs`. A line of
/// all columns stays in the second-level cache while the tokens read theirs.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn multiply_add_columns_of_each(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryColumns,
    xs: &[NonZeros],
    y: &mut [f32],
    total: &mut [f32],
) {
    assert_eq!(y.len(), xs.len() * w.rows, "one result per token and row");
    let blocks = (JOBS_PER_THREAD * pool.threads()).div_ceil(w.lines_per_column().max(1));
    let block_tokens = xs.len().div_ceil(blocks).max(1);
    let shape = (block_tokens, COLUMN_LINE_ROWS);
    pool.tile_pairs((y, total), w.rows, shape, |block, line, mut y, mut total| {
        for (token, x) in xs[block * block_tokens..].iter().take(y.rows()).enumerate() {
            kernel.multiply_columns(w, line, x, y.row(token));
            kernel.add(total.row(token), y.row(token));
        }
    });
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
            let dots = cpu.load_i32(&sums.map(|sum| sum - x.sum));
            let scales = cpu.load(&w.scales.of_strip(strip));
            let results = dots.mul(scales).mul(cpu.splat(x.scale));
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
    const QUADS: usize = COLUMNS_AT_ONCE / 4;
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
