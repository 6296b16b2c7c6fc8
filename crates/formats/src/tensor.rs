//! What is known of a tensor before its bytes are read.

use std::collections::HashSet;
use std::fmt;

use crate::config::ModelConfig;
use crate::encoding::{EncodingError, FloatEncoding, TernaryEncoding};
use crate::error::Error;
use crate::model_file::{SourceFile, name_of};
use crate::names::TensorName;
use crate::size;

/// How the numbers of a tensor lie in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Plain or quantised floats: norms, embedding, output head.
    Float(FloatEncoding),
    /// Packed trits.
    Ternary(TernaryEncoding),
    /// Master weights, turned to trits by their mean magnitude when read ("online" checkpoints).
    MasterWeights(FloatEncoding),
    /// Floats that are all −s, 0 or s for one s.
    TernaryFloats(FloatEncoding),
}

impl Encoding {
    /// Bytes a tensor of this shape takes in a file.
    pub fn size(self, rows: usize, cols: usize) -> Result<u64, EncodingError> {
        match self {
            Self::Ternary(encoding) => encoding.size(rows, cols),
            Self::Float(float) | Self::MasterWeights(float) | Self::TernaryFloats(float) => {
                let row = float.row_size(cols)?;
                size::product(&[row, size::widen(rows)])
                    .filter(|&size| size > 0 && usize::try_from(size).is_ok())
                    .ok_or(EncodingError::TooLarge { encoding: float.name(), rows, cols })
            }
        }
    }

    /// The float encoding of the bytes, if they are floats.
    pub fn float(self) -> Option<FloatEncoding> {
        match self {
            Self::Float(float) | Self::MasterWeights(float) | Self::TernaryFloats(float) => {
                Some(float)
            }
            Self::Ternary(_) => None,
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(encoding) => write!(f, "{encoding}"),
            Self::Ternary(encoding) => write!(f, "{encoding}"),
            Self::MasterWeights(encoding) => write!(f, "{encoding} master weights"),
            Self::TernaryFloats(encoding) => write!(f, "{encoding}, exactly ternary"),
        }
    }
}

/// One tensor of the network: where it lies and how.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    /// Which tensor of the network this is.
    pub name: TensorName,
    /// What the file calls it.
    pub source_name: String,
    /// Rows of the matrix; 1 for a norm.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// How its numbers lie in the file.
    pub encoding: Encoding,
    /// First byte, from the start of its file.
    pub offset: u64,
    /// Bytes in the file.
    pub size: u64,
    /// Which of the model's files holds it.
    pub(crate) file: usize,
    /// What its own scales are to be multiplied by: a scale stored beside it, or 1.
    pub(crate) factor: f32,
    /// Columns of master weights that share a scale; `None` for one scale in all.
    pub(crate) group_len: Option<usize>,
    /// What its bytes must sum up to, where the file says so.
    pub(crate) checksum: Option<u64>,
}

impl TensorInfo {
    /// Checks that it has the shape and the kind of encoding its place in the network takes.
    fn check(&self, file: &str, config: &ModelConfig) -> Result<(), Error> {
        let fault = |what: String| Err(Error::tensor(file, &self.source_name, self.offset, what));
        let (rows, cols) = config.shape(self.name);
        if (self.rows, self.cols) != (rows, cols) {
            let found = format!("{} x {}", self.rows, self.cols);
            return fault(format!("has shape {found}, the network needs {rows} x {cols}"));
        }
        match (self.name.is_linear(), self.encoding) {
            (true, Encoding::Float(_)) => {
                fault(format!("is {}, the network needs trits here", self.encoding))
            }
            (true, _) | (false, Encoding::Float(_)) => Ok(()),
            (false, _) => fault(format!(
                "is {}, which is ternary; the network needs floats here (F32, F16, BF16, Q8_0, Q6_K \
                 or Q4_0)",
                self.encoding
            )),
        }
    }
}

/// Everything a model's files hold: tensors with a place in a network, and the names of the others.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) tensors: Vec<TensorInfo>,
    pub(crate) extra: Vec<String>,
}

impl Stored {
    /// Keeps the tensors of this network, all there and of the right shape; those of layers it does not
    /// have become extra.
    pub(crate) fn fit(mut self, files: &[SourceFile], config: &ModelConfig) -> Result<Self, Error> {
        let (tensors, beyond): (Vec<_>, Vec<_>) = self.tensors.into_iter().partition(
            |t| !matches!(t.name, TensorName::Layer(layer, _) if layer >= config.layers),
        );
        self.extra.extend(beyond.into_iter().map(|t| t.source_name));
        let mut present = HashSet::new();
        for tensor in &tensors {
            let file = name_of(files, tensor.file);
            if !present.insert(tensor.name) {
                let what = format!("is a second \"{}\"", tensor.name);
                return Err(Error::tensor(file, &tensor.source_name, tensor.offset, what));
            }
            tensor.check(file, config)?;
        }
        if let Some(missing) = config.tensor_names().find(|name| !present.contains(name)) {
            let what = format!(
                "tensor \"{}\" (\"{}\" in GGUF) is missing from a model of {} layers",
                missing.hugging_face(),
                missing.gguf(),
                config.layers
            );
            return Err(Error::unsupported(name_of(files, 0), what));
        }
        Ok(Self { tensors, extra: self.extra })
    }
}
