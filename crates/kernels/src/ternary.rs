//! Matrices of trits and their scales.

mod select;

use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::arch::{Lines, numbers};
use crate::code_matrix::packed;
use crate::half::{f16_to_f32, f32_to_f16};
use crate::lanes::Simd;
use crate::layout::quad_lines::are_trits;
use crate::line::{Line, MAX_COLS, STRIP};
use crate::quant::{GROUP, RUN};
use crate::{FirstError, Layout, Pool, Scales};

/// [`Scales`] in the order in which kernels read them, with those of the sixteen rows of a strip side
/// by side.
#[derive(Clone)]
pub(crate) enum StripScales {
    Tensor(f32),
    /// By strip.
    Rows(Vec<[f32; STRIP]>),
    /// By strip, and within a strip by group.
    Groups {
        len: usize,
        values: GroupScales,
    },
}

/// The scales of groups. Those that f16 holds exactly, as most files store them, are kept as such: with groups of 128
/// columns, they add a sixteenth to the bytes of the trits instead of an eighth.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupScales {
    F16(Vec<[u16; STRIP]>),
    F32(Vec<[f32; STRIP]>),
}

impl GroupScales {
    fn new(values: Vec<[f32; STRIP]>) -> Self {
        let is_exact = |scale: &f32| f16_to_f32(f32_to_f16(*scale)).to_bits() == scale.to_bits();
        if values.as_flattened().iter().all(is_exact) {
            Self::F16(values.iter().map(|scales| scales.map(f32_to_f16)).collect())
        } else {
            Self::F32(values)
        }
    }

    /// Returns the scales of some groups.
    #[inline(always)]
    fn some(&self, groups: Range<usize>) -> ScaleValues<'_> {
        match self {
            Self::F16(values) => ScaleValues::F16(&values[groups]),
            Self::F32(values) => ScaleValues::F32(&values[groups]),
        }
    }

    fn size_bytes(&self) -> usize {
        match self {
            Self::F16(values) => size_of_val(&values[..]),
            Self::F32(values) => size_of_val(&values[..]),
        }
    }

    fn of_row(&self, group: usize, row: usize) -> f32 {
        match self {
            Self::F16(values) => f16_to_f32(values[group][row]),
            Self::F32(values) => values[group][row],
        }
    }
}

/// Scales of the rows of a strip, as they are stored.
#[derive(Clone, Copy)]
enum ScaleValues<'a> {
    F16(&'a [[u16; STRIP]]),
    F32(&'a [[f32; STRIP]]),
}

impl StripScales {
    fn new(scales: Scales, rows: usize, cols: usize) -> Self {
        match scales {
            Scales::Tensor(scale) => Self::Tensor(scale),
            Scales::Rows(values) => {
                assert_eq!(values.len(), rows, "one scale per row");
                Self::Rows(side_by_side(&values, 1))
            }
            Scales::Groups { len, values } => {
                assert!([64, 128, 256].contains(&len), "groups of {len}, allowed are 64, 128, 256");
                let groups = cols.div_ceil(len);
                assert_eq!(values.len(), rows * groups, "one scale per group");
                Self::Groups { len, values: GroupScales::new(side_by_side(&values, groups)) }
            }
        }
    }

    /// Returns the number of columns in which neither the scales of weights change nor those of activations
    /// in groups.
    pub(crate) fn piece_len(&self) -> usize {
        match self {
            Self::Tensor(_) | Self::Rows(_) => GROUP,
            Self::Groups { len, .. } => GROUP.min(*len),
        }
    }
}

/// The scales of a strip by piece of columns: several pieces may share them.
#[derive(Clone, Copy)]
pub(crate) struct PieceScales<'a> {
    values: ScaleValues<'a>,
    /// Binary logarithm of the number of pieces that share scales, or large if all do.
    shift: u32,
}

impl PieceScales<'_> {
    #[inline(always)]
    pub(crate) fn at<S: Simd>(&self, cpu: S, piece: usize) -> S::Lanes {
        let place = piece >> self.shift;
        match self.values {
            ScaleValues::F16(values) => cpu.load_f16(&values[place]),
            ScaleValues::F32(values) => cpu.load(&values[place]),
        }
    }
}

/// Reorders scales from rows of `groups` to strips. Rows of padding get zeros.
fn side_by_side(values: &[f32], groups: usize) -> Vec<[f32; STRIP]> {
    let strips = values.chunks(STRIP * groups);
    let scale = |strip: &[f32], group, row| strip.get(row * groups + group).copied().unwrap_or(0.0);
    strips
        .flat_map(|strip| {
            (0..groups).map(move |group| std::array::from_fn(|row| scale(strip, group, row)))
        })
        .collect()
}

