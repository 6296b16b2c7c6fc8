//! Copies of ternary matrices by row, and the gated neurons that read only the rows they need.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{RowScales, TernaryCopy};
use crate::arch::Lines;
use crate::layout::quad_lines::ZERO_TRITS;
use crate::line::{Line, STRIP};
use crate::product::multiply_strip;
use crate::quant::RUN;
use crate::sums::IntSums;
use crate::{Kernel, Pool, QuantRow, Strip, TernaryMatrix};

/// Columns in a line of a row.
const ROW_LINE_COLS: usize = 256;

/// Rows whose sums are computed together and share the loads of the activations.
const ROWS_AT_ONCE: usize = 4;

/// Rows that are prefetched. Half as many were a little slower.
const ROWS_AHEAD: usize = 8;

/// Strips in a job.
const JOB_STRIPS: usize = 8;

/// Rows in a job.
const JOB_ROWS: usize = JOB_STRIPS * STRIP;

/// A copy of a ternary matrix whose rows can be read one by one.
///
/// A line has 64 bytes of one row, with two bits per trit, holding the trit plus one. Field `j` of byte
/// `m` of line `i` is column `256i + 64j + m`, so a field has trits in the order of activations. The
/// lines of a row follow each other.
pub type TernaryRows = TernaryCopy<ByRow>;

/// The order of [`TernaryRows`].
pub struct ByRow;

impl TernaryRows {
    /// Copies `w`. Returns `None` if it has scales per group.
    pub fn new(pool: &Pool, w: &TernaryMatrix) -> Option<Self> {
        let scales = RowScales::new(w.scales())?;
        let (rows, cols) = (w.rows(), w.cols());
        let lines_per_row = cols.div_ceil(ROW_LINE_COLS);
        let (zeros, shape) = (Line([ZERO_TRITS; 64]), (rows, lines_per_row));
        let mut buffers = vec![vec![0; cols]; pool.threads()];
        let lines = Lines::made(pool, zeros, shape, &mut buffers, |row, lines, trits| {
            w.unpack(row, trits);
            for (line, trits) in lines.iter_mut().zip(trits.chunks(ROW_LINE_COLS)) {
                *line = pack(trits);
            }
        });
        Some(Self { rows, cols, scales, lines, order: PhantomData })
    }

    fn row(&self, row: usize) -> &[Line] {
        let len = self.cols.div_ceil(ROW_LINE_COLS);
        &self.lines[row * len..][..len]
    }
}

/// Packs at most 256 columns of a row.
fn pack(trits: &[i8]) -> Line {
    let mut line = Line([0; 64]);
    for field in 0..4 {
        let run = trits.get(field * RUN..).unwrap_or(&[]);
        for (m, byte) in line.0.iter_mut().enumerate() {
            let trit = run.get(m).copied().unwrap_or(0);
            *byte |= ((trit + 1) as u8) << (2 * field);
        }
    }
    line
}

/// Computes `neurons = relu(gate · x)² * (up · x)` with the bits of two products and
/// [`FloatKernel::relu2_mul`](crate::FloatKernel::relu2_mul), without reading the rows of `up` whose
/// gate is not positive. Returns the number of those rows. Does not allocate.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn relu2_neurons(
    kernel: &dyn Kernel,
    pool: &Pool,
    (gate, up): (&TernaryMatrix, &TernaryRows),
    x: &QuantRow,
    neurons: &mut [f32],
) -> usize {
    assert_eq!(neurons.len(), gate.rows(), "one neuron per row");
    let closed = AtomicUsize::new(0);
    pool.strips(neurons, gate.rows(), JOB_ROWS, |job, mut neurons| {
        let found = kernel.relu2_neurons(gate, up, x, job * JOB_STRIPS, neurons.row(0));
        closed.fetch_add(found, Ordering::Relaxed);
    });
    closed.into_inner()
}

