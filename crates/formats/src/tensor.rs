//! The tensors of a model: names, shapes, encodings and positions.

use std::collections::HashSet;
use std::fmt;

use wf_core::Network;

use crate::checksum::Checksum;
use crate::encoding::absmean::FloatTrits;
use crate::encoding::{EncodingError, FloatEncoding, TernaryEncoding};
use crate::error::Error;
use crate::map::{SourceFile, name_of};
use crate::names::TensorName;
use crate::size;

/// The arrangement of the numbers of a tensor in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Plain or block-quantized floats: norms, embedding, output head.
    Float(FloatEncoding),
    /// Packed trits.
    Ternary(TernaryEncoding),
    /// Master weights, which are rounded to trits by their mean magnitude when read ("online"
    /// checkpoints).
    MasterWeights(FloatEncoding),
    /// Floats that are all −s, 0 or s for some s: of the tensor, of a row, or of a group.
    TernaryFloats(FloatEncoding),
}

impl Encoding {
    /// Returns the size in bytes of a tensor of this shape.
    pub fn size(self, rows: usize, cols: usize) -> Result<u64, EncodingError> {
        let float = match self {
            Self::Ternary(encoding) => return encoding.size(rows, cols),
            Self::Float(float) | Self::MasterWeights(float) | Self::TernaryFloats(float) => float,
        };
        let row = float.row_size(cols)?;
        size::product(&[row, size::widen(rows)])
            .filter(|&size| size > 0 && usize::try_from(size).is_ok())
            .ok_or(EncodingError::TooLarge { encoding: float.name(), rows, cols })
    }

    /// Returns the usual name of the encoding of the bytes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ternary(encoding) => encoding.name(),
            Self::Float(float) | Self::MasterWeights(float) | Self::TernaryFloats(float) => {
                float.name()
            }
        }
    }

    /// Returns `true` if the numbers are read as trits.
    pub fn is_ternary(self) -> bool {
        !matches!(self, Self::Float(_))
    }

    /// Returns the float encoding of the bytes, if they are floats.
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

/// Change of the floats of a tensor when they are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FloatChange {
    /// They stay as they are.
    None,
    /// Norms that a file stores as their difference from this number.
    Add(f32),
    /// Factors of decay that a file stores as the logarithms of their magnitudes.
    NegatedExp,
}

impl FloatChange {
    pub(crate) fn apply(self, values: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Add(addend) => values.iter_mut().for_each(|value| *value += addend),
            Self::NegatedExp => {
                values.iter_mut().for_each(|value| *value = -exp((*value).into()) as f32);
            }
        }
    }
}

/// `e^x`, by operations whose every bit IEEE 754 defines, so that machines agree.
fn exp(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Beyond these, the result in single precision is 0 or infinite.
    let x = x.clamp(-700.0, 700.0);
    let n = (x / std::f64::consts::LN_2).round();
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // The Taylor series of degree 17 is exact to the last bit for |r| <= ln 2 / 2.
    let series = (1..=17).rev().fold(1.0, |sum, k| 1.0 + r / f64::from(k) * sum);
    // Two steps, because the exponent of one may be too small for a normal number. Powers of two are exact.
    let half = (n / 2.0).trunc();
    series * 2.0_f64.powi(half as i32) * 2.0_f64.powi((n - half) as i32)
}

/// One tensor of the network: its shape, encoding and position.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    /// The tensor of the network.
    pub name: TensorName,
    /// Name in the file.
    pub source_name: String,
    /// Rows of the matrix; 1 for a norm.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// Arrangement of the numbers.
    pub encoding: Encoding,
    /// Offset of the first byte in its file.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Index of its file among the files of the model.
    pub(crate) file: usize,
    /// Factor of its scales: a scale stored as a tensor of its own, or 1.
    pub(crate) factor: f32,
    /// Change of every float, for tensors that a file stores in other terms than the network.
    pub(crate) change: FloatChange,
    /// Columns of master weights or ternary floats that share a scale; `None` for one scale per tensor.
    pub(crate) group_len: Option<usize>,
    /// Checksum of its bytes, if the file has one.
    pub(crate) checksum: Option<Checksum>,
}