/// Columns that are unpacked at a time: whole lines in every layout, and whole runs.
const PART: usize = 320;

/// A matrix of trits with its scales.
pub struct TernaryMatrix {
    rows: usize,
    cols: usize,
    scales: StripScales,
    layout: Layout,
    /// Rows are padded to whole strips and columns to whole lines with zero trits.
    lines: Lines,
}

impl TernaryMatrix {
    /// Creates a matrix of zero trits in quad lines.
    ///
    /// # Panics
    ///
    /// Panics if there are no columns or more than 131,072 (the limit of exact arithmetic), or if the
    /// scales do not match the shape.
    pub fn new(rows: usize, cols: usize, scales: Scales) -> Self {
        Self::with_layout(Layout::QuadLines, rows, cols, scales)
    }

    /// Creates a matrix of zero trits in `layout`, or in quad lines if `layout` does not support its
    /// scales.
    ///
    /// # Panics
    ///
    /// Panics as [`new`](Self::new) does.
    pub fn with_layout(layout: Layout, rows: usize, cols: usize, scales: Scales) -> Self {
        let mut w = Self::without_trits(layout, rows, cols, scales);
        let lines_len = w.strips() * w.layout.lines_per_strip(cols);
        w.lines = Lines::filled(w.layout.zeros(), lines_len);
        w
    }

    /// Creates a matrix from the trits that `read` returns, as [`fill`](Self::fill) does, in `layout` or
    /// in quad lines as in [`with_layout`](Self::with_layout). Each thread of `pool` is the first to
    /// write the memory of its part.
    ///
    /// # Panics
    ///
    /// Panics as [`new`](Self::new) and [`fill`](Self::fill) do.
    pub fn read<E: Send>(
        pool: &Pool,
        layout: Layout,
        (rows, cols): (usize, usize),
        scales: Scales,
        read: impl Fn(Range<usize>, &mut [i8]) -> Result<(), E> + Sync,
    ) -> Result<Self, E> {
        let mut w = Self::without_trits(layout, rows, cols, scales);
        w.fill(pool, read)?;
        Ok(w)
    }

    /// Creates a matrix from bytes that are quad lines already. `read` fills pieces of `piece_len` bytes,
    /// by their numbers, on all threads of `pool`, each of which is the first to write the memory of its
    /// part; the last piece may be shorter. The [`bytes_len`](Self::bytes_len) bytes are ordered by
    /// strip, then by line. Returns `None` if a code is not that of a trit.
    ///
    /// # Panics
    ///
    /// Panics as [`new`](Self::new) does, and if a piece is not a whole number of lines.
    pub fn read_quad_lines<E: Send>(
        pool: &Pool,
        (rows, cols): (usize, usize),
        scales: Scales,
        piece_len: usize,
        read: impl Fn(usize, &mut [u8]) -> Result<(), E> + Sync,
    ) -> Result<Option<Self>, E> {
        assert!(
            piece_len.is_multiple_of(size_of::<Line>()),
            "{piece_len} bytes are not whole lines"
        );
        let mut w = Self::without_trits(Layout::QuadLines, rows, cols, scales);
        let lines_len = w.strips() * w.layout.lines_per_strip(cols);
        let first_error = FirstError::new();
        let all_trits = AtomicBool::new(true);
        let piece_lines = piece_len / size_of::<Line>();
        w.lines = Lines::from_bytes(pool, lines_len, piece_lines, |piece, bytes| {
            first_error.record(piece, read(piece, bytes));
            if !are_trits(bytes) {
                all_trits.store(false, Ordering::Relaxed);
            }
        });
        first_error.into_result(all_trits.into_inner().then_some(w))
    }

    fn without_trits(layout: Layout, rows: usize, cols: usize, scales: Scales) -> Self {
        assert!((1..=MAX_COLS).contains(&cols), "{cols} columns, allowed are 1 to {MAX_COLS}");
        let layout = if let Scales::Groups { .. } = scales { Layout::QuadLines } else { layout };
        let scales = StripScales::new(scales, rows, cols);
        Self { rows, cols, scales, layout, lines: Lines::default() }
    }

