//! Bounds of scores that are known from quantized rows and vectors.

use crate::lanes::{F32x16, Simd};
use crate::line::STRIP;

/// The quantization errors of sixteen rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowBounds {
    /// Factor from codes to values.
    pub scale: [f32; STRIP],
    /// Number to subtract from dot products with coarse codes.
    pub shift: [f32; STRIP],
    /// Upper bound of the norm of the quantization error.
    pub error: [f32; STRIP],
    /// Upper bound of the norm of the quantized row.
    pub norm: [f32; STRIP],
}

/// The factors that all scores of one vector share. A vector may be quantized twice: to coarse codes,
/// and to fine codes of the error of those.
#[derive(Clone, Copy, Debug, Default)]
pub struct VectorBounds {
    /// Factor of the dot product with coarse codes.
    pub coarse: f32,
    /// Factor of the dot product with fine codes.
    pub fine: f32,
    /// Offset of a score. It and both products are multiplied by the scale of the row.
    pub offset: f32,
    /// Score error per unit of the row's [`error`](RowBounds::error).
    pub per_error: f32,
    /// Score error per unit of the row's [`norm`](RowBounds::norm).
    pub per_norm: f32,
    /// Score error of any row.
    pub base_error: f32,
}

/// Estimates and upper bounds of sixteen scores.
#[derive(Clone, Copy, Debug)]
pub struct ScoreBounds {
    /// Estimated scores.
    pub estimate: [f32; STRIP],
    /// Upper bounds of the scores.
    pub upper: [f32; STRIP],
    /// Largest estimate.
    pub best_estimate: f32,
    /// Largest upper bound.
    pub best_upper: f32,
}

impl ScoreBounds {
    /// Bounds of no rows.
    pub const EMPTY: Self = Self {
        estimate: [f32::NEG_INFINITY; STRIP],
        upper: [f32::NEG_INFINITY; STRIP],
        best_estimate: f32::NEG_INFINITY,
        best_upper: f32::NEG_INFINITY,
    };

    /// Keeps the scores whose bit is set, the lowest bit being the first score.
    pub fn keep(&mut self, bits: u16) {
        for bounds in [&mut self.estimate, &mut self.upper] {
            for (at, bound) in bounds.iter_mut().enumerate() {
                *bound = if bits >> at & 1 == 1 { *bound } else { f32::NEG_INFINITY };
            }
        }
        self.find_best();
    }

    /// Keeps the first `rows` scores.
    pub fn truncate(&mut self, rows: usize) {
        for bounds in [&mut self.estimate, &mut self.upper] {
            bounds[rows..].fill(f32::NEG_INFINITY);
        }
        self.find_best();
    }

    #[inline(always)]
    pub(crate) fn find_best(&mut self) {
        (self.best_estimate, self.best_upper) = (largest(self.estimate), largest(self.upper));
    }
}

#[inline(always)]
pub(crate) fn bound_scores<S: Simd>(
    cpu: S,
    sums: [&[i32; STRIP]; 2],
    rows: &RowBounds,
    x: &VectorBounds,
    out: &mut ScoreBounds,
) {
    // The scale is applied to the factors: a sum times the factor of a large vector could overflow.
    let scale = cpu.load(&rows.scale);
    let factor = |of_x: f32| scale.mul(cpu.splat(of_x));
    let estimate = cpu.load_i32(sums[1]).mul_add(factor(x.fine), factor(x.offset));
    let estimate = cpu.load(&rows.shift).mul_add(factor(-x.coarse), estimate);
    let estimate = cpu.load_i32(sums[0]).mul_add(factor(x.coarse), estimate);
    let off = cpu.load(&rows.norm).mul_add(cpu.splat(x.per_norm), cpu.splat(x.base_error));
    let off = cpu.load(&rows.error).mul_add(cpu.splat(x.per_error), off);
    estimate.store(&mut out.estimate);
    estimate.add(off).store(&mut out.upper);
    out.find_best();
}

/// Returns the largest lane that is not NaN.
#[inline(always)]
fn largest(mut lanes: [f32; STRIP]) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = if lanes[i + half] > lanes[i] { lanes[i + half] } else { lanes[i] };
        }
    }
    lanes[0]
}
