//! Sines and cosines of the angles of rotary position embedding.
//!
//! Each step is rounded to single precision where Transformers in float32 rounds it, so that the
//! tables agree; the functions are those of `math.rs`, so that machines agree too.

use crate::math;

/// Returns the powers `theta^(2i / head_dim)`, whose inverses are the frequencies of a head's pairs.
///
/// # Panics
///
/// Panics if `head_dim` is odd.
pub fn rotary_powers(head_dim: usize, theta: f64) -> Vec<f32> {
    assert!(head_dim.is_multiple_of(2), "a head is made of pairs");
    let exponents = (0..head_dim / 2).map(|i| (2 * i) as f32 / head_dim as f32);
    exponents.map(|exponent| math::pow(theta, exponent.into()) as f32).collect()
}

/// Returns the frequencies `theta^(-2i / head_dim)` of the pairs of a head.
///
/// # Panics
///
/// Panics if `head_dim` is odd.
pub fn rotary_frequencies(head_dim: usize, theta: f64) -> Vec<f32> {
    rotary_powers(head_dim, theta).into_iter().map(|power| 1.0 / power).collect()
}

/// Cosines and sines of an angle for each pair of dimensions and each position.
#[derive(Clone, Debug)]
pub struct RotaryTable {
    pairs: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RotaryTable {
    /// Creates the table of angles `position * frequency`, one frequency for each pair of dimensions, for
    /// the positions `0..positions`. Cosines and sines are multiplied by `factor`.
    pub fn new(frequencies: &[f32], factor: f32, positions: usize) -> Self {
        let pairs = frequencies.len();
        let mut table = Self { pairs, cos: Vec::new(), sin: Vec::new() };
        table.cos.reserve_exact(positions * pairs);
        table.sin.reserve_exact(positions * pairs);
        for position in 0..positions {
            for frequency in frequencies {
                let angle = position as f32 * frequency;
                let (sin, cos) = math::sin_cos(angle.into());
                table.cos.push(cos as f32 * factor);
                table.sin.push(sin as f32 * factor);
            }
        }
        table
    }

    /// Returns the number of positions.
    pub fn positions(&self) -> usize {
        self.cos.len().checked_div(self.pairs).unwrap_or(0)
    }

    /// Returns the cosines of the angles at `position`.
    pub fn cos(&self, position: usize) -> &[f32] {
        &self.cos[position * self.pairs..][..self.pairs]
    }

    /// Returns the sines of the angles at `position`.
    pub fn sin(&self, position: usize) -> &[f32] {
        &self.sin[position * self.pairs..][..self.pairs]
    }
}

/// Computes cosines and sines of the angles at a position that may be far beyond any table. Unlike those of
/// a table, the angles are not rounded to single precision, in which a position of a million has no more than
/// four bits after the point: the product of both numbers is exact in double precision.
pub fn far_rotation(
    frequencies: &[f32],
    factor: f32,
    position: usize,
    (cos, sin): (&mut [f32], &mut [f32]),
) {
    for ((frequency, cos), sin) in frequencies.iter().zip(cos).zip(sin) {
        let (exact_sin, exact_cos) = math::sin_cos(position as f64 * f64::from(*frequency));
        *cos = exact_cos as f32 * factor;
        *sin = exact_sin as f32 * factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_rotations_differ_by_their_distance_alone() {
        let frequencies = rotary_frequencies(64, 10_000.0);
        let rotation = |position| {
            let (mut cos, mut sin) = ([0.0; 32], [0.0; 32]);
            far_rotation(&frequencies, 1.0, position, (&mut cos, &mut sin));
            (cos, sin)
        };
        let near = rotation(100);
        for end in [100, 5000, 1 << 20] {
            let ((cos, sin), (key_cos, key_sin)) = (rotation(end), rotation(end - 100));
            for i in 0..32 {
                let cos = cos[i] * key_cos[i] + sin[i] * key_sin[i];
                assert!((cos - near.0[i]).abs() < 3e-7, "{end}: {cos} is not {}", near.0[i]);
            }
        }
        let table = RotaryTable::new(&frequencies, 1.0, 101);
        assert_eq!(table.positions(), 101);
        let largest =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(largest(table.cos(100), &near.0).max(largest(table.sin(100), &near.1)) < 1e-5);
    }

    #[test]
    fn angles_are_position_times_frequency() {
        let table = RotaryTable::new(&rotary_frequencies(8, 10_000.0), 1.0, 3);
        assert_eq!(table.cos(0), [1.0; 4]);
        assert_eq!(table.sin(0), [0.0; 4]);
        // Angles 2, 0.2, 0.02, 0.002.
        let expected = [0.909_297_4, 0.198_669_33, 0.019_998_666, 0.001_999_998_7];
        for (sin, expected) in table.sin(2).iter().zip(expected) {
            assert!((sin - expected).abs() < 1e-7, "{sin} is not {expected}");
        }
        for (sin, cos) in table.sin(2).iter().zip(table.cos(2)) {
            assert!((sin * sin + cos * cos - 1.0).abs() < 1e-6);
        }
        let doubled = RotaryTable::new(&[1.0], 2.0, 3);
        assert_eq!(doubled.cos(2)[0], 2.0 * table.cos(2)[0]);
        assert_eq!(doubled.sin(2)[0], 2.0 * table.sin(2)[0]);
    }
}
