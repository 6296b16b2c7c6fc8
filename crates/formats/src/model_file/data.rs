//! The bytes of one tensor, decoded to trits, scales or floats.
//!
//! Some facts about the whole tensor are needed before its rows can be read as trits. Master weights need
//! their mean magnitude. Some writers give a row or group of zeros the scale 0 and arbitrary trits:
//! ik_llama.cpp writes ones, llama.cpp zeros. A weight is trit times scale, so these weights are zeros.
//! They are read as trits of 0 under the scale of their neighbours, so that a model has the same trits
//! and scales in every format, and usually a single scale.

use std::borrow::Cow;
use std::ops::Range;

use super::ModelFile;
use crate::encoding::{
    EncodingError, FloatEncoding, Scales, absmean, check_rows, check_scales, decode_floats,
    decode_scales, decode_trits,
};
use crate::error::Error;
use crate::size;
use crate::tensor::{Encoding, TensorInfo};

/// One tensor of a model with its bytes.
#[derive(Debug)]
pub struct TensorData<'a> {
    pub(super) model: &'a ModelFile,
    pub(super) info: &'a TensorInfo,
    pub(super) bytes: Cow<'a, [u8]>,
}

impl TensorData<'_> {
    /// Returns the encoded bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes rows of a tensor of floats; `out` holds `cols` values for each.
    pub fn floats(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), Error> {
        let Some(float) = self.info.encoding.float() else {
            return Err(self.fault(format!("is {}, not floats", self.info.encoding)));
        };
        self.float_rows(float, rows, out).map_err(|e| self.fault(e))?;
        self.info.change.apply(out);
        Ok(())
    }

    /// Decodes rows of a ternary tensor to −1, 0 and 1; `out` holds `cols` trits for each.
    pub fn trits(&self, rows: Range<usize>, out: &mut [i8]) -> Result<(), Error> {
        let t = self.info;
        let scaling = self.scaling()?;
        let result = match t.encoding {
            Encoding::Ternary(encoding) => {
                decode_trits(encoding, &self.bytes, t.rows, t.cols, rows.clone(), out)
                    .map(|()| scaling.clear_unscaled(t.cols, rows, out))
            }
            Encoding::MasterWeights(float) | Encoding::TernaryFloats(float) => {
                self.rounded(float, rows, out, scaling)
            }
            Encoding::Float(_) => {
                return Err(self.fault(format!("is {}, not trits", t.encoding)));
            }
        };
        result.map_err(|e| self.fault(e))
    }

    /// Decodes rows of a ternary tensor to trits times `scales`, which are those of the tensor; `out` holds
    /// `cols` weights for each.
    pub fn weights(
        &self,
        scales: &Scales,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let cols = self.info.cols.max(1);
        let mut trits = vec![0; out.len()];
        self.trits(rows.clone(), &mut trits)?;
        let outs = out.chunks_exact_mut(cols).zip(trits.chunks_exact(cols));
        for (row, (out, trits)) in rows.zip(outs) {
            for (col, (out, trit)) in out.iter_mut().zip(trits).enumerate() {
                *out = f32::from(*trit) * scales.at(row, col, cols);
            }
        }
        Ok(())
    }

    /// Decodes the scales: finite and not negative, and 0 only for a tensor of zeros.
    pub fn scales(&self) -> Result<Scales, Error> {
        let t = self.info;
        let scales = match t.encoding {
            Encoding::TernaryFloats(_) => match self.scaling()? {
                Scaling::Magnitudes(scales) => fill_zeros(scales.clone(), t.rows),
                // One scale is the factor, which was read when the file was opened.
                _ => Scales::Tensor(1.0),
            },
            Encoding::Ternary(encoding) if encoding.scale_unit().is_none() => Scales::Tensor(1.0),
            Encoding::Ternary(encoding) => {
                let scales = decode_scales(encoding, &self.bytes, t.rows, t.cols)
                    .map_err(|e| self.fault(e))?;
                fill_zeros(scales, t.rows)
            }
            Encoding::MasterWeights(_) => match self.scaling()? {
                Scaling::Means(means) => means.scales(t.rows),
                _ => Scales::Tensor(1.0),
            },
            Encoding::Float(_) => {
                return Err(self.fault(format!("is {}, not trits", t.encoding)));
            }
        };
        let scales = times(scales, t.factor);
        check_scales(&scales, t.rows, t.cols).map_err(|e| self.fault(e))?;
        Ok(scales)
    }

    /// Returns `true` if the stored codes are the trits: no scale is 0, and no weight needs rounding.
    pub(crate) fn has_plain_trits(&self) -> Result<bool, Error> {
        Ok(matches!(self.scaling()?, Scaling::Plain))
    }

    fn fault(&self, what: impl std::fmt::Display) -> Error {
        self.model.fault(self.info, what)
    }

    fn scaling(&self) -> Result<&Scaling, Error> {
        let Some(slot) = self.model.scaling_slot(self.info) else {
            return Err(self.fault(format!("is {}, not trits", self.info.encoding)));
        };
        if let Some(known) = slot.get() {
            return Ok(known);
        }
        let found = Scaling::of(self.info, &self.bytes).map_err(|e| self.fault(e))?;
        // Another thread may have been faster, with the same result.
        Ok(slot.get_or_init(|| found))
    }

    fn float_rows(
        &self,
        float: FloatEncoding,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), EncodingError> {
        let row_size = float.row_size(self.info.cols)?;
        check_rows(self.info.rows, self.info.cols, &rows, out.len())?;
        let first = size::product(&[row_size, size::widen(rows.start)]).unwrap_or(u64::MAX);
        let len = size::product(&[row_size, size::widen(rows.len())]).unwrap_or(u64::MAX);
        let bytes = size::slice(&self.bytes, first, len).unwrap_or_default();
        decode_floats(float, bytes, out)
    }

    fn rounded(
        &self,
        float: FloatEncoding,
        rows: Range<usize>,
        out: &mut [i8],
        scaling: &Scaling,
    ) -> Result<(), EncodingError> {
        let cols = self.info.cols;
        check_rows(self.info.rows, self.info.cols, &rows, out.len())?;
        let mut weights = vec![0.0; cols];
        for (row, out) in rows.zip(out.chunks_exact_mut(cols.max(1))) {
            self.float_rows(float, row..row.saturating_add(1), &mut weights)?;
            match scaling {
                Scaling::Means(means) => means.trits(row, &weights, out)?,
                _ => absmean::signs(&weights, out),
            }
        }
        Ok(())
    }
}

