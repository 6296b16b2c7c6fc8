//! How far off a score can be that codes give, whatever the row.

use wf_kernels::{RowBounds, VectorBounds};

/// Rows in a strip of a matrix of codes.
pub(super) const STRIP: usize = 16;

/// Norms are computed in f64 over at most 2^17 products, so they are right to 2^-36; this covers it,
/// and the five roundings to f32 on the way to a bound.
pub(super) const SLACK: f64 = 1.0 + 1e-6;

/// More than what subnormal results lose in all roundings of a score.
const LEAST: f32 = f32::MIN_POSITIVE;

/// What is known of one row.
#[derive(Clone, Copy, Default)]
pub(super) struct RowBound {
    /// A code times this is the value it stands for.
    pub(super) scale: f32,
    /// At least |w − w'|.
    pub(super) error: f32,
    /// At least |w'|.
    pub(super) norm: f32,
}

/// The bounds of neighbouring rows, strip by strip.
pub(super) fn in_strips(bounds: &[RowBound]) -> Vec<RowBounds> {
    let strip = |rows: &[RowBound]| {
        let mut strip = RowBounds::default();
        for (place, row) in rows.iter().enumerate() {
            strip.scale[place] = row.scale;
            strip.error[place] = row.error;
            strip.norm[place] = row.norm;
        }
        strip
    };
    bounds.chunks(STRIP).map(strip).collect()
}

/// How a hidden state was quantised.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) coarse: f32,
    pub(super) fine: f32,
    pub(super) offset: f32,
}

/// For a hidden state of `cols` values and of norm `norm`, whose codes are off by `error`. `trust` is
/// the part of the proven bound to go by.
pub(super) fn vector_bounds(
    cols: usize,
    trust: f64,
    (norm, error): (f64, f64),
    factors: Factors,
) -> VectorBounds {
    // The table's own score sums sixteen lanes of fused products: each of at most cols / 16 + 5
    // roundings is off by 2^-24 of at most |w| |x|. As many again, and more, are there for the six
    // roundings of the guess, whose parts are at most |w'| |x| times 1 + √cols / 127.
    let rounding = (cols / 16 + 16) as f64 / f64::from(1 << 23);
    VectorBounds {
        coarse: factors.coarse,
        fine: factors.fine,
        offset: factors.offset,
        per_error: ((trust + rounding) * norm * SLACK) as f32,
        per_norm: ((trust * error + rounding * norm) * SLACK) as f32,
        least: LEAST,
    }
}
