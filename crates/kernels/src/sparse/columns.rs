//! Columns of trits one by one, and the product that reads only those it needs.

use super::{RowScales, SparseSums};
use crate::arch::Lines;
use crate::lanes::{F32x16, Simd};
use crate::layout::quad_lines::ZERO_TRITS;
use crate::line::{Line, STRIP};
use crate::{Kernel, Pool, QuantRow, TernaryMatrix};

/// Rows in a line of a column.
pub(crate) const COLUMN_LINE_ROWS: usize = 256;

/// Columns that are added to the sums of a line before the next line's turn comes.
///
/// One layer of 2B with 86 % of zeros, two threads, in µs: 41 for 8, 35 for 16, 31 for 32, and 70 if
/// the columns after them are not asked for.
pub(crate) const COLUMNS_AT_ONCE: usize = 32;

/// Neighbouring lines of a column that are read together. One layer of 2B with 86 % of zeros, one
/// thread, in µs: 47 for one, 39 for two, 46 for eight.
const LINES_AT_ONCE: usize = 2;

/// With more columns, the sums of an unshifted field of trits could leave 32 bits:
/// 2^16 * 128 * 128 is 2^30.
const MAX_SPARSE_COLS: usize = 1 << 16;

/// A copy of a matrix of trits whose columns can be read one by one.
///
/// A line has 64 bytes of one column, 256 rows, two bits a trit, holding the trit plus one; where in
/// a line a row lies, `place_in_column` says. The lines of a column lie one after the other.
pub struct TernaryColumns {
    rows: usize,
    cols: usize,
    scales: RowScales,
    lines: Lines,
}

/// The byte of a row of a line, and the field in it.
///
/// Bytes of four columns are interleaved before they are multiplied, within parts of sixteen bytes
/// as shuffles work, and then sixteen neighbouring rows are to be side by side: row
/// `64 * field + 16 * k + r` lies in part `r / 4`, at byte `4k + r % 4` of it.
#[inline(always)]
pub(crate) fn place_in_column(row: usize) -> (usize, usize) {
    let (field, k, r) = (row / 64, row % 64 / 16, row % 16);
    (16 * (r / 4) + 4 * k + r % 4, field)
}

impl TernaryColumns {
    /// A copy of `w`, or nothing if it has a scale for every group, or more than 65,536 columns.
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
            // Lines are packed side by side and then put where they belong: a trit at a time, they
            // would be written in 256 rounds through all of the memory.
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
                            // From code 1, which is trit 0, to trit + 1.
                            line.0[byte] ^= (1 ^ (trit + 1) as u8) << (2 * field);
                        }
                    }
                    for (column, packed) in packed.iter().enumerate() {
                        lines.row(column)[0] = *packed;
                    }
                },
            );
        }
        Some(Self { rows, cols, scales, lines })
    }

    /// Output rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes of packed trits, padding included, scales not.
    pub fn bytes_len(&self) -> usize {
        size_of_val(&*self.lines)
    }

    #[inline(always)]
    pub(crate) fn line(&self, column: u32, line: usize) -> &Line {
        &self.lines[column as usize * self.lines_per_column() + line]
    }

    #[inline(always)]
    fn lines_per_column(&self) -> usize {
        self.rows.div_ceil(COLUMN_LINE_ROWS)
    }
}

/// The codes of a row that are not zero, and where they are.
#[derive(Clone, Debug)]
pub struct NonZeros {
    /// In fours; the last is filled up with zero codes of a column that exists.
    columns: Vec<u32>,
    codes: Vec<i8>,
    len: usize,
    sum: i32,
    scale: f32,
}

impl NonZeros {
    /// Room for the codes of a row of at most `max_cols` columns.
    pub fn with_room(max_cols: usize) -> Self {
        // One more than there can be: the loop of `find` writes before it counts.
        let room = (max_cols + 1).next_multiple_of(64);
        Self { columns: vec![0; room], codes: vec![0; room], len: 0, sum: 0, scale: 0.0 }
    }

    /// Finds the codes of `x` that are not zero. Does not allocate.
    ///
    /// # Panics
    ///
    /// If there is no room for as many as there may be.
    pub fn find(&mut self, x: &QuantRow) {
        let codes = x.codes();
        assert!(codes.len() <= self.columns.len(), "room for {} codes", self.columns.len());
        let mut len = 0;
        for (column, &code) in codes.iter().enumerate() {
            // Without a branch, which no CPU could foresee.
            self.columns[len] = column as u32;
            len += usize::from(code != 0);
        }
        let padded = len.next_multiple_of(4);
        self.columns[len..padded].fill(0);
        self.codes[len..padded].fill(0);
        for (code, &column) in self.codes.iter_mut().zip(&self.columns[..len]) {
            *code = codes[column as usize];
        }
        (self.len, self.sum, self.scale) = (len, x.sum(), x.scale());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether all codes are zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The columns by four, and the codes by four.
    #[inline(always)]
    fn quads(&self) -> (&[[u32; 4]], &[[i8; 4]]) {
        let quads = self.len.div_ceil(4);
        (&self.columns.as_chunks().0[..quads], &self.codes.as_chunks().0[..quads])
    }
}

/// `total += w · x`; `y` keeps the product. Bit for bit what [`multiply_add`](crate::multiply_add)
/// gives, reading only the columns of `x`. Does not allocate.
///
/// # Panics
///
/// If the shapes do not fit each other.
pub fn multiply_add_columns(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryColumns,
    x: &NonZeros,
    y: &mut [f32],
    total: &mut [f32],
) {
    assert_eq!(y.len(), w.rows, "one result a row");
    // A line is the least there is to share out, and there are few: each thread gets one job.
    let job_lines = w.lines_per_column().div_ceil(pool.threads()).max(1);
    pool.strip_pairs((y, total), w.rows, job_lines * COLUMN_LINE_ROWS, |job, mut y, mut total| {
        kernel.multiply_columns(w, job * job_lines, x, y.row(0));
        kernel.add(total.row(0), y.row(0));
    });
}

/// The results of the rows of line `first_line` of a column and of those after it.
#[inline(always)]
pub(crate) fn sparse_columns<C: SparseSums + Simd>(
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

/// The exact sums of code times activation, for the rows of line `first_line` and those after it.
///
/// Some columns are added to the sums of one line, then the same columns to those of the next, so
/// that what lies together in memory is read together. The columns after those are asked for.
#[inline(always)]
fn column_sums<C: SparseSums + Simd>(
    cpu: C,
    w: &TernaryColumns,
    first_line: usize,
    x: &NonZeros,
    sums: &mut [[i32; COLUMN_LINE_ROWS]],
) {
    const QUADS: usize = COLUMNS_AT_ONCE / 4;
    let (columns, codes) = x.quads();
    let ask_for = |columns: &[[u32; 4]], line: usize| {
        for &column in columns.as_flattened() {
            cpu.prefetch(std::slice::from_ref(w.line(column, line)));
        }
    };
    for line in (first_line..).take(sums.len()) {
        ask_for(&columns[..columns.len().min(QUADS)], line);
    }
    for (i, codes) in codes.chunks(QUADS).enumerate() {
        let (columns, ahead) = columns[i * QUADS..].split_at(codes.len());
        let ahead = &ahead[..ahead.len().min(QUADS)];
        for (line, sums) in (first_line..).zip(sums.iter_mut()) {
            ask_for(ahead, line);
            cpu.add_columns(w, line, (columns, codes), sums);
        }
    }
    if C::UNSHIFTED {
        for (row, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
            let (_, field) = place_in_column(row % COLUMN_LINE_ROWS);
            *sum >>= 2 * field;
        }
    }
}
