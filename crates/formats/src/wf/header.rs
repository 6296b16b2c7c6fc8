//! The header of a `.wf` file: JSON with the configuration, and the positions of documents and tensors.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::encoding::{FloatEncoding, TernaryEncoding};
use crate::tensor::Encoding;
use crate::text::SpecialTokenTexts;

/// The header. Unknown fields are rejected, because they may change the model.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// The content of `config.json`.
    pub(crate) config: Map<String, Value>,
    /// The content of `generation_config.json`.
    pub(crate) generation_config: Map<String, Value>,
    pub(crate) special_tokens: SpecialTokenTexts,
    pub(crate) documents: Vec<Document>,
    pub(crate) tensors: Vec<Record>,
}

/// A text file of the model.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) name: String,
    #[serde(rename = "place")]
    pub(crate) extent: Extent,
}

/// A tensor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// Name in GGUF.
    pub(crate) name: String,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) encoding: String,
    #[serde(rename = "place")]
    pub(crate) extent: Extent,
}

/// Position, size and checksum of a document or tensor.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extent {
    /// Offset from the start of the data.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    #[serde(with = "hex_digits")]
    pub(crate) checksum: u64,
}

/// Checksums are sixteen hexadecimal digits, so that the length of a header does not depend on them.
mod hex_digits {
    use serde::de::{Deserialize, Deserializer, Error, Unexpected};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(sum: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{sum:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        let sum = u64::from_str_radix(&text, 16).ok();
        sum.filter(|sum| format!("{sum:016x}") == text).ok_or_else(|| {
            D::Error::invalid_value(Unexpected::Str(&text), &"sixteen hexadecimal digits")
        })
    }
}

/// The encodings that a `.wf` file can hold, with their names.
fn encodings() -> impl Iterator<Item = (&'static str, Encoding)> {
    let floats = FloatEncoding::ALL.iter().map(|&e| (e.name(), Encoding::Float(e)));
    let ternary = TernaryEncoding::ALL.iter();
    floats.chain(ternary.filter_map(|&e| Some((e.wf_name()?, Encoding::Ternary(e)))))
}

pub(crate) fn encoding(name: &str) -> Option<Encoding> {
    encodings().find(|(known, _)| *known == name).map(|(_, encoding)| encoding)
}

pub(crate) fn name(encoding: Encoding) -> Option<&'static str> {
    encodings().find(|(_, known)| *known == encoding).map(|(name, _)| name)
}
