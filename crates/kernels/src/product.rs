//! Ternary matrix times int8 rows: the part every instruction set shares.
//!
//! The instruction sets differ only in [`LineSums`]: exact integer sums over some lines of a strip.
//! With trit = code - 1, the dot product of trits and activations is `sum(code * a) - sum(a)`. What
//! follows is the same few float operations for each output, so the product has one definition:
//!
//! - one scale a matrix or row: `(d as f32 * scale) * x_scale`;
//! - one scale a group: `acc = fma(d_group as f32, scale_group, acc)` for the groups in order,
//!   starting at 0, and then `acc * x_scale`.

use crate::lanes::{F32x16, Simd};
use crate::layout::five_trits::sums_by_quad_lines;
use crate::layout::quad_lines::LINE_COLS;
use crate::line::{Line, STRIP};
use crate::quant::RUN;
use crate::ternary::StripScales;
use crate::tiles::PAIR;
use crate::{Kernel, Layout, Pool, QuantBatch, QuantRow, Strip, TernaryMatrix, TileKernel};

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
    let jobs = Jobs::new(kernel, xs, &[w]);
    pool.strips(y, w.rows(), jobs.width(), |i, mut y| jobs.multiply(w, i, &mut y));
}

/// Several matrices times the same rows in one run: each `y` is as [`multiply`] gives it for the
/// matrix beside it. Does not allocate.
///
/// # Panics
///
/// If the shapes do not fit each other.
pub fn multiply_each<const N: usize>(
    kernel: &dyn Kernel,
    pool: &Pool,
    products: [(&TernaryMatrix, &mut [f32]); N],
    xs: &QuantBatch,
) {
    let matrices = products.each_ref().map(|(w, _)| *w);
    let results = products.map(|(w, y)| {
        assert_eq!(y.len(), xs.rows().len() * w.rows(), "one result a token and row");
        (y, w.rows())
    });
    let jobs = Jobs::new(kernel, xs, &matrices);
    pool.strips_of_each(results, jobs.width(), |m, i, mut y| {
        jobs.multiply(matrices[m], i, &mut y);
    });
}

/// `total += xs * w`, element by element after the sums of [`multiply`]; `y` keeps the product. Does
/// not allocate.
///
/// # Panics
///
/// If the shapes do not fit each other.
pub fn multiply_add(
    kernel: &dyn Kernel,
    pool: &Pool,
    w: &TernaryMatrix,
    xs: &QuantBatch,
    y: &mut [f32],
    total: &mut [f32],
) {
    assert_eq!(y.len(), xs.rows().len() * w.rows(), "one result a token and row");
    let jobs = Jobs::new(kernel, xs, &[w]);
    pool.strip_pairs((y, total), w.rows(), jobs.width(), |i, mut y, mut total| {
        jobs.multiply(w, i, &mut y);
        for token in 0..xs.rows().len() {
            kernel.add(total.row(token), y.row(token));
        }
    });
}

/// Two matrices of one shape times the same rows, `first = activate(first, second)` at once for each
/// token and strip: `activate` works element by element. Does not allocate.
///
/// # Panics
///
/// If the shapes do not fit each other.
pub fn multiply_gated(
    kernel: &dyn Kernel,
    pool: &Pool,
    (gate, up): (&TernaryMatrix, &TernaryMatrix),
    xs: &QuantBatch,
    (first, second): (&mut [f32], &mut [f32]),
    activate: impl Fn(&mut [f32], &[f32]) + Sync,
) {
    assert_eq!(gate.rows(), up.rows(), "two matrices of one shape");
    assert_eq!(first.len(), xs.rows().len() * gate.rows(), "one result a token and row");
    let jobs = Jobs::new(kernel, xs, &[gate, up]);
    pool.strip_pairs((first, second), gate.rows(), jobs.width(), |i, mut first, mut second| {
        jobs.multiply(gate, i, &mut first);
        jobs.multiply(up, i, &mut second);
        for token in 0..xs.rows().len() {
            activate(first.row(token), second.row(token));
        }
    });
}

/// How a product is cut into jobs: by strips, or by pairs of strips where tiles are multiplied.
struct Jobs<'a> {
    kernel: &'a dyn Kernel,
    tiles: Option<&'a dyn TileKernel>,
    xs: &'a QuantBatch,
}

impl<'a> Jobs<'a> {
    /// Jobs for the products of `xs` with each of `matrices`.
    fn new(kernel: &'a dyn Kernel, xs: &'a QuantBatch, matrices: &[&TernaryMatrix]) -> Self {
        let fit = xs.tiles().tiles_per_band() > 0
            && matrices.iter().all(|w| w.layout() == Layout::QuadLines);
        Self { kernel, tiles: kernel.tile_kernel().filter(|_| fit), xs }
    }

    /// The output rows of a job.
    fn width(&self) -> usize {
        if self.tiles.is_some() { PAIR } else { STRIP }
    }

    /// Does job `i` of the product with `w`.
    fn multiply(&self, w: &TernaryMatrix, i: usize, y: &mut Strip<'_, f32>) {
        match self.tiles {
            Some(tiles) => tiles.multiply_pair(w, i, self.xs, y),
            None => self.kernel.multiply(w, i, self.xs.rows(), y),
        }
    }
}

/// The integer heart of a product.
pub(crate) trait LineSums: Copy {
    /// For each of `T` tokens and each of sixteen rows, the exact sum of code times activation over
    /// the columns of quad `lines`. Each token has sixteen activations a line.
    fn line_sums<const T: usize>(self, lines: &[Line], tokens: [&[i8]; T]) -> [[i32; STRIP]; T];

