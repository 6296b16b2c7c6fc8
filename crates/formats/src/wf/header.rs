//! The header of a `.wf` file: JSON with the configuration, and the positions of documents and tensors.

use std::fmt;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::encoding::{FloatEncoding, TernaryEncoding};
use crate::tensor::Encoding;
use crate::vocabulary::SpecialTokenTexts;

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
    pub(crate) checksum: Sum,
}

/// A checksum of sixteen hexadecimal digits, so that the length of a header does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum(pub(crate) u64);

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let sum = u64::from_str_radix(&text, 16).map(Sum).ok();
        sum.filter(|sum| sum.to_string() == text).ok_or_else(|| {
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

/// Returns the encoding with this name.
pub(crate) fn encoding(name: &str) -> Option<Encoding> {
    encodings().find(|(known, _)| *known == name).map(|(_, encoding)| encoding)
}

/// Returns the name of an encoding.
pub(crate) fn name(encoding: Encoding) -> Option<&'static str> {
    encodings().find(|(_, known)| *known == encoding).map(|(name, _)| name)
}