/// Turns the gates of many tokens into neurons, in place, with the bits of
/// [`FloatKernel::relu2_mul`](crate::FloatKernel::relu2_mul). A token reads only the rows of `up` whose
/// gate is positive, from a cache that holds the rows of a job for all tokens. Does not allocate.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn open_relu2_neurons(
    kernel: &dyn Kernel,
    pool: &Pool,
    up: &TernaryRows,
    xs: &[QuantRow],
    neurons: &mut [f32],
) {
    assert_eq!(neurons.len(), xs.len() * up.rows, "one gate per token and row");
    pool.strips(neurons, up.rows, JOB_ROWS, |job, mut neurons| {
        for (token, x) in xs.iter().enumerate() {
            kernel.open_neurons(up, x, job * JOB_ROWS, neurons.row(token));
        }
    });
}

/// Computes the neurons of the strips of `gate` from `first_strip` on, at most [`JOB_ROWS`] of them.
///
/// All gates are computed first, in one stream through memory, and then the rows of `up` they need.
/// Alternating, so that rows arrive while gates are computed, was no faster.
#[inline(always)]
pub(crate) fn sparse_neurons<C: IntSums>(
    cpu: C,
    gate: &TernaryMatrix,
    up: &TernaryRows,
    x: &QuantRow,
    first_strip: usize,
    neurons: &mut [f32],
) -> usize {
    assert!(gate.rows() == up.rows && gate.cols() == up.cols, "gate and up of one shape");
    for (i, gates) in neurons.chunks_mut(STRIP).enumerate() {
        let width = gates.len();
        let strip = &mut Strip::new(gates, width, width, 0);
        multiply_strip(cpu, gate, first_strip + i, std::slice::from_ref(x), strip);
    }
    open_neurons(cpu, up, x, first_strip * STRIP, neurons)
}

/// Turns the gates of at most [`JOB_ROWS`] rows from `first_row` on into neurons.
#[inline(always)]
pub(crate) fn open_neurons<C: IntSums>(
    cpu: C,
    up: &TernaryRows,
    x: &QuantRow,
    first_row: usize,
    neurons: &mut [f32],
) -> usize {
    assert_eq!(x.codes().len(), up.cols.next_multiple_of(RUN), "one code per column");
    assert!(x.group_scales().is_none(), "one scale per token");
    // Rows with a positive gate, counted from the first of this job.
    let mut open = [0_usize; JOB_ROWS];
    let mut open_len = 0;
    for (row, gate) in neurons.iter_mut().enumerate() {
        // Not `> 0`, which would drop a NaN.
        let is_closed = *gate <= 0.0;
        open[open_len] = row;
        open_len += usize::from(!is_closed);
        *gate = if is_closed { 0.0 } else { *gate };
    }
    let open = &open[..open_len];
    let prefetch = |rows: &[usize]| {
        for &row in rows {
            cpu.prefetch(up.row(first_row + row));
        }
    };
    prefetch(&open[..open_len.min(ROWS_AHEAD)]);
    let (whole, rest) = open.as_chunks::<ROWS_AT_ONCE>();
    for (i, rows) in whole.iter().enumerate() {
        let ahead = open.get(i * ROWS_AT_ONCE + ROWS_AHEAD..).unwrap_or(&[]);
        prefetch(&ahead[..ahead.len().min(ROWS_AT_ONCE)]);
        multiply_open(cpu, up, x, first_row, *rows, neurons);
    }
    match *rest {
        [a, b, c] => multiply_open(cpu, up, x, first_row, [a, b, c], neurons),
        [a, b] => multiply_open(cpu, up, x, first_row, [a, b], neurons),
        [a] => multiply_open(cpu, up, x, first_row, [a], neurons),
        _ => {}
    }
    neurons.len() - open_len
}

/// Turns the gates of some rows, counted from `first_row`, into neurons.
#[inline(always)]
fn multiply_open<C: IntSums, const R: usize>(
    cpu: C,
    up: &TernaryRows,
    x: &QuantRow,
    first_row: usize,
    rows: [usize; R],
    neurons: &mut [f32],
) {
    let sums = cpu.row_sums(rows.map(|row| up.row(first_row + row)), x.codes());
    for (row, sum) in rows.into_iter().zip(sums) {
        let scale = up.scales.of_row(first_row + row);
        let up = (sum - x.sum()) as f32 * scale * x.scale();
        let gate = neurons[row];
        neurons[row] = gate * gate * up;
    }
}
