//! What is known of scores by codes alone: where they should be, and what they are at most.

use crate::lanes::{F32x16, Simd};
use crate::line::STRIP;

/// What sixteen rows of codes leave out of the rows they stand for.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowBounds {
    /// A code times this is the value it stands for.
    pub scale: [f32; STRIP],
    /// At least the norm of what the codes leave out.
    pub error: [f32; STRIP],
    /// At least the norm of what the codes stand for.
    pub norm: [f32; STRIP],
}

/// What the scores of one vector share. A vector may have codes twice: coarse ones, and fine ones of
/// what those left out.
#[derive(Clone, Copy, Debug)]
pub struct VectorBounds {
    /// A product with coarse codes times this, ...
    pub coarse: f32,
    /// ... one with fine codes times this, ...
    pub fine: f32,
    /// ... and this are a score, all times the scale of the row.
    pub offset: f32,
    /// A score is off by at most the row's error times this ...
    pub per_error: f32,
    /// ... and the row's norm times this ...
    pub per_norm: f32,
    /// ... and this.
    pub least: f32,
}

/// What is known of sixteen scores.
#[derive(Clone, Copy, Debug)]
pub struct ScoreBounds {
    /// Where they should be.
    pub middle: [f32; STRIP],
    /// What they are at most.
    pub upper: [f32; STRIP],
    /// The largest middle.
    pub best_middle: f32,
    /// The largest upper bound.
    pub best_upper: f32,
}

impl ScoreBounds {
    /// No score at all.
    pub const NOTHING: Self = Self {
        middle: [f32::NEG_INFINITY; STRIP],
        upper: [f32::NEG_INFINITY; STRIP],
        best_middle: f32::NEG_INFINITY,
        best_upper: f32::NEG_INFINITY,
    };

    /// Only those are scores whose bit is set, from the lowest on.
    pub fn keep(&mut self, bits: u16) {
        for bounds in [&mut self.middle, &mut self.upper] {
            for (at, bound) in bounds.iter_mut().enumerate() {
                *bound = if bits >> at & 1 == 1 { *bound } else { f32::NEG_INFINITY };
            }
        }
        (self.best_middle, self.best_upper) = (largest(self.middle), largest(self.upper));
    }

    /// Only the first `rows` are scores.
    pub fn truncate(&mut self, rows: usize) {
        for bounds in [&mut self.middle, &mut self.upper] {
            bounds[rows..].fill(f32::NEG_INFINITY);
        }
        (self.best_middle, self.best_upper) = (largest(self.middle), largest(self.upper));
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
    // The scale goes to the factors: a sum times a large vector's factor alone could overflow.
    let scale = cpu.load(&rows.scale);
    let factor = |of_x: f32| scale.mul(cpu.splat(of_x));
    let middle = cpu.load_i32(sums[1]).mul_add(factor(x.fine), factor(x.offset));
    let middle = cpu.load_i32(sums[0]).mul_add(factor(x.coarse), middle);
    let off = cpu.load(&rows.norm).mul_add(cpu.splat(x.per_norm), cpu.splat(x.least));
    let off = cpu.load(&rows.error).mul_add(cpu.splat(x.per_error), off);
    middle.store(&mut out.middle);
    middle.add(off).store(&mut out.upper);
    (out.best_middle, out.best_upper) = (largest(out.middle), largest(out.upper));
}

/// Of what is not NaN.
#[inline(always)]
fn largest(mut lanes: [f32; STRIP]) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = if lanes[i + half] > lanes[i] { lanes[i + half] } else { lanes[i] };
        }
    }
    lanes[0]
}
