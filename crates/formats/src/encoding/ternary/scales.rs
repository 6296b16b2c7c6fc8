//! The scales of a ternary matrix: their positions in an encoding, and what it can represent.

use half::f16;
use wf_core::Scales;

use super::TernaryEncoding;
use super::codec::{Bundles, Layout, ScaleFloat, ScaleUnit, StoredScales};
use crate::encoding::error::EncodingError;

/// Handling of scales that are not exact in f16, for encodings that store f16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// They are rejected.
    Exact,
    /// They are rounded to the nearest f16.
    Allow,
}

/// Checks that there is a finite, non-negative scale for every row or group of a matrix.
pub fn check_scales(scales: &Scales, rows: usize, cols: usize) -> Result<(), EncodingError> {
    let count = |expected: usize, values: &[f32]| {
        let found = values.len();
        if found == expected { Ok(()) } else { Err(EncodingError::ScaleCount { expected, found }) }
    };
    match scales {
        Scales::Tensor(_) => {}
        Scales::Rows(values) => count(rows, values)?,
        Scales::Groups { len, values } => {
            check_groups(*len, cols)?;
            count(rows.saturating_mul(cols / len), values)?;
        }
    }
    match scales.values().iter().find(|scale| !is_sound(**scale)) {
        None => Ok(()),
        Some(&value) => Err(EncodingError::Unrepresentable {
            encoding: "a scale",
            value,
            allowed: "finite numbers from 0 up",
        }),
    }
}

pub(crate) fn check_groups(len: usize, cols: usize) -> Result<(), EncodingError> {
    if len != 0 && cols.is_multiple_of(len) {
        return Ok(());
    }
    let (encoding, axis, multiple) = ("a scale per group", "columns", len.max(1));
    Err(EncodingError::Shape { encoding, axis, multiple, found: cols })
}

fn is_sound(scale: f32) -> bool {
    scale.is_finite() && scale >= 0.0
}

/// Decodes the scales of a matrix, in the simplest form that holds them. `bytes` is the whole tensor.
pub fn decode_scales(
    encoding: TernaryEncoding,
    bytes: &[u8],
    rows: usize,
    cols: usize,
) -> Result<Scales, EncodingError> {
    encoding.check_size(bytes.len(), rows, cols)?;
    let Some((bundles, stored)) = encoding.stored_scales() else {
        let what = format!("{} stores no scales in the tensor", encoding.name());
        return Err(EncodingError::Invalid(what));
    };
    let values = (0..stored.unit.count(rows, cols))
        .map(|index| {
            let offset = bundles.scale_offset(stored, index, rows, cols);
            let rest = bytes.get(offset..).unwrap_or_default();
            let value = match stored.float {
                ScaleFloat::F16 => rest.first_chunk().map(|b| f16::from_le_bytes(*b).to_f32()),
                ScaleFloat::F32 => rest.first_chunk().map(|b| f32::from_le_bytes(*b)),
            };
            let value = value.unwrap_or(f32::NAN);
            if is_sound(value) { Ok(value) } else { Err(EncodingError::Scale { offset, value }) }
        })
        .collect::<Result<Vec<f32>, EncodingError>>()?;
    let scales = match stored.unit {
        ScaleUnit::Tensor | ScaleUnit::Row => Scales::Rows(values),
        ScaleUnit::Group(len) => Scales::Groups { len, values },
    };
    Ok(scales.simplify(rows))
}

impl TernaryEncoding {
    pub(super) fn stored_scales(self) -> Option<(&'static Bundles, &'static StoredScales)> {
        let Layout::Bundles(bundles) = &self.codec.layout else { return None };
        Some((bundles, bundles.scales.as_ref()?))
    }
}

/// Writes the scales into the bytes of an encoded matrix.
pub(super) fn write_scales(
    encoding: TernaryEncoding,
    scales: &Scales,
    rounding: Rounding,
    trits: &[i8],
    rows: usize,
    cols: usize,
    bytes: &mut [u8],
) -> Result<(), EncodingError> {
    check_scales(scales, rows, cols)?;
    let Some((bundles, stored)) = encoding.stored_scales() else {
        return one_scale(encoding, ScaleUnit::Tensor, scales, trits, cols, 0).map(|_| ());
    };
    let unit_len = match stored.unit {
        ScaleUnit::Tensor => trits.len(),
        ScaleUnit::Row => cols,
        ScaleUnit::Group(len) => len,
    };
    for (index, trits) in trits.chunks_exact(unit_len).enumerate() {
        let scale = match encoding.has_zero() || trits.iter().any(|trit| *trit != 0) {
            true => one_scale(encoding, stored.unit, scales, trits, cols, index * unit_len)?,
            false => 0.0,
        };
        let offset = bundles.scale_offset(stored, index, rows, cols);
        let rest = bytes.get_mut(offset..).unwrap_or_default();
        match stored.float {
            ScaleFloat::F32 => {
                rest.first_chunk_mut().map(|b: &mut [u8; 4]| *b = scale.to_le_bytes())
            }
            ScaleFloat::F16 => {
                let half = to_f16(encoding, scale, rounding)?;
                rest.first_chunk_mut().map(|b: &mut [u8; 2]| *b = half.to_le_bytes())
            }
        };
    }
    Ok(())
}

/// Returns the one scale of a run of trits that starts at flat index `start`.
///
/// Trits that are all 0 fit any scale, so the scale of such a part is ignored: quantizers write 0 there.
fn one_scale(
    encoding: TernaryEncoding,
    unit: ScaleUnit,
    scales: &Scales,
    trits: &[i8],
    cols: usize,
    start: usize,
) -> Result<f32, EncodingError> {
    let span = scales.span(cols).min(trits.len()).max(1);
    let scale_at = |flat: usize| scales.at(flat / cols, flat % cols, cols);
    let mut found: Option<f32> = None;
    for (index, part) in trits.chunks(span).enumerate() {
        let flat = start + index * span;
        let second = scale_at(flat);
        match found {
            _ if part.iter().all(|trit| *trit == 0) => {}
            None => found = Some(second),
            Some(first) if first.to_bits() == second.to_bits() => {}
            Some(first) => {
                let (encoding, unit, row) = (encoding.name(), unit.name(), flat / cols);
                return Err(EncodingError::ScaleUnit { encoding, unit, row, first, second });
            }
        }
    }
    Ok(found.unwrap_or_else(|| scale_at(start)))
}

fn to_f16(encoding: TernaryEncoding, scale: f32, rounding: Rounding) -> Result<f16, EncodingError> {
    let encoding = encoding.name();
    let half = f16::from_f32(scale);
    let stored = half.to_f32();
    if !stored.is_finite() || (stored == 0.0 && scale != 0.0) {
        let allowed = "scales of 0 and from 0.00000006 to 65504 (f16)";
        return Err(EncodingError::Unrepresentable { encoding, value: scale, allowed });
    }
    if rounding == Rounding::Exact && stored.to_bits() != scale.to_bits() {
        return Err(EncodingError::ScaleRounded { encoding, value: scale, stored });
    }
    Ok(half)
}
