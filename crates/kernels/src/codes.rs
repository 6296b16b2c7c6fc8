//! Rows of block-quantized floats: small integers times scales.

use crate::Strip;
use crate::lanes::{F32x16, Simd};

/// Columns that share a scale, which is one load of lanes.
pub(crate) const GROUP: usize = 16;

/// Rows in flight, and vectors that share one load of them on CPUs with many registers; as for plain
/// floats.
const ROWS: usize = 4;
const VECTORS: usize = 4;

/// Rows of codes with a scale for every sixteen columns. A value is code times scale, rounded, minus the
/// minimum of its group, if there are minima, rounded again.
#[derive(Clone, Copy, Debug)]
pub struct CodeRows<'a> {
    /// Codes of all rows, each of which is a multiple of sixteen long.
    pub codes: &'a [i8],
    /// For each row, one scale for every sixteen codes, then as many minima if there are any.
    pub scales: &'a [f32],
    /// True if there are minima.
    pub has_minima: bool,
}

#[inline(always)]
pub(crate) fn code_dots<S: Simd>(cpu: S, rows: CodeRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>) {
    let len = xs.len().checked_div(y.rows()).unwrap_or(0);
    assert_eq!(xs.len(), len * y.rows(), "as many vectors as rows of results, all of one length");
    assert_eq!(rows.codes.len(), len * y.width(), "as many rows as results, as long as a vector");
    assert!(len.is_multiple_of(GROUP), "{len} columns are not whole groups");
    let factors = if rows.has_minima { 2 } else { 1 };
    assert_eq!(rows.scales.len() * GROUP, rows.codes.len() * factors, "one scale a group");
    let groups = Groups { codes: rows.codes.as_chunks().0, scales: rows.scales, len: len / GROUP };
    match rows.has_minima {
        true => dots_of_all::<S, true>(cpu, groups, xs.as_chunks().0, y),
        false => dots_of_all::<S, false>(cpu, groups, xs.as_chunks().0, y),
    }
}

#[inline(always)]
fn dots_of_all<S: Simd, const MINIMA: bool>(
    cpu: S,
    groups: Groups<'_>,
    xs: &[[f32; GROUP]],
    y: &mut Strip<'_, f32>,
) {
    let blocks = y.width() / ROWS;
    for block in 0..blocks {
        dots_of_rows::<S, MINIMA, ROWS>(cpu, groups, block * ROWS, xs, y);
    }
    for row in blocks * ROWS..y.width() {
        dots_of_rows::<S, MINIMA, 1>(cpu, groups, row, xs, y);
    }
}

/// Rows of `len` groups.
#[derive(Clone, Copy)]
struct Groups<'a> {
    codes: &'a [[i8; GROUP]],
    scales: &'a [f32],
    len: usize,
}

/// Computes the dot products of `N` rows from `first` on with every vector.
#[inline(always)]
fn dots_of_rows<S: Simd, const MINIMA: bool, const N: usize>(
    cpu: S,
    rows: Groups<'_>,
    first: usize,
    xs: &[[f32; GROUP]],
    y: &mut Strip<'_, f32>,
) {
    let mut t = 0;
    while S::MANY_REGISTERS && t + VECTORS <= y.rows() {
        for dots in dots_block::<S, MINIMA, N, VECTORS>(cpu, rows, first, &xs[t * rows.len..]) {
            y.row(t)[first..][..N].copy_from_slice(&dots);
            t += 1;
        }
    }
    while t < y.rows() {
        let [dots] = dots_block::<S, MINIMA, N, 1>(cpu, rows, first, &xs[t * rows.len..]);
        y.row(t)[first..][..N].copy_from_slice(&dots);
        t += 1;
    }
}

/// Computes the dot products of `N` rows with the first `T` vectors of `xs`, in the order of plain
/// floats.
#[inline(always)]
fn dots_block<S: Simd, const MINIMA: bool, const N: usize, const T: usize>(
    cpu: S,
    rows: Groups<'_>,
    first: usize,
    xs: &[[f32; GROUP]],
) -> [[f32; N]; T] {
    // Loops, because closures would remain calls in a function as large as this becomes.
    let len = rows.len;
    let mut codes = [&rows.codes[..0]; N];
    let mut scales = [&rows.scales[..0]; N];
    let mut minima = [&rows.scales[..0]; N];
    for r in 0..N {
        codes[r] = &rows.codes[(first + r) * len..][..len];
        if MINIMA {
            let factors = &rows.scales[(first + r) * 2 * len..][..2 * len];
            (scales[r], minima[r]) = factors.split_at(len);
        } else {
            scales[r] = &rows.scales[(first + r) * len..][..len];
        }
    }
    let ahead = rows.codes.get((first + N) * len..(first + 2 * N) * len).unwrap_or_default();
    let mut sums = [[cpu.splat(0.0); N]; T];
    for i in 0..len {
        if let Some(ahead) = ahead.get(N * i..N * (i + 1)) {
            cpu.prefetch(ahead);
        }
        let mut values = [cpu.splat(0.0); N];
        for r in 0..N {
            values[r] = cpu.load_i8(&codes[r][i]).mul(cpu.splat(scales[r][i]));
            if MINIMA {
                values[r] = values[r].sub(cpu.splat(minima[r][i]));
            }
        }
        for (t, sums) in sums.iter_mut().enumerate() {
            let x = cpu.load(&xs[t * len + i]);
            for (sum, values) in sums.iter_mut().zip(&values) {
                *sum = values.mul_add(x, *sum);
            }
        }
    }
    let mut dots = [[0.0; N]; T];
    for (dots, sums) in dots.iter_mut().zip(sums) {
        for (dot, sum) in dots.iter_mut().zip(sums) {
            *dot = sum.sum();
        }
    }
    dots
}