    /// Creates a matrix of zero trits in quad lines, first written by the threads of `pool`.
    pub(crate) fn zeros(pool: &Pool, rows: usize, cols: usize, scales: Scales) -> Self {
        let mut w = Self::without_trits(Layout::QuadLines, rows, cols, scales);
        let strips = (w.strips(), w.layout.lines_per_strip(cols));
        let mut no_scratch = vec![(); pool.threads()];
        w.lines = Lines::made(pool, w.layout.zeros(), strips, &mut no_scratch, |_, _, ()| {});
        w
    }

    /// Reinterprets the bytes, or the first of them, as other trits in `layout`, for measurements.
    ///
    /// # Panics
    ///
    /// Panics if there are too few bytes.
    pub(crate) fn take_for(&mut self, layout: Layout) {
        let needed = self.strips() * layout.lines_per_strip(self.cols);
        assert!(needed <= self.lines.len(), "{needed} lines of {}", self.lines.len());
        self.layout = layout;
    }

    /// Returns the number of output rows, without padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns, without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of strips of sixteen rows, the last of which may be padded.
    pub fn strips(&self) -> usize {
        self.rows.div_ceil(STRIP)
    }

    /// Returns the memory layout of the trits.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the packed trits, padding included.
    pub fn packed(&self) -> &[u8] {
        numbers(&self.lines)
    }

    /// Returns the size of the packed trits in bytes, padding included, without scales.
    pub fn bytes_len(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Returns the size in memory in bytes: the packed trits and their scales.
    pub fn size_bytes(&self) -> usize {
        let scales = match &self.scales {
            StripScales::Tensor(_) => size_of::<f32>(),
            StripScales::Rows(values) => size_of_val(&values[..]),
            StripScales::Groups { values, .. } => values.size_bytes(),
        };
        self.bytes_len() + scales
    }

    /// Replaces all trits, strip by strip on all threads of `pool`.
    ///
    /// `read` gets a range of rows and writes their trits, row by row, over old ones. If strips cannot
    /// be read, the error of the first of them is returned and the matrix is unchanged.
    ///
    /// # Panics
    ///
    /// Panics if `read` returns a number other than -1, 0 and 1.
    pub fn fill<E: Send>(
        &mut self,
        pool: &Pool,
        read: impl Fn(Range<usize>, &mut [i8]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let (layout, cols) = (self.layout, self.cols);
        let strip = (layout.zeros(), layout.lines_per_strip(cols));
        let pack = |trits: &[i8], lines: &mut [Line]| layout.pack_strip(trits, cols, lines);
        self.lines = packed(pool, (self.rows, cols), strip, read, pack)?;
        Ok(())
    }

    /// Returns the same matrix in `layout`, or in quad lines if `layout` does not support its scales.
    #[must_use]
    pub fn repacked(&self, pool: &Pool, layout: Layout) -> Self {
        let grouped = matches!(self.scales, StripScales::Groups { .. });
        let layout = if grouped { Layout::QuadLines } else { layout };
        let (scales, lines) = (self.scales.clone(), Lines::default());
        let mut copy = Self { rows: self.rows, cols: self.cols, scales, layout, lines };
        let Ok(()) = copy.fill(pool, |rows, trits| {
            for (row, trits) in rows.zip(trits.chunks_exact_mut(self.cols)) {
                self.unpack(row, trits);
            }
            Ok::<(), Infallible>(())
        });
        copy
    }

    /// Unpacks the trits of one row.
    pub fn unpack(&self, row: usize, out: &mut [i8]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.cols, "one trit per column");
        self.layout.unpack_row(row % STRIP, self.strip_lines(row / STRIP), out);
    }

    /// Writes the weights of one row: its trits times their scales. Does not allocate.
    ///
    /// # Panics
    ///
    /// Panics if there is no such row, or if `out` does not hold one weight per column.
    pub fn weights(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.cols, "one weight per column");
        let lines = self.strip_lines(row / STRIP);
        let part_lines = self.layout.lines_per_strip(PART);
        let mut trits = [0; PART];
        for (part, (lines, out)) in lines.chunks(part_lines).zip(out.chunks_mut(PART)).enumerate() {
            let trits = &mut trits[..out.len()];
            self.layout.unpack_row(row % STRIP, lines, trits);
            for (run, (out, trits)) in out.chunks_mut(RUN).zip(trits.chunks(RUN)).enumerate() {
                let scale = self.scale(row, part * PART + run * RUN);
                for (out, &trit) in out.iter_mut().zip(trits) {
                    *out = f32::from(trit) * scale;
                }
            }
        }
    }

