//! Ternary matrix times int8 rows: the part every instruction set shares.
//!
//! The instruction sets differ only in [`LineSums`]: exact integer sums over some lines of a strip.
//! With trit = code - 1, the dot product of trits and activations is `sum(code * a) - sum(a)`. What
//! follows is the same few float operations for each output, so the product has one definition:
//!
//! - one scale a matrix or row: `(d as f32 * scale) * x_scale`;
//! - one scale a group: `acc = fma(d_group as f32, scale_group, acc)` for the groups in order,
//!   starting at 0, and then `acc * x_scale`.

use crate::quant::RUN;
use crate::ternary::{LINE_COLS, Line, STRIP};
use crate::{Kernel, Layout, Pool, QuantBatch, QuantRow, Scales, Strip, TernaryMatrix};

/// How many tokens share one unpacking of a line.
const TOKENS: usize = 4;

/// `y = xs * w`, token by token: `y[t * w.rows() + r]` is row `t` of `xs` times row `r` of `w`.
/// Does not allocate.
///
/// # Panics
///
/// If the shapes do not fit each other.
pub fn multiply(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryMatrix,
    xs: &QuantBatch,
    y: &mut [f32],
) {
    assert_eq!(y.len(), xs.rows().len() * w.rows(), "one result a token and row");
    pool.strips(y, w.rows(), STRIP, |strip, mut y| kernel.multiply(w, strip, xs.rows(), &mut y));
}

/// The integer heart of a product.
pub(crate) trait LineSums: Copy {
    /// For each of `T` tokens and each of sixteen rows, the exact sum of code times activation over
    /// the columns of `lines`. Each token has sixteen activations a line.
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T];
}

#[inline(always)]
pub(crate) fn multiply_strip<C: LineSums>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: &[QuantRow],
    y: &mut Strip<'_, f32>,
) {
    assert!(y.rows() == xs.len() && y.width() == w.strip_rows(strip).len(), "the strip of w");
    let cols = w.strip_lines(strip).len() * LINE_COLS;
    assert!(xs.iter().all(|x| x.codes().len() == cols), "as many codes as columns");
    let (whole, rest) = xs.as_chunks::<TOKENS>();
    for (i, xs) in whole.iter().enumerate() {
        multiply_tokens(cpu, w, strip, xs.each_ref(), y, i * TOKENS);
    }
    let done = whole.len() * TOKENS;
    match rest {
        [a, b, c] => multiply_tokens(cpu, w, strip, [a, b, c], y, done),
        [a, b] => multiply_tokens(cpu, w, strip, [a, b], y, done),
        [a] => multiply_tokens(cpu, w, strip, [a], y, done),
        _ => {}
    }
}

/// The strip times `T` tokens, the first of which is row `first` of `y`.
#[inline(always)]
fn multiply_tokens<C: LineSums, const T: usize>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: [&QuantRow; T],
    y: &mut Strip<'_, f32>,
    first: usize,
) {
    let Layout::QuadLines = w.layout();
    let lines = w.strip_lines(strip);
    let rows = w.strip_rows(strip);
    let results = match w.scales() {
        Scales::Tensor(scale) => by_row(cpu, lines, xs, &[*scale; STRIP]),
        Scales::Rows(values) => {
            let mut scales = [0.0; STRIP];
            scales[..rows.len()].copy_from_slice(&values[rows]);
            by_row(cpu, lines, xs, &scales)
        }
        Scales::Groups { len, values } => {
            let groups = w.cols().div_ceil(*len);
            by_group(cpu, lines, xs, *len, &values[rows.start * groups..rows.end * groups])
        }
    };
    for (t, results) in results.iter().enumerate() {
        let out = y.row(first + t);
        out.copy_from_slice(&results[..out.len()]);
    }
}

#[inline(always)]
fn by_row<C: LineSums, const T: usize>(
    cpu: C,
    lines: &[Line],
    xs: [&QuantRow; T],
    scales: &[f32; STRIP],
) -> [[f32; STRIP]; T] {
    let sums = cpu.line_sums(lines, xs.map(QuantRow::codes));
    let mut results = [[0.0; STRIP]; T];
    for ((results, sums), x) in results.iter_mut().zip(&sums).zip(xs) {
        for ((result, sum), scale) in results.iter_mut().zip(sums).zip(scales) {
            *result = ((sum - x.sum()) as f32 * scale) * x.scale();
        }
    }
    results
}

/// `scales` are those of the rows of this strip, row by row.
#[inline(always)]
fn by_group<C: LineSums, const T: usize>(
    cpu: C,
    lines: &[Line],
    xs: [&QuantRow; T],
    group_len: usize,
    scales: &[f32],
) -> [[f32; STRIP]; T] {
    let groups = lines.chunks(group_len / LINE_COLS);
    let groups_len = groups.len();
    let mut results = [[0.0_f32; STRIP]; T];
    for (group, lines) in groups.enumerate() {
        let start = group * group_len;
        let sums = cpu.line_sums(lines, xs.map(|x| &x.codes()[start..][..lines.len() * LINE_COLS]));
        let mut group_scales = [0.0; STRIP];
        for (scale, row) in group_scales.iter_mut().zip(scales.chunks_exact(groups_len)) {
            *scale = row[group];
        }
        for ((results, sums), x) in results.iter_mut().zip(&sums).zip(xs) {
            let runs = &x.run_sums()[start / RUN..][..lines.len() * LINE_COLS / RUN];
            let code_sum: i32 = runs.iter().sum();
            for ((result, sum), scale) in results.iter_mut().zip(sums).zip(&group_scales) {
                *result = ((sum - code_sum) as f32).mul_add(*scale, *result);
            }
        }
    }
    for (results, x) in results.iter_mut().zip(xs) {
        for result in results {
            *result *= x.scale();
        }
    }
    results
}
