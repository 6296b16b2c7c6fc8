//! Quantization of activations to int8: one scale per row, rounded half to even as Transformers does, or one
//! for each group of columns.

use crate::Kernel;
use crate::float::RmsNorm;
use crate::lanes::{F32x16, Simd};

/// Codes in a run. Each run has its own sum, so that the sum of any group of columns is known.
pub(crate) const RUN: usize = 64;

/// Columns of a group of activations that has a scale of its own.
pub(crate) const GROUP: usize = 128;

/// Smallest magnitude that a row is scaled by, as in the reference: a row of zeros stays zero.
const SMALLEST_ABSMAX: f32 = 1e-5;

#[inline(always)]
pub(crate) fn quantize<S: Simd>(cpu: S, x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32 {
    let (chunks, tail) = x.as_chunks::<16>();
    quantize_row(cpu, &Plain(chunks), tail, codes, sums)
}

#[inline(always)]
pub(crate) fn norm_and_quantize<S: Simd>(
    cpu: S,
    x: &[f32],
    norm: RmsNorm<'_>,
    codes: &mut [i8],
    sums: &mut [i32],
) -> f32 {
    assert_eq!(x.len(), norm.weight.len(), "x and weight of one length");
    let factor = norm.factor(cpu, x);
    let (chunks, tail) = x.as_chunks::<16>();
    let (weights, weights_of_tail) = norm.weight.as_chunks::<16>();
    let mut normed_tail = [0.0; 16];
    for ((normed, x), weight) in normed_tail.iter_mut().zip(tail).zip(weights_of_tail) {
        *normed = x * factor * weight;
    }
    let row = Normed { chunks, weights: &weights[..chunks.len()], factor };
    quantize_row(cpu, &row, &normed_tail[..tail.len()], codes, sums)
}

/// Largest value in steps: with a shift of half a step, codes are -127 to 127.
const LARGEST_SHIFTED: f32 = 126.4;

/// Adding and subtracting this rounds a small float to the nearest integer, without a call.
const ROUNDING: f32 = 1.5 * (1 << 23) as f32;

/// Quantizes a row with a number added to each column before rounding. Codes beyond `x` become zero.
fn quantize_shifted(x: &[f32], shifts: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32 {
    let larger = |max: f32, x: &f32| if x.abs() > max { x.abs() } else { max };
    let scale = x.iter().fold(f32::MIN_POSITIVE, larger) / LARGEST_SHIFTED;
    let factor = 1.0 / scale;
    codes[x.len()..].fill(0);
    for ((code, x), shift) in codes.iter_mut().zip(x).zip(shifts) {
        *code = ((x * factor + shift + ROUNDING) - ROUNDING) as i8;
    }
    for (sum, codes) in sums.iter_mut().zip(codes.chunks_exact(RUN)) {
        *sum = codes.iter().map(|&code| i32::from(code)).sum();
    }
    scale
}

/// The whole chunks of a row. A trait rather than a closure, which is compiled without the instruction
/// set.
trait Chunks {
    fn len(&self) -> usize;

    fn load<S: Simd>(&self, cpu: S, i: usize) -> S::Lanes;
}

struct Plain<'a>(&'a [[f32; 16]]);

impl Chunks for Plain<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn load<S: Simd>(&self, cpu: S, i: usize) -> S::Lanes {
        cpu.load(&self.0[i])
    }
}

struct Normed<'a> {
    chunks: &'a [[f32; 16]],
    weights: &'a [[f32; 16]],
    factor: f32,
}

impl Chunks for Normed<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.chunks.len()
    }

    #[inline(always)]
    fn load<S: Simd>(&self, cpu: S, i: usize) -> S::Lanes {
        cpu.load(&self.chunks[i]).mul(cpu.splat(self.factor)).mul(cpu.load(&self.weights[i]))
    }
}

