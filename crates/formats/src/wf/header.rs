//! The header of a `.wf` file: JSON that says what lies where.

use std::fmt;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::encoding::{FloatEncoding, ScaleUnit, TernaryEncoding};
use crate::tensor::Encoding;
use crate::vocabulary::SpecialTokenTexts;

/// Everything but documents and numbers. What a later version adds, this one must not skip.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// As `config.json` has it.
    pub(crate) config: Map<String, Value>,
    /// As `generation_config.json` has it.
    pub(crate) generation_config: Map<String, Value>,
    pub(crate) special_tokens: SpecialTokenTexts,
    pub(crate) documents: Vec<Document>,
    pub(crate) tensors: Vec<Record>,
}

/// A text that is part of the model.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) place: Place,
}

/// A tensor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// As GGUF spells it.
    pub(crate) name: String,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) encoding: String,
    pub(crate) place: Place,
}

/// Where something lies, and what its bytes sum up to.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// From where the data begin.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) checksum: Sum,
}

/// A checksum: sixteen hexadecimal digits, so that a header has one length whatever the sums are.
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

/// The encodings of a `.wf` file by their names in it.
const ENCODINGS: [(&str, Encoding); 11] = {
    use TernaryEncoding::QuadLines;
    [
        ("F32", Encoding::Float(FloatEncoding::F32)),
        ("F16", Encoding::Float(FloatEncoding::F16)),
        ("BF16", Encoding::Float(FloatEncoding::Bf16)),
        ("Q8_0", Encoding::Float(FloatEncoding::Q8_0)),
        ("Q6_K", Encoding::Float(FloatEncoding::Q6K)),
        ("Q4_0", Encoding::Float(FloatEncoding::Q4_0)),
        ("QUAD_LINES", Encoding::Ternary(QuadLines(ScaleUnit::Tensor))),
        ("QUAD_LINES_ROW", Encoding::Ternary(QuadLines(ScaleUnit::Row))),
        ("QUAD_LINES_64", Encoding::Ternary(QuadLines(ScaleUnit::Group(64)))),
        ("QUAD_LINES_128", Encoding::Ternary(QuadLines(ScaleUnit::Group(128)))),
        ("QUAD_LINES_256", Encoding::Ternary(QuadLines(ScaleUnit::Group(256)))),
    ]
};

/// The encoding with a name.
pub(crate) fn encoding(name: &str) -> Option<Encoding> {
    ENCODINGS.iter().find(|(known, _)| *known == name).map(|(_, encoding)| *encoding)
}

/// The name of an encoding.
pub(crate) fn name(encoding: Encoding) -> Option<&'static str> {
    ENCODINGS.iter().find(|(_, known)| *known == encoding).map(|(name, _)| *name)
}