impl TensorInfo {
    /// Describes a tensor of the first file of a model, without factor, groups or checksum.
    pub(crate) fn new(
        name: TensorName,
        source_name: String,
        (rows, cols): (usize, usize),
        encoding: Encoding,
        offset: u64,
        size: u64,
    ) -> Self {
        let (file, factor, group_len, checksum) = (0, 1.0, None, None);
        Self {
            name,
            source_name,
            rows,
            cols,
            encoding,
            offset,
            size,
            file,
            factor,
            change: FloatChange::None,
            group_len,
            checksum,
        }
    }

    /// Makes it a matrix of floats that are exactly ternary in these parts.
    pub(crate) fn set_float_trits(&mut self, float: FloatEncoding, parts: FloatTrits) {
        self.encoding = Encoding::TernaryFloats(float);
        match parts {
            FloatTrits::Tensor(scale) => {
                self.factor *= scale;
                self.group_len = None;
            }
            FloatTrits::Groups(len) => self.group_len = Some(len),
        }
    }

    /// Checks that it has the shape and the kind of encoding its place in the network takes.
    fn check(&self, file: &str, network: &Network) -> Result<(), Error> {
        let fault = |what: String| Err(Error::tensor(file, &self.source_name, self.offset, what));
        let Some((rows, cols)) = self.name.shape(network) else {
            return fault("is not part of this network".to_owned());
        };
        if (self.rows, self.cols) != (rows, cols) {
            let found = format!("{} x {}", self.rows, self.cols);
            return fault(format!("has shape {found}, the network requires {rows} x {cols}"));
        }
        let is_float = matches!(self.encoding, Encoding::Float(_));
        if self.name.is_linear() && is_float {
            return fault(format!("is {}, the network requires trits here", self.encoding));
        }
        // The embedding and the output head may be either.
        if self.name.is_float() && !is_float {
            let floats: Vec<&str> = FloatEncoding::ALL.iter().map(|f| f.name()).collect();
            let floats = floats.join(", ");
            return fault(format!(
                "is {}, which is ternary; the network requires floats here ({floats})",
                self.encoding
            ));
        }
        Ok(())
    }
}

/// All tensors of a model's files: those of a network, and the names of the others.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) tensors: Vec<TensorInfo>,
    pub(crate) extra: Vec<String>,
}

impl Stored {
    /// Keeps the tensors of this network, all there and of the right shape; those of layers it does not
    /// have become extra.
    pub(crate) fn fit(mut self, files: &[SourceFile], network: &Network) -> Result<Self, Error> {
        let layers = network.layers.len().saturating_add(usize::from(network.mtp.is_some()));
        let (tensors, beyond): (Vec<_>, Vec<_>) = self
            .tensors
            .into_iter()
            .partition(|t| t.name.layer().is_none_or(|layer| layer < layers));
        self.extra.extend(beyond.into_iter().map(|t| t.source_name));
        let mut present = HashSet::new();
        for tensor in &tensors {
            let file = name_of(files, tensor.file);
            if !present.insert(tensor.name) {
                let what = format!("is a duplicate of \"{}\"", tensor.name);
                return Err(Error::tensor(file, &tensor.source_name, tensor.offset, what));
            }
            tensor.check(file, network)?;
        }
        if let Some(missing) = TensorName::all(network).find(|name| !present.contains(name)) {
            let what = format!(
                "tensor \"{}\" (\"{}\" in GGUF) is missing from a model of {} layers",
                missing.hugging_face(),
                missing.gguf(),
                network.layers.len()
            );
            return Err(Error::unsupported(name_of(files, 0), what));
        }
        Ok(Self { tensors, extra: self.extra })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri's exponential function is inexact on purpose")]
    fn exp_is_that_of_the_standard_library_in_single_precision() {
        for i in -4000..4000 {
            let x = f64::from(i) * 0.02;
            #[expect(clippy::disallowed_methods, reason = "the reference")]
            let expected = x.exp();
            assert!((exp(x) / expected - 1.0).abs() < 1e-15, "e^{x}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f64::NAN).is_nan());
        assert_eq!(exp(-1e9) as f32, 0.0);
        assert!((exp(1e9) as f32).is_infinite());
    }

    #[test]
    fn changes_are_applied_to_every_float() {
        let mut values = [0.0, 1.0];
        FloatChange::Add(1.0).apply(&mut values);
        assert_eq!(values, [1.0, 2.0]);
        FloatChange::NegatedExp.apply(&mut values);
        assert_eq!(values, [-std::f32::consts::E, -7.389_056]);
        FloatChange::None.apply(&mut values);
        assert_eq!(values[0], -std::f32::consts::E);
    }
}
