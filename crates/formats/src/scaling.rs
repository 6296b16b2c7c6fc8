//! What must be known of a whole tensor before any of its rows can be read as trits.
//!
//! Master weights need their mean magnitude. And some writers give a row or group of zeros the scale 0
//! and whatever trits: ik_llama.cpp writes ones, llama.cpp zeros. A weight is trit times scale, so these
//! weights are zeros. Here they become trits of 0 under the scale of their neighbours, so that one model
//! is the same trits and scales in every format, and mostly a single scale.

use std::ops::Range;

use crate::encoding::{EncodingError, TernaryEncoding, TritScales, decode_scales};
use crate::tensor::{Encoding, TensorInfo};
use crate::ternary_floats::{self, Means};

/// What is known of a whole tensor.
#[derive(Debug)]
pub(crate) enum Scaling {
    /// The mean magnitudes of master weights.
    Means(Means),
    /// Stored scales of which some are 0.
    SomeZero(TritScales),
    /// Nothing that changes trits.
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

    /// What the trits of master weights are worth.
    pub(crate) fn means(&self, rows: usize) -> TritScales {
        if let Self::Means(means) = self { means.scales(rows) } else { TritScales::Tensor(1.0) }
    }

    /// Makes the trits under a scale of 0 zeros.
    pub(crate) fn silence(&self, cols: usize, rows: Range<usize>, trits: &mut [i8]) {
        let Self::SomeZero(scales) = self else { return };
        let (per_row, group_len) = match scales {
            TritScales::Tensor(_) => (0, cols),
            TritScales::Rows(_) => (1, cols),
            TritScales::Groups { len, .. } => (cols.checked_div(*len).unwrap_or(0), *len),
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

/// Whether the scales lie among the trits.
pub(crate) fn has_own_scales(encoding: TernaryEncoding) -> bool {
    use TernaryEncoding as E;
    !matches!(encoding, E::HfPacked | E::SglPacked | E::Tl1(_) | E::Tl2(_))
}

/// Gives zero scales, under which all trits are 0, the value of another scale.
pub(crate) fn fill_zeros(mut scales: TritScales, rows: usize) -> TritScales {
    let Some(usual) = scales.values().iter().copied().find(|&scale| scale != 0.0) else {
        // A tensor of zeros.
        return TritScales::Tensor(0.0);
    };
    if let TritScales::Rows(values) | TritScales::Groups { values, .. } = &mut scales {
        values.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = usual);
    }
    scales.simplify(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_take_the_scale_of_others_and_lose_their_trits() {
        let scales = TritScales::Groups { len: 2, values: vec![0.5, 0.0, 0.5, 0.5] };
        let scaling = Scaling::SomeZero(scales.clone());
        let mut trits = [1, -1, 1, 1, -1, -1, 0, 1];
        scaling.silence(4, 0..2, &mut trits);
        assert_eq!(trits, [1, -1, 0, 0, -1, -1, 0, 1]);
        assert_eq!(fill_zeros(scales, 2), TritScales::Tensor(0.5));
    }

    #[test]
    fn rows_asked_for_alone_find_their_own_scale() {
        let scaling = Scaling::SomeZero(TritScales::Rows(vec![0.5, 0.0, 0.5]));
        let mut trits = [1, 1];
        scaling.silence(2, 1..2, &mut trits);
        assert_eq!(trits, [0, 0]);
        let mut trits = [1, 1];
        scaling.silence(2, 2..3, &mut trits);
        assert_eq!(trits, [1, 1]);
    }

    #[test]
    fn different_scales_stay_different() {
        let scales = TritScales::Rows(vec![0.0, 0.5, 0.25]);
        assert_eq!(fill_zeros(scales, 3), TritScales::Rows(vec![0.5, 0.5, 0.25]));
        assert_eq!(fill_zeros(TritScales::Rows(vec![0.0; 3]), 3), TritScales::Tensor(0.0));
    }
}