    /// Whether `five_trit_sums` is more than quad lines with a detour.
    #[inline(always)]
    fn decodes_five_trits(self) -> bool {
        false
    }

    /// The same over all lines of a strip, five trits a byte. Each token has activations in whole
    /// runs, which may end before the last line does, or after: what is missing or too much is zero.
    #[inline(always)]
    fn five_trit_sums<const T: usize>(
        self,
        lines: &[Line],
        tokens: [&[i8]; T],
    ) -> [[i32; STRIP]; T] {
        sums_by_quad_lines(self, lines, tokens)
    }
}

/// How many sums a token and row has, in kernels that add four products to a sum at once: such an
/// instruction takes some cycles, and the next to the same sum has to wait, but the more tokens there
/// are, the more there is to do meanwhile, and the fewer registers are free.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "no such kernel")
)]
pub(crate) const fn sums_per_row(tokens: usize) -> usize {
    match tokens {
        1 => 4,
        2 => 2,
        _ => 1,
    }
}

#[inline(always)]
pub(crate) fn multiply_strip<C: LineSums + Simd>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: &[QuantRow],
    y: &mut Strip<'_, f32>,
) {
    assert!(y.rows() == xs.len() && y.width() == w.strip_rows(strip).len(), "the strip of w");
    assert!(xs.iter().all(|x| x.codes().len() == w.padded_cols()), "as many codes as columns");
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
fn multiply_tokens<C: LineSums + Simd, const T: usize>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: [&QuantRow; T],
    y: &mut Strip<'_, f32>,
    first: usize,
) {
    let results = match w.scales() {
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
fn by_row<C: LineSums + Simd, const T: usize>(
    cpu: C,
    w: &TernaryMatrix,
    strip: usize,
    xs: [&QuantRow; T],
    scales: C::Lanes,
) -> [C::Lanes; T] {
    let (lines, codes) = (w.strip_lines(strip), xs.map(QuantRow::codes));
    let sums = match w.layout() {
        Layout::QuadLines => cpu.line_sums(lines, codes),
        Layout::FiveTrits => cpu.five_trit_sums(lines, codes),
    };
    let mut results = [scales; T];
    for t in 0..T {
        let dots = dot_products(cpu, sums[t], xs[t].sum());
        results[t] = dots.mul(scales).mul(cpu.splat(xs[t].scale()));
    }
    results
}

/// Over quad lines: a group ends where a run does, and so between two lines.
#[inline(always)]
fn by_group<C: LineSums + Simd, const T: usize>(
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

/// From sums of code times activation to those of trit times activation.
#[inline(always)]
fn dot_products<C: Simd>(cpu: C, sums: [i32; STRIP], activations: i32) -> C::Lanes {
    cpu.load_i32(&sums.map(|sum| sum - activations))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::arch::Scalar;
    use crate::int8::{BIAS, Int8Sums};

    /// The sums of an instruction set are those of plain Rust, for each number of tokens that share
    /// a line. For code that no [`Kernel`] of this CPU leads to; `tests/exact.rs` is for the others.
    pub(crate) fn check_sums<C: LineSums + Int8Sums>(cpu: C) {
        for runs in [1, 2, 5, 17, 40] {
            check_tokens::<C, 1>(cpu, runs);
            check_tokens::<C, 2>(cpu, runs);
            check_tokens::<C, 3>(cpu, runs);
            check_tokens::<C, 4>(cpu, runs);
        }
    }

    fn check_tokens<C: LineSums + Int8Sums, const T: usize>(cpu: C, runs: usize) {
        let mut state = (runs * 10 + T) as u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize
        };
        let cols = runs * RUN - random() % 40;
        // Some rows of only the largest codes, and some tokens of only the largest activations.
        let mut trits: Vec<i8> = (0..STRIP * cols).map(|_| (random() % 3) as i8 - 1).collect();
        trits[..2 * cols].fill(1);
        let tokens: [QuantRow; T] = std::array::from_fn(|t| {
            let code = |_| if t == 1 { -128 } else { random() as i8 };
            QuantRow::from_codes(&(0..cols).map(code).collect::<Vec<_>>(), 1.0)
        });
        let codes = tokens.each_ref().map(QuantRow::codes);
        let packed = |layout: Layout| {
            let mut lines = vec![layout.zeros(); layout.lines_per_strip(cols)];
            layout.pack_strip(&trits, cols, &mut lines);
            lines
        };
        let (quad_lines, five_trits) = (packed(Layout::QuadLines), packed(Layout::FiveTrits));
        let expected = Scalar.line_sums(&quad_lines, codes);
        assert_eq!(expected, cpu.line_sums(&quad_lines, codes), "{cols} columns");
        assert_eq!(expected, cpu.five_trit_sums(&five_trits, codes), "{cols} columns");

        let weight = |place| BIAS.wrapping_add([127, 129][place % 2]);
        let mut int8_lines = vec![Line(std::array::from_fn(weight)); codes[0].len() / 4];
        int8_lines[1..].iter_mut().for_each(|line| line.0.fill_with(|| 1 + (random() % 255) as u8));
        let xs = tokens.each_ref();
        assert_eq!(Scalar.int8_sums(&int8_lines, xs), cpu.int8_sums(&int8_lines, xs));
    }
}
