//! The bytes of one tensor, and what they mean: trits, scales, floats.

use std::borrow::Cow;
use std::ops::Range;

use crate::encoding::{
    EncodingError, FloatEncoding, TritScales, decode_floats, decode_scales, decode_trits,
};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::scaling::{self, Scaling};
use crate::tensor::{Encoding, TensorInfo};
use crate::{size, ternary_floats};

/// One tensor of a model with its bytes, mapped or read.
#[derive(Debug)]
pub struct TensorData<'a> {
    pub(crate) model: &'a ModelFile,
    pub(crate) info: &'a TensorInfo,
    pub(crate) bytes: Cow<'a, [u8]>,
}

impl TensorData<'_> {
    /// The bytes as they are in the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Rows of a tensor of floats; `out` has `cols` places for each.
    pub fn floats(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), Error> {
        let Some(float) = self.info.encoding.float() else {
            return Err(self.fault(format!("is {}, not floats", self.info.encoding)));
        };
        self.float_rows(float, rows, out).map_err(|e| self.fault(e))
    }

    /// Rows of a ternary tensor as −1, 0 and 1; `out` has `cols` places for each.
    pub fn trits(&self, rows: Range<usize>, out: &mut [i8]) -> Result<(), Error> {
        let t = self.info;
        let scaling = self.scaling()?;
        let result = match t.encoding {
            Encoding::Ternary(encoding) => {
                decode_trits(encoding, &self.bytes, t.rows, t.cols, rows.clone(), out)
                    .map(|()| scaling.silence(t.cols, rows, out))
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

    /// What trits are to be multiplied by: finite and not negative, and 0 only for a tensor of zeros.
    pub fn scales(&self) -> Result<TritScales, Error> {
        let t = self.info;
        let scales = match t.encoding {
            // Their scale lies beside the trits, or was found when the file was opened.
            Encoding::TernaryFloats(_) => TritScales::Tensor(1.0),
            Encoding::Ternary(encoding) if !scaling::has_own_scales(encoding) => {
                TritScales::Tensor(1.0)
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
        scales.check(t.rows, t.cols).map_err(|e| self.fault(e))?;
        Ok(scales)
    }

    /// Whether the codes of packed trits are all there is to know of them.
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
        // Another thread may have been quicker; it found the same.
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

    /// Trits out of float rows, one row at a time.
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

/// Checks that the rows are there, and that the caller's buffer has their size.
fn check_rows(t: &TensorInfo, rows: &Range<usize>, buffer: usize) -> Result<(), EncodingError> {
    if rows.start > rows.end || rows.end > t.rows {
        return Err(EncodingError::Rows { start: rows.start, end: rows.end, rows: t.rows });
    }
    // Opening the file has proved that rows * cols fits.
    let expected = rows.len().saturating_mul(t.cols);
    if buffer == expected {
        return Ok(());
    }
    Err(EncodingError::Buffer { expected, found: buffer })
}

fn times(mut scales: TritScales, factor: f32) -> TritScales {
    match &mut scales {
        TritScales::Tensor(scale) => *scale *= factor,
        TritScales::Rows(values) | TritScales::Groups { values, .. } => {
            values.iter_mut().for_each(|scale| *scale *= factor);
        }
    }
    scales
}
