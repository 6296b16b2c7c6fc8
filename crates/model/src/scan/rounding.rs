//! Bounds of rounding errors.

/// Factor that covers the error of norms, computed in f64 over at most 2^17 products (2^-36), and the
/// five roundings to f32 on the way to a bound.
pub(super) const SLACK: f64 = 1.0 + 1e-6;

/// More than the error of subnormal results in all roundings of a score.
pub(super) const MIN_BOUND: f32 = f32::MIN_POSITIVE;

/// Returns an upper bound of |x|.
pub(super) fn norm(x: &[f32]) -> f64 {
    x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt() * SLACK
}

/// Returns the largest rounding error of a score, relative to |w| |x|.
///
/// The table's own score sums sixteen lanes of fused products: each of at most cols / 16 + 5 roundings has an
/// error of 2^-24 of at most |w| |x|. As many again cover the six roundings of an estimate, whose parts are at most
/// |w'| |x| times 1 + √cols / 127.
pub(super) fn rounding(cols: usize) -> f64 {
    (cols / 16 + 16) as f64 / f64::from(1 << 23)
}
