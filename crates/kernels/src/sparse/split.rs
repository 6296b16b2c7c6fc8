//! Products of one token that skip columns, divided by columns.
//!
//! A thread reads whole columns, some of those that the token needs, for all rows of a matrix: the memory of a column is
//! one piece, and all threads together read the memory of the matrix from its beginning to its end, with gaps. Divided by
//! rows, each would read pieces of columns. Sums are integers, so adding up those of the threads is exact.

use std::ops::Range;

use super::columns::unshift;
use crate::int_lanes::{COLUMN_LINE_ROWS, ColumnSums};
use crate::line::STRIP;
use crate::sums::IntSums;
use crate::{Kernel, NonZeros, Pool, TernaryColumns};

/// Groups of four columns that are added to the sums of all lines before the next ones: as many again are being
/// prefetched meanwhile, and both fit into the first-level cache beside the sums.
const QUADS: usize = 4;

/// Maximum number of parts that columns are divided into.
const MAX_PARTS: usize = 16;

/// Rows whose sums are joined in one job.
const JOINED_ROWS: usize = 1024;

/// Sums of the parts of products, kept for the next ones.
#[derive(Default)]
pub struct ColumnScratch(Vec<i32>);

/// Multiplies matrices by a token, each with the bits of [`multiply`](crate::multiply), reading only the columns of
/// `x`. Allocates if no product before was as large.
///
/// # Panics
///
/// Panics if the shapes do not match.
pub fn multiply_columns_each<const N: usize>(
    kernel: &dyn Kernel,
    pool: &Pool,
    products: [(&TernaryColumns, &mut [f32]); N],
    x: &NonZeros,
    ColumnScratch(buffer): &mut ColumnScratch,
) {
    let matrices = products.each_ref().map(|(w, _)| *w);
    let codes = if x.fine.is_some() { 2 } else { 1 };
    let max_lines = matrices.iter().map(|w| w.lines_per_column()).max().unwrap_or(0);
    let (row_len, parts) = (max_lines * COLUMN_LINE_ROWS, pool.threads().min(MAX_PARTS));
    let part_len = codes * row_len;
    let len = N * parts * part_len;
    buffer.resize(buffer.len().max(len), 0);
    let sums = &mut buffer[..len];
    let quads = x.quads().0.len();
    pool.rows(sums, part_len, |job, sums| {
        let (w, part) = (matrices[job / parts], job % parts);
        let range = part * quads / parts..(part + 1) * quads / parts;
        let len = w.lines_per_column() * COLUMN_LINE_ROWS;
        let (coarse, fine) = sums.split_at_mut(row_len);
        let fine = if codes == 2 { &mut fine[..len] } else { &mut [] };
        kernel.sum_columns(w, x, range, &mut coarse[..len], fine);
    });
    let sums = &*sums;
    let results = products.map(|(w, y)| {
        assert_eq!(y.len(), w.rows(), "one result per row");
        (y, w.rows())
    });
    pool.tiles_of_each(results, (1, JOINED_ROWS), |m, _, i, mut y| {
        let parts = sums[m * parts * part_len..][..parts * part_len].chunks_exact(part_len);
        join(matrices[m], x, &parts, (row_len, i * JOINED_ROWS), y.row(0));
    });
}

/// Computes the results of the rows from `first` on from the sums of all parts, each of which has `row_len` sums for
/// every row of codes.
fn join<'a>(
    w: &TernaryColumns,
    x: &NonZeros,
    parts: &(impl Iterator<Item = &'a [i32]> + Clone),
    (row_len, first): (usize, usize),
    y: &mut [f32],
) {
    let strips = (first / STRIP..).zip(y.chunks_mut(STRIP));
    for (strip, y) in strips {
        let scales = w.scales.of_strip(strip);
        let of = |at: usize, sum: i32, x_scale: f32| {
            let mut dots = [0_i32; STRIP];
            for part in parts.clone() {
                let sums = &part[at + strip * STRIP..][..STRIP];
                dots.iter_mut().zip(sums).for_each(|(dot, sum)| *dot += sum);
            }
            let mut results = [0.0_f32; STRIP];
            for ((result, dot), scale) in results.iter_mut().zip(dots).zip(scales) {
                *result = (dot - sum) as f32 * scale * x_scale;
            }
            results
        };
        let coarse = of(0, x.sum, x.scale);
        y.copy_from_slice(&coarse[..y.len()]);
        if let Some(fine) = &x.fine {
            let fine = of(row_len, fine.sum, fine.scale);
            y.iter_mut().zip(fine).for_each(|(y, fine)| *y += fine);
        }
    }
}

/// Computes the exact sums of code times activation for all rows, over some groups of four columns of `x`. `fine` has
/// those of the second row of codes, and is empty if there is none.
#[inline(always)]
pub(crate) fn sum_columns<C: IntSums>(
    cpu: C,
    w: &TernaryColumns,
    x: &NonZeros,
    quads: Range<usize>,
    coarse: &mut [i32],
    fine: &mut [i32],
) {
    let coarse: &mut [ColumnSums] = coarse.as_chunks_mut().0;
    let fine: &mut [ColumnSums] = fine.as_chunks_mut().0;
    coarse.as_flattened_mut().fill(0);
    fine.as_flattened_mut().fill(0);
    let (columns, codes) = x.quads();
    let (columns, codes) = (&columns[quads.clone()], &codes[quads.clone()]);
    let fine_codes = x.fine_quads().map_or(&[][..], |codes| &codes[quads]);
    let prefetch = |columns: &[[u32; 4]], line: usize| {
        let quads = w.quads(line, columns, &[]);
        for &column in columns.as_flattened() {
            cpu.prefetch(std::slice::from_ref(quads.line(column)));
        }
    };
    for line in 0..coarse.len() {
        prefetch(&columns[..columns.len().min(QUADS)], line);
    }
    for first in (0..columns.len()).step_by(QUADS) {
        let end = columns.len().min(first + QUADS);
        let ahead = &columns[end..columns.len().min(end + QUADS)];
        let columns = &columns[first..end];
        for (line, sums) in coarse.iter_mut().enumerate() {
            prefetch(ahead, line);
            cpu.add_columns(w.quads(line, columns, &codes[first..end]), sums);
            if let Some(sums) = fine.get_mut(line) {
                cpu.add_columns(w.quads(line, columns, &fine_codes[first..end]), sums);
            }
        }
    }
    unshift::<C>(coarse);
    unshift::<C>(fine);
}
