//! The encoding of the embedding and of the output head.

use std::fmt;

use crate::encoding::FloatEncoding;
use crate::model_file::ModelFile;
use crate::names::TensorName;
use crate::tensor::Encoding;

/// Encoding of the embedding, and of the output head if it is a separate tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableEncoding {
    /// Floats.
    Float(FloatEncoding),
    /// That of each table in the source; ternary tables have the encoding of the projections.
    Source,
}

impl TableEncoding {
    /// Returns the float type that all tables of a model have and that can be written; otherwise
    /// [`TableEncoding::Source`].
    pub(super) fn of(model: &ModelFile) -> Self {
        let tables = [TensorName::Embedding, TensorName::Output];
        let mut types =
            tables.into_iter().filter_map(|name| model.tensor(name)).map(|t| t.encoding);
        match types.next() {
            Some(Encoding::Float(float))
                if float.is_writable() && types.all(|other| other == Encoding::Float(float)) =>
            {
                Self::Float(float)
            }
            _ => Self::Source,
        }
    }

    /// Returns the float encoding, if it is one.
    pub fn float(self) -> Option<FloatEncoding> {
        if let Self::Float(float) = self { Some(float) } else { None }
    }
}

impl From<FloatEncoding> for TableEncoding {
    fn from(float: FloatEncoding) -> Self {
        Self::Float(float)
    }
}

impl fmt::Display for TableEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(float) => write!(f, "{float}"),
            Self::Source => f.write_str("as in the source"),
        }
    }
}