    fn scale(&self, row: usize, col: usize) -> f32 {
        match &self.scales {
            StripScales::Tensor(scale) => *scale,
            StripScales::Rows(values) => values[row / STRIP][row % STRIP],
            StripScales::Groups { len, values } => {
                values.of_row(row / STRIP * self.cols.div_ceil(*len) + col / len, row % STRIP)
            }
        }
    }

    pub(crate) fn strip_lines(&self, strip: usize) -> &[Line] {
        let len = self.layout.lines_per_strip(self.cols);
        &self.lines[strip * len..][..len]
    }

    /// Returns the number of activations of a token for this matrix, in whole runs.
    pub(crate) fn padded_cols(&self) -> usize {
        self.cols.next_multiple_of(RUN)
    }

    pub(crate) fn scales(&self) -> &StripScales {
        &self.scales
    }

    /// Returns the scales of a strip by piece of [`StripScales::piece_len`] columns. `same` is room for those of
    /// a matrix with one scale.
    #[inline(always)]
    pub(crate) fn piece_scales<'a>(
        &'a self,
        strip: usize,
        same: &'a mut [f32; STRIP],
    ) -> PieceScales<'a> {
        let for_all = |values| PieceScales { values, shift: u32::BITS - 1 };
        match &self.scales {
            StripScales::Tensor(scale) => {
                *same = [*scale; STRIP];
                for_all(ScaleValues::F32(std::slice::from_ref(same)))
            }
            StripScales::Rows(values) => for_all(ScaleValues::F32(&values[strip..=strip])),
            StripScales::Groups { len, .. } => PieceScales {
                shift: (len / self.scales.piece_len()).ilog2(),
                ..self.group_scales(strip)
            },
        }
    }

    /// Returns the scales of a strip by group of columns.
    ///
    /// # Panics
    ///
    /// Panics if the matrix has other scales.
    #[inline(always)]
    pub(crate) fn group_scales(&self, strip: usize) -> PieceScales<'_> {
        let StripScales::Groups { len, values } = &self.scales else { panic!("scales by group") };
        let groups = self.cols.div_ceil(*len);
        PieceScales { values: values.some(strip * groups..(strip + 1) * groups), shift: 0 }
    }

    /// Returns the rows of a strip, without padding.
    pub(crate) fn strip_rows(&self, strip: usize) -> Range<usize> {
        STRIP * strip..self.rows.min(STRIP * (strip + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a matrix, as a file could hold them.
    fn bytes(w: &TernaryMatrix) -> Vec<u8> {
        w.lines.iter().flat_map(|line| line.0).collect()
    }

    #[test]
    fn quad_lines_are_read_without_repacking() {
        for (rows, cols, piece_len) in
            [(1, 1, 64), (16, 64, 128), (37, 200, 320), (64, 512, 1 << 20)]
        {
            let pool = Pool::new(3);
            let trit = |row: usize, col: usize| ((row * row + 3 * col) / 2 % 3) as i8 - 1;
            let read = |range: Range<usize>, out: &mut [i8]| -> Result<(), Infallible> {
                for (row, out) in range.zip(out.chunks_mut(cols)) {
                    out.iter_mut().enumerate().for_each(|(col, out)| *out = trit(row, col));
                }
                Ok(())
            };
            let scales = Scales::Tensor(0.5);
            let Ok(packed) =
                TernaryMatrix::read(&pool, Layout::QuadLines, (rows, cols), scales.clone(), read);
            let mut stored = bytes(&packed);
            let ready = |stored: &[u8]| {
                TernaryMatrix::read_quad_lines(
                    &pool,
                    (rows, cols),
                    scales.clone(),
                    piece_len,
                    |piece, out| {
                        out.copy_from_slice(&stored[piece * piece_len..][..out.len()]);
                        Ok::<(), Infallible>(())
                    },
                )
            };
            let Ok(Some(w)) = ready(&stored) else { panic!("all codes are trits") };
            assert_eq!(bytes(&w), stored);
            assert_eq!((w.rows(), w.cols(), w.layout()), (rows, cols, Layout::QuadLines));
            *stored.last_mut().expect("a line") |= 3 << 4;
            let Ok(none) = ready(&stored);
            assert!(none.is_none(), "code 3 is no trit");
        }
    }

    #[test]
    fn a_repacked_matrix_has_the_same_trits_and_scales() {
        let (pool, rows, cols) = (Pool::new(2), 37, 200);
        let trits = |w: &TernaryMatrix| -> Vec<i8> {
            let mut trits = vec![0; rows * cols];
            for (row, out) in trits.chunks_exact_mut(cols).enumerate() {
                w.unpack(row, out);
            }
            trits
        };
        let scales_of = |w: &TernaryMatrix| match w.scales() {
            StripScales::Tensor(scale) => GroupScales::F32(vec![[*scale; STRIP]]),
            StripScales::Rows(values) => GroupScales::F32(values.clone()),
            StripScales::Groups { values, .. } => values.clone(),
        };
        let scale = |n: usize| n as f32 * 0.5;
        let by_row = Scales::Rows((0..rows).map(scale).collect());
        let by_group = Scales::Groups { len: 64, values: (0..4 * rows).map(scale).collect() };
        for (scales, expected) in [(by_row, Layout::FiveTrits), (by_group, Layout::QuadLines)] {
            let mut w = TernaryMatrix::new(rows, cols, scales);
            let Ok(()) = w.fill(&pool, |range, out| {
                for (n, out) in (range.start * cols..).zip(out) {
                    *out = (n * n / 7 % 3) as i8 - 1;
                }
                Ok::<(), Infallible>(())
            });
            let copy = w.repacked(&pool, Layout::FiveTrits);
            assert_eq!(copy.layout(), expected);
            assert_eq!(trits(&copy), trits(&w));
            assert_eq!(scales_of(&copy), scales_of(&w));
        }
    }

    #[test]
    fn scales_of_groups_are_kept_as_f16_if_that_is_exact() {
        let (rows, cols) = (21, 300);
        let matrix = |last: f32| {
            let mut values = vec![0.5; rows * 3];
            *values.last_mut().expect("a scale") = last;
            TernaryMatrix::new(rows, cols, Scales::Groups { len: 128, values })
        };
        let of_scales = |w: &TernaryMatrix| w.size_bytes() - w.bytes_len();
        // 2 strips of 16 rows and 3 groups.
        for exact in [0.5, -0.0, 65504.0, f16_to_f32(1)] {
            let w = matrix(exact);
            assert_eq!(of_scales(&w), 2 * 16 * 3 * 2, "{exact:e}");
            assert_eq!(w.scale(rows - 1, cols - 1).to_bits(), exact.to_bits());
        }
        for other in [0.1, 65520.0, f32::INFINITY.next_down(), 1e-10] {
            let w = matrix(other);
            assert_eq!(of_scales(&w), 2 * 16 * 3 * 4, "{other:e}");
            assert_eq!(w.scale(rows - 1, cols - 1).to_bits(), other.to_bits());
        }
    }

    #[test]
    fn weights_are_trits_times_their_scales() {
        let (rows, cols) = (21, 768);
        let trit = |row: usize, col: usize| ((row * row + 3 * col) / 2 % 3) as i8 - 1;
        let scale_values = |count: usize| (0..count).map(|i| (i + 1) as f32 / 8.0).collect();
        let groups = |len| Scales::Groups { len, values: scale_values(rows * cols / len) };
        let cases =
            [Scales::Tensor(0.5), Scales::Rows(scale_values(rows)), groups(64), groups(256)];
        for (scales, layout) in cases.iter().flat_map(|s| Layout::ALL.map(|layout| (s, layout))) {
            let read = |range: Range<usize>, out: &mut [i8]| -> Result<(), Infallible> {
                for (row, out) in range.zip(out.chunks_mut(cols)) {
                    out.iter_mut().enumerate().for_each(|(col, out)| *out = trit(row, col));
                }
                Ok(())
            };
            let pool = Pool::new(1);
            let Ok(w) = TernaryMatrix::read(&pool, layout, (rows, cols), scales.clone(), read);
            let mut found = vec![9.0; cols];
            for row in 0..rows {
                w.weights(row, &mut found);
                let weight = |col| f32::from(trit(row, col)) * scales.at(row, col, cols);
                let expected: Vec<f32> = (0..cols).map(weight).collect();
                assert_eq!(found, expected, "row {row} of {layout:?} with {scales:?}");
            }
        }
    }

    #[test]
    fn returns_the_error_of_the_first_failing_piece() {
        let read = |piece: usize, _: &mut [u8]| if piece >= 2 { Err(piece) } else { Ok(()) };
        let scales = Scales::Tensor(1.0);
        let result = TernaryMatrix::read_quad_lines(&Pool::new(2), (64, 256), scales, 256, read);
        assert_eq!(result.err(), Some(2));
    }
}
