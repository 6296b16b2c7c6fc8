//! Encodings that can hold a model, and errors that list them.

use crate::encoding::{EncodingError, ScaleUnit, Scales, TernaryEncoding};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::tensor::{Encoding, TensorInfo};

/// Returns the GGUF encodings that can hold every projection of a model by its shape, the preferred
/// one first: see [`TernaryEncoding::ALL`].
pub fn compatible_encodings(source: &ModelFile) -> Vec<TernaryEncoding> {
    let fits = |encoding: &&TernaryEncoding| {
        let mut projections = source.tensors().iter().filter(|t| t.name.is_linear());
        encoding.flag().is_some()
            && projections
                .all(|t| encoding.size(t.rows, t.cols).is_ok() && holds_groups(**encoding, t))
    };
    TernaryEncoding::ALL.iter().filter(fits).copied().collect()
}

/// Returns `true` if each group of master weights can have a scale of its own.
fn holds_groups(encoding: TernaryEncoding, t: &TensorInfo) -> bool {
    let (Some(len), Encoding::MasterWeights(_)) = (t.group_len, t.encoding) else { return true };
    match encoding.scale_unit() {
        Some(ScaleUnit::Group(unit)) => len.is_multiple_of(unit),
        Some(ScaleUnit::Row) => len == t.cols,
        Some(ScaleUnit::Tensor) | None => false,
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
    let packs = |t: &TensorInfo| !t.name.is_linear() || (t.rows.is_multiple_of(4) && one_scale(t));
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
