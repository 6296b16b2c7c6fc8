//! Facts about a whole tensor that are needed before its rows can be read as trits.
//!
//! Master weights need their mean magnitude. Some writers give a row or group of zeros the scale 0 and
//! arbitrary trits: ik_llama.cpp writes ones, llama.cpp zeros. A weight is trit times scale, so these
//! weights are zeros. They are read as trits of 0 under the scale of their neighbours, so that a model
//! has the same trits and scales in every format, and usually a single scale.

use std::ops::Range;

use crate::encoding::{EncodingError, Scales, TernaryEncoding, decode_scales};
use crate::tensor::{Encoding, TensorInfo};
use crate::ternary_floats::{self, Means};

/// Facts about a whole tensor.
#[derive(Debug)]
pub(crate) enum Scaling {
    /// Mean magnitudes of master weights.
    Means(Means),
    /// Stored scales, some of which are 0.
    SomeZero(Scales),
    /// Trits are read as stored.
    Plain,
}

impl Scaling {
    pub(crate) fn of(t: &TensorInfo, bytes: &[u8]) -> Result<Self, EncodingError> {
        match t.encoding {
            Encoding::MasterWeights(float) => {
                ternary_floats::means(float, bytes, t.cols, t.group_len).map(Self::Means)
            }
            Encoding::Ternary(encoding) if has_own_scales(encoding) => {
                let scales = decode_scales(encoding, bytes, t.rows, t.cols)?;
                let some_zero = scales.values().contains(&0.0);
                Ok(if some_zero { Self::SomeZero(scales) } else { Self::Plain })
            }
            _ => Ok(Self::Plain),
        }
    }

    /// Returns the scales of master weights.
    pub(crate) fn means(&self, rows: usize) -> Scales {
        if let Self::Means(means) = self { means.scales(rows) } else { Scales::Tensor(1.0) }
    }

    /// Sets the trits under a scale of 0 to 0.
    pub(crate) fn clear_unscaled(&self, cols: usize, rows: Range<usize>, trits: &mut [i8]) {
        let Self::SomeZero(scales) = self else { return };
        let (per_row, group_len) = match scales {
            Scales::Tensor(_) => (0, cols),
            Scales::Rows(_) => (1, cols),
            Scales::Groups { len, .. } => (cols.checked_div(*len).unwrap_or(0), *len),
        };
        for (row, trits) in rows.zip(trits.chunks_exact_mut(cols.max(1))) {
            let first = row.saturating_mul(per_row);
            for (group, trits) in trits.chunks_mut(group_len.max(1)).enumerate() {
                if scales.values().get(first.saturating_add(group)) == Some(&0.0) {
                    trits.fill(0);
                }
            }
        }
    }
}

/// Returns `true` if the scales are stored among the trits.
pub(crate) fn has_own_scales(encoding: TernaryEncoding) -> bool {
    encoding.scale_unit().is_some()
}

/// Replaces scales of 0, under which all trits are 0, by another scale of the tensor.
pub(crate) fn fill_zeros(mut scales: Scales, rows: usize) -> Scales {
    let Some(other) = scales.values().iter().copied().find(|&scale| scale != 0.0) else {
        return Scales::Tensor(0.0);
    };
    if let Scales::Rows(values) | Scales::Groups { values, .. } = &mut scales {
        values.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = other);
    }
    scales.simplify(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trits_under_a_scale_of_zero_become_zero_under_another_scale() {
        let scales = Scales::Groups { len: 2, values: vec![0.5, 0.0, 0.5, 0.5] };
        let scaling = Scaling::SomeZero(scales.clone());
        let mut trits = [1, -1, 1, 1, -1, -1, 0, 1];
        scaling.clear_unscaled(4, 0..2, &mut trits);
        assert_eq!(trits, [1, -1, 0, 0, -1, -1, 0, 1]);
        assert_eq!(fill_zeros(scales, 2), Scales::Tensor(0.5));
    }

    #[test]
    fn a_range_of_rows_uses_the_scales_of_those_rows() {
        let scaling = Scaling::SomeZero(Scales::Rows(vec![0.5, 0.0, 0.5]));
        let mut trits = [1, 1];
        scaling.clear_unscaled(2, 1..2, &mut trits);
        assert_eq!(trits, [0, 0]);
        let mut trits = [1, 1];
        scaling.clear_unscaled(2, 2..3, &mut trits);
        assert_eq!(trits, [1, 1]);
    }

    #[test]
    fn different_scales_stay_different() {
        let scales = Scales::Rows(vec![0.0, 0.5, 0.25]);
        assert_eq!(fill_zeros(scales, 3), Scales::Rows(vec![0.5, 0.5, 0.25]));
        assert_eq!(fill_zeros(Scales::Rows(vec![0.0; 3]), 3), Scales::Tensor(0.0));
    }
}