fn times(mut scales: Scales, factor: f32) -> Scales {
    match &mut scales {
        Scales::Tensor(scale) => *scale *= factor,
        Scales::Rows(values) | Scales::Groups { values, .. } => {
            values.iter_mut().for_each(|scale| *scale *= factor);
        }
    }
    scales
}

/// Facts about a whole tensor.
#[derive(Debug)]
pub(crate) enum Scaling {
    /// Mean magnitudes of master weights.
    Means(absmean::Means),
    /// Stored scales, some of which are 0.
    SomeZero(Scales),
    /// Magnitudes of the groups of floats that are exactly ternary.
    Magnitudes(Scales),
    /// Trits are read as stored.
    Plain,
}

impl Scaling {
    fn of(t: &TensorInfo, bytes: &[u8]) -> Result<Self, EncodingError> {
        match t.encoding {
            Encoding::MasterWeights(float) => {
                absmean::means_of(float, bytes, t.cols, t.group_len).map(Self::Means)
            }
            Encoding::TernaryFloats(float) => match t.group_len {
                None => Ok(Self::Plain),
                Some(len) => absmean::group_scales(float, bytes, t.cols, len).map(Self::Magnitudes),
            },
            Encoding::Ternary(encoding) if encoding.scale_unit().is_some() => {
                let scales = decode_scales(encoding, bytes, t.rows, t.cols)?;
                let some_zero = scales.values().contains(&0.0);
                Ok(if some_zero { Self::SomeZero(scales) } else { Self::Plain })
            }
            _ => Ok(Self::Plain),
        }
    }

    /// Sets the trits under a scale of 0 to 0.
    fn clear_unscaled(&self, cols: usize, rows: Range<usize>, trits: &mut [i8]) {
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

/// Replaces scales of 0, under which all trits are 0, by another scale of the tensor.
fn fill_zeros(mut scales: Scales, rows: usize) -> Scales {
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
