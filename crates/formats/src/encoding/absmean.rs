//! Rounding of master weights to trits, as in the training of BitNet.
//!
//! The `online` mode of Transformers: `multiplier = 1 / max(mean |w|, 1e-5)` in f32, trit =
//! `clamp(round_half_even(w * multiplier), -1, 1)`, weight = `trit / multiplier`. The same divisions
//! are used here, so that weights at a boundary are rounded to the same side.
//!
//! The mean is computed in f64. PyTorch sums f32 in an unspecified order, so the two means may differ in
//! the last bit; this one is more accurate and does not depend on the machine.

use super::error::EncodingError;

/// Minimum mean, which avoids a division by zero.
const MIN_MEAN: f32 = 1e-5;

/// The mean of |w|. The last bits of f64 depend on the parts that are added, which should be rows.
#[derive(Debug, Clone, Default)]
pub struct AbsMean {
    sum: f64,
    count: u64,
}

impl AbsMean {
    /// Adds one row. A weight that is not finite makes `scale` fail.
    pub fn add(&mut self, row: &[f32]) {
        // Eight independent sums in a fixed order.
        let mut lanes = [0.0_f64; 8];
        for chunk in row.chunks(lanes.len()) {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(value.abs());
            }
        }
        self.sum += lanes.iter().sum::<f64>();
        self.count += row.len() as u64;
    }

    /// Returns the scale of the added weights.
    pub fn scale(&self) -> Result<AbsMeanScale, EncodingError> {
        let mean = if self.count == 0 { 0.0 } else { (self.sum / self.count as f64) as f32 };
        if !mean.is_finite() {
            let allowed = "matrices of finite numbers with a finite mean";
            return Err(EncodingError::Unrepresentable {
                encoding: "absmean",
                value: mean,
                allowed,
            });
        }
        Ok(AbsMeanScale { multiplier: 1.0 / mean.max(MIN_MEAN) })
    }
}

/// The scale of a matrix of master weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AbsMeanScale {
    multiplier: f32,
}

impl AbsMeanScale {
    /// Returns the factor of trits.
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
            // Half-even rounding maps one half to 0, as a strict comparison does.
            *trit = i8::from(scaled > 0.5) - i8::from(scaled < -0.5);
        }
        Ok(())
    }
}
