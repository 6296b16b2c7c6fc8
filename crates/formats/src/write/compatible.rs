//! Encodings that can hold a model, and errors that list them.

use crate::encoding::{EncodingError, ScaleUnit, Scales, TernaryEncoding};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::tensor::{Encoding, TensorInfo};

/// Returns the GGUF encodings that can hold every ternary tensor of a model by its shape and the number of
/// its scales, the preferred one first: see [`TernaryEncoding::ALL`].
pub fn compatible_encodings(source: &ModelFile) -> Vec<TernaryEncoding> {
    let ternary = source.tensors().iter().filter(|t| t.encoding.is_ternary());
    let needs: Vec<_> = ternary.map(|t| (t, scale_unit(source, t))).collect();
    let fits = |encoding: &&TernaryEncoding| {
        encoding.flag().is_some()
            && needs.iter().all(|(t, unit)| {
                encoding.size(t.rows, t.cols).is_ok() && holds(**encoding, *unit, t.cols)
            })
    };
    TernaryEncoding::ALL.iter().filter(fits).copied().collect()
}

/// Returns the part of a tensor that shares a scale. Reads scales, but computes none of master weights.
pub fn scale_unit(source: &ModelFile, t: &TensorInfo) -> ScaleUnit {
    if let Encoding::MasterWeights(_) = t.encoding {
        return t.group_len.map_or(ScaleUnit::Tensor, ScaleUnit::Group);
    }
    match source.scales(t) {
        Ok(Scales::Groups { len, .. }) => ScaleUnit::Group(len),
        Ok(Scales::Rows(_)) => ScaleUnit::Row,
        // An error is reported when the tensor is read.
        Ok(Scales::Tensor(_)) | Err(_) => ScaleUnit::Tensor,
    }
}

/// Returns `true` if an encoding has a scale for each of these units in rows of `cols` columns.
fn holds(encoding: TernaryEncoding, unit: ScaleUnit, cols: usize) -> bool {
    match (encoding.scale_unit(), unit) {
        (_, ScaleUnit::Tensor) | (Some(ScaleUnit::Row | ScaleUnit::Group(_)), ScaleUnit::Row) => {
            true
        }
        (Some(ScaleUnit::Group(unit)), ScaleUnit::Group(len)) => len.is_multiple_of(unit),
        (Some(ScaleUnit::Row), ScaleUnit::Group(len)) => len == cols,
        (Some(ScaleUnit::Tensor) | None, _) => false,
    }
}

/// Creates the error for a shape that does not fit an encoding.
pub(super) fn misfit(source: &ModelFile, info: &TensorInfo, error: EncodingError) -> Error {
    if !matches!(error, EncodingError::Shape { .. }) {
        return source.fault(info, error);
    }
    let mut fit: Vec<String> =
        compatible_encodings(source).iter().map(ToString::to_string).collect();
    let one_scale =
        |t: &TensorInfo| t.group_len.is_none() || !matches!(t.encoding, Encoding::MasterWeights(_));
    let packs =
        |t: &TensorInfo| !t.encoding.is_ternary() || (t.rows.is_multiple_of(4) && one_scale(t));
    if source.tensors().iter().all(packs) {
        fit.push("packed safetensors".to_owned());
    }
    source.fault(info, format!("{error}; encodings that fit every tensor: {}", listed(&fit)))
}

/// Creates the error for scales that an encoding cannot represent.
pub(super) fn explained(
    source: &ModelFile,
    info: &TensorInfo,
    scales: &Scales,
    error: EncodingError,
) -> Error {
    let hint = match (&error, scales) {
        (EncodingError::ScaleUnit { .. }, Scales::Rows(_)) => {
            let a_row = with(|e| e.scale_unit() == Some(ScaleUnit::Row));
            format!("one scale per row: {a_row}")
        }
        (EncodingError::ScaleUnit { .. }, Scales::Groups { .. }) => {
            let a_group = with(|e| matches!(e.scale_unit(), Some(ScaleUnit::Group(_))));
            format!("one scale per group: {a_group}")
        }
        (EncodingError::ScaleRounded { .. } | EncodingError::Unrepresentable { .. }, _) => {
            let exact = with(TernaryEncoding::has_exact_scales);
            format!("scales as f32: {exact}")
        }
        _ => return source.fault(info, error),
    };
    source.fault(info, format!("{error}; {hint}"))
}

/// Lists the encodings of GGUF files with a property.
fn with(property: impl Fn(TernaryEncoding) -> bool) -> String {
    let all = TernaryEncoding::ALL.iter().filter(|e| e.flag().is_some() && property(**e));
    listed(&all.map(ToString::to_string).collect::<Vec<_>>())
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
