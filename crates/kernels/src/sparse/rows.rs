//! Copies of ternary matrices by row, and the gated neurons that read only the rows they need.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{RowScales, TernaryCopy};
use crate::arch::Lines;
use crate::lanes::{F32x16, Simd};
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
pub(crate) const JOB_ROWS: usize = JOB_STRIPS * STRIP;

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
    open_neurons(cpu, up, x, first_strip * STRIP, false, neurons)
}

/// Turns the gates of at most [`JOB_ROWS`] rows from `first_row` on into neurons. Rows that are not in a cache are
/// prefetched.
#[inline(always)]
pub(crate) fn open_neurons<C: IntSums>(
    cpu: C,
    up: &TernaryRows,
    x: &QuantRow,
    first_row: usize,
    in_cache: bool,
    neurons: &mut [f32],
) -> usize {
    assert_eq!(x.codes().len(), up.cols.next_multiple_of(RUN), "one code per column");
    assert!(x.group_scales().is_none(), "one scale per token");
    // Rows with a positive gate, counted from the first of this job.
    let mut open = [0; JOB_ROWS];
    let open = close_gates(cpu, neurons, &mut open);
    let prefetch = |rows: &[usize]| {
        for &row in rows {
            cpu.prefetch(up.row(first_row + row));
        }
    };
    let mut ahead = if in_cache { &[] } else { open };
    prefetch(ahead.split_off(..ahead.len().min(ROWS_AHEAD)).unwrap_or(&[]));
    let (whole, rest) = open.as_chunks::<ROWS_AT_ONCE>();
    for rows in whole {
        prefetch(ahead.split_off(..ahead.len().min(ROWS_AT_ONCE)).unwrap_or(&[]));
        multiply_open(cpu, up, x, first_row, *rows, neurons);
    }
    match *rest {
        [a, b, c] => multiply_open(cpu, up, x, first_row, [a, b, c], neurons),
        [a, b] => multiply_open(cpu, up, x, first_row, [a, b], neurons),
        [a] => multiply_open(cpu, up, x, first_row, [a], neurons),
        _ => {}
    }
    neurons.len() - open.len()
}

/// Sets gates that are zero or less to +0, and returns the indices of the others. A NaN is one of those.
#[inline(always)]
fn close_gates<'a, C: Simd>(
    cpu: C,
    gates: &mut [f32],
    open: &'a mut [usize; JOB_ROWS],
) -> &'a [usize] {
    let zero = cpu.splat(0.0);
    let mut len = 0;
    for (first, gates) in
        (0..).step_by(u64::BITS as usize).zip(gates.chunks_mut(u64::BITS as usize))
    {
        let mut bits = 0;
        let (whole, tail) = gates.as_chunks_mut::<16>();
        for (i, gates) in whole.iter_mut().enumerate() {
            let lanes = cpu.load(gates);
            bits |= u64::from(lanes.not_closed()) << (16 * i);
            // The maximum of both keeps a NaN and the sign of zero, which the sum loses.
            zero.max(lanes).add(zero).store(gates);
        }
        if !tail.is_empty() {
            let lanes = cpu.load_tail(tail, 0.0);
            bits |= u64::from(lanes.not_closed()) << (16 * whole.len());
            zero.max(lanes).add(zero).store_tail(tail);
        }
        while bits != 0 {
            open[len] = first + bits.trailing_zeros() as usize;
            len += 1;
            bits &= bits - 1;
        }
    }
    &open[..len]
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
