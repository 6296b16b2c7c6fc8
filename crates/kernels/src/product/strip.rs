//! The product of one strip and some rows of codes.

use std::ops::Range;

use crate::ahead::Ahead;
use crate::lanes::{F32x16, Simd};
use crate::layout::five_trits::sums_by_quad_lines;
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::quant::{GROUP, RUN};
use crate::sums::{IntSums, line_sums};
use crate::ternary::StripScales;
use crate::{Layout, QuantRow, Strip, TernaryMatrix};

/// Tokens that share one unpacking of a line.
const TOKENS: usize = 4;

/// A strip of a matrix, and what is prefetched while it is read.
#[derive(Clone, Copy)]
struct StripLines<'a> {
    w: &'a TernaryMatrix,
    strip: usize,
    ahead: Ahead,
}

impl<'a> StripLines<'a> {
    #[inline(always)]
    fn lines(&self) -> &'a [Line] {
        self.w.strip_lines(self.strip)
    }
}

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
        let ahead = Ahead::next_strip(w.strip_lines(strip), i, whole.len());
        multiply_tokens(cpu, StripLines { w, strip, ahead }, xs.each_ref(), y, i * TOKENS);
    }
    let done = whole.len() * TOKENS;
    // A rest behind whole groups prefetches nothing.
    let ahead = Ahead::next_strip(w.strip_lines(strip), whole.len(), whole.len());
    let lines = StripLines { w, strip, ahead };
    match rest {
        [a, b, c] => multiply_tokens(cpu, lines, [a, b, c], y, done),
        [a, b] => multiply_tokens(cpu, lines, [a, b], y, done),
        [a] => multiply_tokens(cpu, lines, [a], y, done),
        _ => {}
    }
}

