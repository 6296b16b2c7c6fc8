//! The product of one strip and some rows of codes.

use crate::lanes::{F32x16, Simd};
use crate::layout::five_trits::sums_by_quad_lines;
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::quant::{GROUP, RUN};
use crate::sums::IntSums;
use crate::ternary::StripScales;
use crate::{Layout, QuantRow, Strip, TernaryMatrix};

/// Tokens that share one unpacking of a line.
const TOKENS: usize = 4;

#[inline(always)]
pub(crate) fn multiply_strip<C: IntSums>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: &[QuantRow],
    y: &mut Strip<'_, f32>,
) {
    assert!(y.rows() == xs.len() && y.width() == w.strip_rows(strip).len(), "the strip of w");
    assert!(xs.iter().all(|x| x.codes().len() == w.padded_cols()), "one code per column");
    let in_groups = |x: &QuantRow| x.group_scales().is_some();
    assert!(xs.iter().all(|x| in_groups(x) == in_groups(&xs[0])), "scales of one kind");
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

/// Multiplies the strip by `T` tokens, the first of which is row `first` of `y`.
#[inline(always)]
fn multiply_tokens<C: IntSums, const T: usize>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: [&QuantRow; T],
    y: &mut Strip<'_, f32>,
    first: usize,
) {
    let results = match w.scales() {
        _ if xs[0].group_scales().is_some() => by_piece(cpu, w, strip, xs),
        StripScales::Tensor(scale) => by_row(cpu, w, strip, xs, cpu.splat(*scale)),
        StripScales::Rows(values) => by_row(cpu, w, strip, xs, cpu.load(&values[strip])),
        StripScales::Groups { len, values } => {
            let groups = w.cols().div_ceil(*len);
            let scales = &values[strip * groups..][..groups];
            by_group(cpu, w.strip_lines(strip), xs, *len, scales)
        }
    };
    for (t, results) in results.into_iter().enumerate() {
        match y.row(first + t).as_chunks_mut() {
            ([whole], _) => results.store(whole),
            (_, part) => results.store_tail(part),
        }
    }
}

#[inline(always)]
fn by_row<C: IntSums, const T: usize>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: [&QuantRow; T],
    scales: C::Lanes,
) -> [C::Lanes; T] {
    let (lines, codes) = (w.strip_lines(strip), xs.map(QuantRow::codes));
    let sums = match w.layout() {
        Layout::QuadLines => cpu.line_sums(lines, codes),
        Layout::FiveTrits if cpu.decodes_five_trits() => cpu.five_trit_sums(lines, codes),
        Layout::FiveTrits => sums_by_quad_lines(cpu, lines, codes),
    };
    let mut results = [scales; T];
    for t in 0..T {
        let dots = dot_products(cpu, sums[t], xs[t].sum());
        results[t] = dots.mul(scales).mul(cpu.splat(xs[t].scale()));
    }
    results
}

/// Multiplies quad lines, whose groups end between two lines because they are whole runs.
#[inline(always)]
fn by_group<C: IntSums, const T: usize>(
    cpu: C,
    lines: &[Line],
    xs: [&QuantRow; T],
    group_len: usize,
    scales: &[[f32; STRIP]],
) -> [C::Lanes; T] {
    let mut results = [cpu.splat(0.0); T];
    for (group, (lines, scales)) in lines.chunks(group_len / LINE_COLS).zip(scales).enumerate() {
        let columns = group * group_len..group * group_len + lines.len() * LINE_COLS;
        let sums = cpu.line_sums(lines, xs.map(|x| &x.codes()[columns.clone()]));
        for t in 0..T {
            let runs = &xs[t].run_sums()[columns.start / RUN..columns.end / RUN];
            let dots = dot_products(cpu, sums[t], runs.iter().sum());
            results[t] = dots.mul_add(cpu.load(scales), results[t]);
        }
    }
    for (result, x) in results.iter_mut().zip(xs) {
        *result = result.mul(cpu.splat(x.scale()));
    }
    results
}

/// Multiplies quad lines and activations with a scale per group, in pieces of columns in which no scale
/// changes.
#[inline(always)]
fn by_piece<C: IntSums, const T: usize>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: [&QuantRow; T],
) -> [C::Lanes; T] {
    assert_eq!(w.layout(), Layout::QuadLines, "pieces end between lines");
    let piece_len = w.scales().piece_len();
    let (mut same, per_group) = ([0.0; STRIP], (GROUP / piece_len).ilog2());
    let scales = w.piece_scales(strip, &mut same);
    let mut factors: [&[f32]; T] = [&[]; T];
    for (factors, x) in factors.iter_mut().zip(xs) {
        *factors = x.group_scales().expect("a scale for each group");
    }
    let mut results = [cpu.splat(0.0); T];
    for (piece, lines) in w.strip_lines(strip).chunks(piece_len / LINE_COLS).enumerate() {
        let columns = piece * piece_len..piece * piece_len + lines.len() * LINE_COLS;
        let mut codes: [&[i8]; T] = [&[]; T];
        for (codes, x) in codes.iter_mut().zip(xs) {
            *codes = &x.codes()[columns.clone()];
        }
        let sums = cpu.line_sums(lines, codes);
        let scales = cpu.load(scales.at(piece));
        for t in 0..T {
            let runs = &xs[t].run_sums()[columns.start / RUN..columns.end / RUN];
            let dots = dot_products(cpu, sums[t], runs.iter().sum());
            let factor = cpu.splat(factors[t][piece >> per_group]);
            results[t] = dots.mul(factor).mul_add(scales, results[t]);
        }
    }
    results
}

/// Converts sums of code times activation to those of trit times activation.
#[inline(always)]
pub(crate) fn dot_products<C: Simd>(cpu: C, sums: [i32; STRIP], activations: i32) -> C::Lanes {
    cpu.load_i32(&sums.map(|sum| sum - activations))
}
