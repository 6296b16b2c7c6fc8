//! Master weights to trits, as a BitNet layer does it while it is trained.
//!
//! Transformers' `online` mode: `multiplier = 1 / max(mean |w|, 1e-5)` in f32, trit =
//! `clamp(round_half_even(w * multiplier), -1, 1)`, and the weight that is used is `trit /
//! multiplier`. We follow the same divisions, so that a weight on the edge falls on the same side.
//!
//! The mean is taken in f64. PyTorch sums f32 in an order of its own, so the two means may differ in
//! the last bit; ours is the nearer to the true one and does not depend on the machine.

use super::error::EncodingError;

/// The smallest mean: keeps the division sound for a layer of zeros.
const SMALLEST_MEAN: f32 = 1e-5;

/// A running mean of |w|. Add the matrix row by row; other cuts may differ in the last bits of f64.
#[derive(Debug, Clone, Default)]
pub struct AbsMean {
    sum: f64,
    count: u64,
}

impl AbsMean {
    /// Adds one row. A weight that is not finite makes `scale` fail.
    pub fn add(&mut self, row: &[f32]) {
        // Eight sums that do not wait for each other; their order is fixed, so the result is too.
        let mut lanes = [0.0_f64; 8];
        for chunk in row.chunks(lanes.len()) {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(value.abs());
            }
        }
        self.sum += lanes.iter().sum::<f64>();
        self.count += row.len() as u64;
    }

    /// The scale of all that was added.
    pub fn scale(&self) -> Result<AbsMeanScale, EncodingError> {
        let mean = if self.count == 0 { 0.0 } else { (self.sum / self.count as f64) as f32 };
        if !mean.is_finite() {
            let allowed = "matrices of finite numbers with a finite mean";
            return Err(EncodingError::Unholdable { encoding: "absmean", value: mean, allowed });
        }
        Ok(AbsMeanScale { multiplier: 1.0 / mean.max(SMALLEST_MEAN) })
    }
}

/// The scale of one matrix of master weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AbsMeanScale {
    multiplier: f32,
}

impl AbsMeanScale {
    /// What a trit is worth.
    pub fn weight_scale(self) -> f32 {
        1.0 / self.multiplier
    }

    /// Rounds weights to trits.
    pub fn trits(self, weights: &[f32], out: &mut [i8]) -> Result<(), EncodingError> {
        if out.len() != weights.len() {
            return Err(EncodingError::Buffer { expected: weights.len(), found: out.len() });
        }
        for (trit, weight) in out.iter_mut().zip(weights) {
            let scaled = weight * self.multiplier;
            // Half-even rounding sends exactly one half to 0, so a strict comparison is the rounding.
            *trit = i8::from(scaled > 0.5) - i8::from(scaled < -0.5);
        }
        Ok(())
    }
}