/// Multiplies the strip by `T` tokens, the first of which is row `first` of `y`.
#[inline(always)]
fn multiply_tokens<C: IntSums, const T: usize>(
    cpu: C,
    lines: StripLines<'_>,
    xs: [&QuantRow; T],
    y: &mut Strip<'_, f32>,
    first: usize,
) {
    let lines = StripLines { ahead: lines.ahead.for_tokens::<T>(), ..lines };
    let results = match lines.w.scales() {
        _ if xs[0].group_scales().is_some() => by_piece(cpu, lines, xs),
        StripScales::Tensor(scale) => by_row(cpu, lines, xs, cpu.splat(*scale)),
        StripScales::Rows(values) => by_row(cpu, lines, xs, cpu.load(&values[lines.strip])),
        StripScales::Groups { len, .. } => by_group(cpu, lines, xs, *len),
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
    strip: StripLines<'_>,
    xs: [&QuantRow; T],
    scales: C::Lanes,
) -> [C::Lanes; T] {
    let (lines, ahead) = (strip.lines(), strip.ahead);
    let mut codes: [&[i8]; T] = [&[]; T];
    for t in 0..T {
        codes[t] = xs[t].codes();
    }
    let sums = match strip.w.layout() {
        Layout::QuadLines => line_sums(cpu, lines, codes, [0; T], ahead),
        Layout::FiveTrits if cpu.decodes_five_trits() => cpu.five_trit_sums(lines, codes, ahead),
        Layout::FiveTrits => sums_by_quad_lines(cpu, lines, codes),
    };
    let mut results = [scales; T];
    for t in 0..T {
        let dots = dot_products(cpu, sums[t], xs[t].sum());
        results[t] = dots.mul(scales).mul(cpu.splat(xs[t].scale()));
    }
    results
}

/// The codes of some tokens and their sums, all of one length, so that a place is checked once for all of them.
struct Pieces<'a, const T: usize> {
    codes: [&'a [i8]; T],
    sums_before: [&'a [i32]; T],
}

impl<'a, const T: usize> Pieces<'a, T> {
    #[inline(always)]
    fn new(xs: [&'a QuantRow; T], len: usize) -> Self {
        let mut pieces = Self { codes: [&[]; T], sums_before: [&[]; T] };
        for (t, x) in xs.iter().enumerate() {
            pieces.codes[t] = &x.codes()[..len];
            pieces.sums_before[t] = &x.sums_before()[..len / RUN + 1];
        }
        pieces
    }

    /// Returns the dot products of trits and activations over `columns`, the whole runs of `lines`. They stay in
    /// registers: a call for each piece would take half as long as its products.
    #[inline(always)]
    fn dots<C: IntSums>(
        &self,
        cpu: C,
        (lines, ahead): (&[Line], Ahead),
        columns: Range<usize>,
    ) -> [C::Lanes; T] {
        let (mut codes, mut initial): ([&[i8]; T], _) = ([&[]; T], [0; T]);
        for t in 0..T {
            codes[t] = &self.codes[t][columns.clone()];
            let sums = self.sums_before[t];
            initial[t] = sums[columns.start / RUN] - sums[columns.end / RUN];
        }
        let sums = line_sums(cpu, lines, codes, initial, ahead);
        let mut dots = [cpu.splat(0.0); T];
        for t in 0..T {
            dots[t] = cpu.load_i32(&sums[t]);
        }
        dots
    }
}

/// Multiplies quad lines, whose groups end between two lines because they are whole runs.
#[inline(always)]
fn by_group<C: IntSums, const T: usize>(
    cpu: C,
    strip: StripLines<'_>,
    xs: [&QuantRow; T],
    group_len: usize,
) -> [C::Lanes; T] {
    let StripLines { w, ahead, .. } = strip;
    let scales = w.group_scales(strip.strip);
    let pieces = Pieces::new(xs, w.padded_cols());
    let mut results = [cpu.splat(0.0); T];
    for (group, lines) in strip.lines().chunks(group_len / LINE_COLS).enumerate() {
        let start = group * group_len;
        let dots = pieces.dots(cpu, (lines, ahead), start..start + lines.len() * LINE_COLS);
        let scales = scales.at(cpu, group);
        for t in 0..T {
            results[t] = dots[t].mul_add(scales, results[t]);
        }
    }
    for t in 0..T {
        results[t] = results[t].mul(cpu.splat(xs[t].scale()));
    }
    results
}

/// Multiplies quad lines and activations with a scale per group, in pieces of columns in which no scale
/// changes.
#[inline(always)]
fn by_piece<C: IntSums, const T: usize>(
    cpu: C,
    strip: StripLines<'_>,
    xs: [&QuantRow; T],
) -> [C::Lanes; T] {
    let StripLines { w, ahead, .. } = strip;
    assert_eq!(w.layout(), Layout::QuadLines, "pieces end between lines");
    let piece_len = w.scales().piece_len();
    let (mut same, per_group) = ([0.0; STRIP], (GROUP / piece_len).ilog2());
    let scales = w.piece_scales(strip.strip, &mut same);
    let pieces = Pieces::new(xs, w.padded_cols());
    let mut factors: [&[f32]; T] = [&[]; T];
    for t in 0..T {
        let all = xs[t].group_scales().expect("a scale for each group");
        factors[t] = &all[..w.cols().div_ceil(GROUP)];
    }
    let mut results = [cpu.splat(0.0); T];
    for (piece, lines) in strip.lines().chunks(piece_len / LINE_COLS).enumerate() {
        let start = piece * piece_len;
        let dots = pieces.dots(cpu, (lines, ahead), start..start + lines.len() * LINE_COLS);
        let scales = scales.at(cpu, piece);
        for t in 0..T {
            let factor = cpu.splat(factors[t][piece >> per_group]);
            results[t] = dots[t].mul(factor).mul_add(scales, results[t]);
        }
    }
    results
}

/// Converts sums of code times activation to those of trit times activation.
#[inline(always)]
pub(crate) fn dot_products<C: Simd>(cpu: C, sums: [i32; STRIP], activations: i32) -> C::Lanes {
    cpu.load_i32(&sums.map(|sum| sum - activations))
}
