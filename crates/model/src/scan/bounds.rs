//! Error bounds of scores computed from codes.

use wf_kernels::{RowBounds, VectorBounds};

/// Number of rows in a strip of a matrix of codes.
pub(super) const STRIP: usize = 16;

/// Factor that covers the error of norms, computed in f64 over at most 2^17 products (2^-36), and the
/// five roundings to f32 on the way to a bound.
pub(super) const SLACK: f64 = 1.0 + 1e-6;

/// More than the error of subnormal results in all roundings of a score.
const MIN_BOUND: f32 = f32::MIN_POSITIVE;

/// Scale and error bound of one row.
#[derive(Clone, Copy, Default)]
pub(super) struct RowBound {
    /// Value of a code of 1.
    pub(super) scale: f32,
    /// Upper bound of |w − w'|.
    pub(super) error: f32,
    /// Upper bound of |w'|.
    pub(super) norm: f32,
}

/// Arranges the bounds of rows in strips.
pub(super) fn in_strips(bounds: &[RowBound]) -> Vec<RowBounds> {
    let strip = |rows: &[RowBound]| {
        let mut strip = RowBounds::default();
        for (index, row) in rows.iter().enumerate() {
            strip.scale[index] = row.scale;
            strip.error[index] = row.error;
            strip.norm[index] = row.norm;
        }
        strip
    };
    bounds.chunks(STRIP).map(strip).collect()
}

/// Scales of a quantized hidden state.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) coarse: f32,
    pub(super) fine: f32,
    pub(super) offset: f32,
}

/// Returns the bounds for a hidden state of `cols` values with this norm, whose codes have this error.
/// `trust` is the share of the proven bound to use.
pub(super) fn vector_bounds(
    cols: usize,
    trust: f64,
    norm: f64,
    error: f64,
    factors: Factors,
) -> VectorBounds {
    // The table's own score sums sixteen lanes of fused products: each of at most cols / 16 + 5
    // roundings has an error of 2^-24 of at most |w| |x|. As many again cover the six roundings of the
    // estimate, whose parts are at most |w'| |x| times 1 + √cols / 127.
    let rounding = (cols / 16 + 16) as f64 / f64::from(1 << 23);
    VectorBounds {
        coarse: factors.coarse,
        fine: factors.fine,
        offset: factors.offset,
        per_error: ((trust + rounding) * norm * SLACK) as f32,
        per_norm: ((trust * error + rounding * norm) * SLACK) as f32,
        base_error: MIN_BOUND,
    }
}
