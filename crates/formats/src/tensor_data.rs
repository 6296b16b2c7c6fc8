//! The bytes of one tensor, decoded to trits, scales or floats.

use std::borrow::Cow;
use std::ops::Range;

use crate::encoding::{
    EncodingError, FloatEncoding, Scales, check_scales, decode_floats, decode_scales, decode_trits,
};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::scaling::{self, Scaling};
use crate::tensor::{Encoding, TensorInfo};
use crate::{size, ternary_floats};

/// One tensor of a model with its bytes.
#[derive(Debug)]
pub struct TensorData<'a> {
    pub(crate) model: &'a ModelFile,
    pub(crate) info: &'a TensorInfo,
    pub(crate) bytes: Cow<'a, [u8]>,
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
        self.float_rows(float, rows, out).map_err(|e| self.fault(e))
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

    /// Decodes the scales: finite and not negative, and 0 only for a tensor of zeros.
    pub fn scales(&self) -> Result<Scales, Error> {
        let t = self.info;
        let scales = match t.encoding {
            // Their scale is the factor, which was read when the file was opened.
            Encoding::TernaryFloats(_) => Scales::Tensor(1.0),
            Encoding::Ternary(encoding) if !scaling::has_own_scales(encoding) => {
                Scales::Tensor(1.0)
            }
            Encoding::Ternary(encoding) => {
                let scales = decode_scales(encoding, &self.bytes, t.rows, t.cols)
                    .map_err(|e| self.fault(e))?;
                scaling::fill_zeros(scales, t.rows)
            }
            Encoding::MasterWeights(_) => self.scaling()?.means(t.rows),
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
        check_rows(self.info, &rows, out.len())?;
        let first = size::product(&[row_size, size::widen(rows.start)]).unwrap_or(u64::MAX);
        let len = size::product(&[row_size, size::widen(rows.len())]).unwrap_or(u64::MAX);
        let bytes = size::slice(&self.bytes, first, len).unwrap_or_default();
        decode_floats(float, bytes, out)
    }

    /// Rounds rows of floats to trits.
    fn rounded(
        &self,
        float: FloatEncoding,
        rows: Range<usize>,
        out: &mut [i8],
        scaling: &Scaling,
    ) -> Result<(), EncodingError> {
        let cols = self.info.cols;
        check_rows(self.info, &rows, out.len())?;
        let mut weights = vec![0.0; cols];
        for (row, out) in rows.zip(out.chunks_exact_mut(cols.max(1))) {
            self.float_rows(float, row..row.saturating_add(1), &mut weights)?;
            match scaling {
                Scaling::Means(means) => means.trits(row, &weights, out)?,
                _ => ternary_floats::signs(&weights, out),
            }
        }
        Ok(())
    }
}

/// Checks that the rows exist, and that the buffer has their size.
fn check_rows(t: &TensorInfo, rows: &Range<usize>, buffer: usize) -> Result<(), EncodingError> {
    if rows.start > rows.end || rows.end > t.rows {
        return Err(EncodingError::Rows { start: rows.start, end: rows.end, rows: t.rows });
    }
    // Opening the file has checked that rows * cols fits.
    let expected = rows.len().saturating_mul(t.cols);
    if buffer == expected {
        return Ok(());
    }
    Err(EncodingError::Buffer { expected, found: buffer })
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
