//! Sums over single rows and columns of trits.

use super::strips::dots_in_narrow;
use crate::int_lanes::{COLUMNS_AT_ONCE, ColumnQuads, ColumnSums, IntLanes, Interleave, Trits};
use crate::line::{Line, STRIP};
use crate::quant::RUN;

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
pub(crate) fn add_columns<C: Interleave>(cpu: C, quads: ColumnQuads<'_>, sums: &mut ColumnSums) {
    let ColumnQuads { columns, codes, .. } = quads;
    let strips = sums.as_chunks_mut::<STRIP>().0;
    if C::MANY_REGISTERS {
        // All sums stay in registers; by field, and within a field by strip.
        let mut narrow = [[cpu.zero(); 4]; 4];
        for (narrow, sums) in narrow.as_flattened_mut().iter_mut().zip(strips.iter()) {
            *narrow = cpu.resume(sums);
        }
        for (columns, codes) in columns.iter().zip(codes) {
            let activations = cpu.broadcast(*codes);
            let bytes = interleaved(cpu, quads, *columns);
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
        let mut packed = [interleaved(cpu, quads, columns[0]); COLUMNS_AT_ONCE / 4];
        for (packed, columns) in packed.iter_mut().zip(columns).skip(1) {
            *packed = interleaved(cpu, quads, *columns);
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
    quads: ColumnQuads<'_>,
    [a, b, c, d]: [u32; 4],
) -> [C::Bytes; 4] {
    let (a, b) = (cpu.load_bytes(&quads.line(a).0, 0), cpu.load_bytes(&quads.line(b).0, 0));
    let (c, d) = (cpu.load_bytes(&quads.line(c).0, 0), cpu.load_bytes(&quads.line(d).0, 0));
    cpu.interleave([a, b, c, d])
}