/// Quantizes a row of chunks and a tail of fewer than sixteen elements.
#[inline(always)]
fn quantize_row<S: Simd>(
    cpu: S,
    row: &impl Chunks,
    tail: &[f32],
    codes: &mut [i8],
    sums: &mut [i32],
) -> f32 {
    let chunks = row.len();
    let len = 16 * chunks + tail.len();
    assert!(codes.len().is_multiple_of(RUN) && codes.len() >= len, "whole runs, all of x");
    assert_eq!(sums.len() * RUN, codes.len(), "one sum per run");
    let mut max = cpu.splat(0.0).max_abs(cpu.load_tail(tail, 0.0));
    for i in 0..chunks {
        max = max.max_abs(row.load(cpu, i));
    }
    let absmax = largest_magnitude(max);
    // `max` would drop a NaN.
    let absmax = if absmax < SMALLEST_ABSMAX { SMALLEST_ABSMAX } else { absmax };
    let scale = 127.0 / absmax;

    let (codes16, codes_of_tail) = codes.as_chunks_mut::<16>().0.split_at_mut(chunks);
    for (i, codes) in codes16.iter_mut().enumerate() {
        round_to_codes(cpu, row.load(cpu, i), scale).store_i8(codes);
    }
    for (i, codes) in codes_of_tail.iter_mut().enumerate() {
        // Lanes without an element hold 0 * scale, which is NaN if the row has one, and are cleared.
        let tail = if i == 0 { tail } else { &[] };
        round_to_codes(cpu, cpu.load_tail(tail, 0.0), scale).store_i8(codes);
        codes[tail.len()..].fill(0);
    }
    for (sum, run) in sums.iter_mut().zip(codes.as_chunks::<RUN>().0) {
        *sum = run_sum(run);
    }
    1.0 / scale
}

#[inline(always)]
fn run_sum(codes: &[i8; RUN]) -> i32 {
    codes.iter().map(|&code| i32::from(code)).sum()
}

/// Returns the largest magnitude of all lanes, or NaN if there is one.
#[inline(always)]
fn largest_magnitude(lanes: impl F32x16) -> f32 {
    let mut magnitudes = [0.0; 16];
    lanes.store(&mut magnitudes);
    // Magnitudes compare like their bits, and a NaN is above infinity.
    f32::from_bits(magnitudes.map(f32::to_bits).into_iter().fold(0, u32::max))
}

/// Rounds to codes. A NaN becomes -128; the scale of such a row is NaN, so the code does not matter.
#[inline(always)]
fn round_to_codes<S: Simd>(cpu: S, x: S::Lanes, scale: f32) -> S::Lanes {
    x.mul(cpu.splat(scale)).round().max(cpu.splat(-128.0)).min(cpu.splat(127.0))
}

/// One row of activations as int8 codes.
#[derive(Clone, Debug)]
pub struct QuantRow {
    codes: Vec<i8>,
    /// Sum of the codes before each run, and of all codes: the sum of any runs is a difference.
    sums_before: Vec<i32>,
    scale: f32,
    /// Scales of the groups, of which the first `groups` count.
    group_scales: Vec<f32>,
    /// Number of groups; zero if the row has one scale.
    groups: usize,
    padded_len: usize,
}

impl QuantRow {
    pub(crate) fn with_capacity(max_cols: usize) -> Self {
        let padded_len = max_cols.next_multiple_of(RUN);
        Self {
            codes: vec![0; padded_len],
            sums_before: vec![0; padded_len / RUN + 1],
            scale: 0.0,
            group_scales: vec![0.0; max_cols.div_ceil(GROUP)],
            groups: 0,
            padded_len: 0,
        }
    }

    /// Creates a row from codes, with a scale for each group of 128 columns.
    ///
    /// # Panics
    ///
    /// Panics if there is another number of groups than of scales.
    pub fn from_group_codes(codes: &[i8], scales: &[f32]) -> Self {
        assert_eq!(scales.len(), codes.len().div_ceil(GROUP), "one scale per group");
        let mut row = Self::from_codes(codes, 1.0);
        row.group_scales.copy_from_slice(scales);
        row.groups = scales.len();
        row
    }

    /// Creates a row from codes.
    pub fn from_codes(codes: &[i8], scale: f32) -> Self {
        let mut row = Self::with_capacity(codes.len());
        row.codes[..codes.len()].copy_from_slice(codes);
        for (sum, run) in row.sums_before[1..].iter_mut().zip(row.codes.as_chunks::<RUN>().0) {
            *sum = run_sum(run);
        }
        row.scale = scale;
        row.padded_len = row.codes.len();
        row.accumulate_sums();
        row
    }

    pub(crate) fn quantize(&mut self, kernel: &dyn Kernel, x: &[f32]) {
        self.fill(x.len(), |codes, sums| kernel.quantize(x, codes, sums));
    }

