//! What does not fit, and what does instead.

use crate::encoding::{EncodingError, I2sOrder, TernaryEncoding, TritScales};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::tensor::{Encoding, TensorInfo};

/// Every GGUF encoding of trits that we write, the one to prefer first.
const GGUF: [TernaryEncoding; 7] = [
    TernaryEncoding::I2s(I2sOrder::Groups128),
    TernaryEncoding::Iq2Bn,
    TernaryEncoding::Tq2_0,
    TernaryEncoding::Tq1_0,
    TernaryEncoding::Q2_0 { group_len: 64 },
    TernaryEncoding::Q2_0 { group_len: 128 },
    TernaryEncoding::Iq1Bn,
];

/// The GGUF encodings that hold every projection of a model by its shape, the one to prefer first:
/// exact scales before rounded ones, what more programs read before what fewer do.
pub fn fitting(source: &ModelFile) -> Vec<TernaryEncoding> {
    let fits = |encoding: &TernaryEncoding| {
        source
            .tensors()
            .iter()
            .filter(|t| t.name.is_linear())
            .all(|t| encoding.size(t.rows, t.cols).is_ok() && holds_groups(*encoding, t))
    };
    GGUF.into_iter().filter(fits).collect()
}

/// Whether a scale for each group of master weights has a place of its own.
fn holds_groups(encoding: TernaryEncoding, t: &TensorInfo) -> bool {
    let (Some(len), Encoding::MasterWeights(_)) = (t.group_len, t.encoding) else { return true };
    match encoding {
        TernaryEncoding::Q2_0 { group_len } => len.is_multiple_of(group_len),
        TernaryEncoding::Tq1_0 | TernaryEncoding::Tq2_0 => len.is_multiple_of(256),
        TernaryEncoding::Iq1Bn | TernaryEncoding::Iq2Bn => len == t.cols,
        _ => false,
    }
}

/// The error of a shape that an encoding cannot take.
pub(super) fn misfit(source: &ModelFile, info: &TensorInfo, error: EncodingError) -> Error {
    if !matches!(error, EncodingError::Shape { .. }) {
        return source.fault(info, error);
    }
    let mut fit: Vec<String> = fitting(source).iter().map(ToString::to_string).collect();
    let one_scale =
        |t: &TensorInfo| t.group_len.is_none() || !matches!(t.encoding, Encoding::MasterWeights(_));
    let packs = |t: &TensorInfo| !t.name.is_linear() || (t.rows.is_multiple_of(4) && one_scale(t));
    if source.tensors().iter().all(packs) {
        fit.push("packed safetensors".to_owned());
    }
    source.fault(info, format!("{error}; what fits every tensor: {}", listed(&fit)))
}

/// The error of scales that an encoding has no room for.
pub(super) fn explained(
    source: &ModelFile,
    info: &TensorInfo,
    scales: &TritScales,
    error: EncodingError,
) -> Error {
    let hint = match (&error, scales) {
        (EncodingError::ScaleUnit { .. }, TritScales::Rows(_)) => {
            "IQ2_BN and IQ1_BN hold one a row"
        }
        (EncodingError::ScaleUnit { .. }, TritScales::Groups { .. }) => {
            "Q2_0 holds one for 64 or 128 columns, TQ1_0 and TQ2_0 one for 256"
        }
        (EncodingError::ScaleRounded { .. } | EncodingError::Unholdable { .. }, _) => {
            "I2_S and IQ2_BN store scales as f32"
        }
        _ => return source.fault(info, error),
    };
    source.fault(info, format!("{error}; {hint}"))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing we write".to_owned() } else { names.join(", ") }
}