    /// As [`quantize`](Self::quantize), each group of columns on its own.
    pub(crate) fn quantize_groups(&mut self, kernel: &dyn Kernel, x: &[f32]) {
        (self.padded_len, self.groups) = (x.len().next_multiple_of(RUN), x.len().div_ceil(GROUP));
        self.scale = 1.0;
        let groups = x.chunks(GROUP).zip(self.codes.chunks_mut(GROUP));
        let sums = self.sums_before[1..].chunks_mut(GROUP / RUN);
        for ((scale, sums), (x, codes)) in self.group_scales.iter_mut().zip(sums).zip(groups) {
            let len = x.len().next_multiple_of(RUN);
            *scale = kernel.quantize(x, &mut codes[..len], &mut sums[..len / RUN]);
        }
        self.accumulate_sums();
    }

    /// Makes it a copy of another row, which may have room for another number of columns.
    pub(crate) fn copy_from(&mut self, from: &Self) {
        let Self { codes: _, sums_before: _, group_scales: _, scale, groups, padded_len } = *from;
        let sums = ..=padded_len / RUN;
        self.codes[..padded_len].copy_from_slice(from.codes());
        self.sums_before[sums].copy_from_slice(&from.sums_before[sums]);
        self.group_scales[..groups].copy_from_slice(&from.group_scales[..groups]);
        (self.scale, self.groups, self.padded_len) = (scale, groups, padded_len);
    }

    pub(crate) fn norm_and_quantize(&mut self, kernel: &dyn Kernel, x: &[f32], norm: RmsNorm<'_>) {
        self.fill(x.len(), |codes, sums| kernel.norm_and_quantize(x, norm, codes, sums));
    }

    pub(crate) fn quantize_shifted(&mut self, x: &[f32], shifts: &[f32]) {
        self.fill(x.len(), |codes, sums| quantize_shifted(x, shifts, codes, sums));
    }

    /// Sets the codes of `len` columns. `quantize` writes them and their sums and returns the scale.
    fn fill(&mut self, len: usize, quantize: impl FnOnce(&mut [i8], &mut [i32]) -> f32) {
        (self.padded_len, self.groups) = (len.next_multiple_of(RUN), 0);
        let run_sums = &mut self.sums_before[1..=self.padded_len / RUN];
        self.scale = quantize(&mut self.codes[..self.padded_len], run_sums);
        self.accumulate_sums();
    }

    /// Turns the sum of each run, which follows the place of the sum before it, into the sum of all codes so far.
    fn accumulate_sums(&mut self) {
        let mut total = 0;
        for sum in &mut self.sums_before[1..=self.padded_len / RUN] {
            total += *sum;
            *sum = total;
        }
    }

    /// Returns the largest number of runs that there is room for.
    pub(crate) fn max_runs(&self) -> usize {
        self.sums_before.len() - 1
    }

    /// Returns the codes, padded with zeros to a multiple of 64.
    pub fn codes(&self) -> &[i8] {
        &self.codes[..self.padded_len]
    }

    /// Returns the factor from codes to values; 1 if each group has its own.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Returns the factors of the groups of 128 columns, or `None` if all codes have the same.
    pub fn group_scales(&self) -> Option<&[f32]> {
        (self.groups > 0).then(|| &self.group_scales[..self.groups])
    }

    /// Returns the factor from the code of a column to its value.
    pub(crate) fn scale_of(&self, column: usize) -> f32 {
        self.group_scales().map_or(self.scale, |scales| scales[column / GROUP])
    }

    /// Sets the codes of columns that are not `kept` to zero.
    pub(crate) fn keep_codes(&mut self, kept: &[bool]) {
        let codes = &mut self.codes[..self.padded_len];
        for (code, &kept) in codes.iter_mut().zip(kept) {
            *code = if kept { *code } else { 0 };
        }
        for (sum, run) in self.sums_before[1..].iter_mut().zip(codes.as_chunks::<RUN>().0) {
            *sum = run_sum(run);
        }
        self.accumulate_sums();
    }

    /// Returns the sum of all codes.
    pub fn sum(&self) -> i32 {
        self.sums_before[self.padded_len / RUN]
    }

    /// Returns the sum of the codes before each run of 64, and of all codes.
    pub(crate) fn sums_before(&self) -> &[i32] {
        &self.sums_before[..=self.padded_len / RUN]
    }
}
