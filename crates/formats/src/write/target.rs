//! The target of a conversion.

use std::path::{Path, PathBuf};

use wf_core::RotaryPairs;

use super::file::{IfExists, Staged};
use super::{Copier, Progress, compatible, gguf, is_plain, packed, sglbitnt, tensor, wf};
use crate::companions::directory_of;
use crate::encoding::{FloatEncoding, Rounding, Scales, TernaryEncoding};
use crate::encoding::{decode_floats, encode_floats};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::names::TensorName;
use crate::tensor::{Encoding, TensorInfo};

/// The file or directory that a model is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// A GGUF file with projections in this encoding.
    Gguf(TernaryEncoding),
    /// A directory for `transformers`: packed safetensors, `config.json`, tokenizer.
    Packed,
    /// An SGLBITNT `.bin` with tokenizer files in the same directory.
    Sglbitnt,
    /// A `.wf` file: the complete model, with trits in the layout of the kernels.
    Wf,
}

impl Container {
    /// Returns the encoding of the projections; for [`Container::Wf`], of those with one scale.
    pub fn trits(self) -> TernaryEncoding {
        match self {
            Self::Gguf(trits) => trits,
            Self::Packed => TernaryEncoding::HF_PACKED,
            Self::Sglbitnt => TernaryEncoding::SGL_PACKED,
            Self::Wf => TernaryEncoding::QUAD_LINES,
        }
    }

    /// Returns `true` if the embedding and output head can have this encoding.
    pub fn supports_head(self, head: FloatEncoding) -> bool {
        head.is_plain() || matches!(self, Self::Gguf(_) | Self::Wf)
    }
}

/// The target of a conversion, with its options.
#[derive(Debug, Clone)]
pub struct Target {
    /// Format of the output.
    pub container: Container,
    /// Encoding of the embedding, and of the output head if it is a separate tensor.
    pub head: FloatEncoding,
    /// Handling of scales that the encoding cannot represent exactly.
    pub rounding: Rounding,
    /// Name of the model; `None` for that of the source.
    pub name: Option<String>,
    /// Handling of an existing file.
    pub if_exists: IfExists,
    /// Number of threads. The output does not depend on it.
    pub threads: usize,
}

/// One tensor of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedTensor {
    /// The tensor.
    pub name: TensorName,
    /// Its encoding.
    pub encoding: Encoding,
    /// Its size in bytes.
    pub size: u64,
}

impl PlannedTensor {
    /// Returns its float encoding; it is not a projection.
    pub(super) fn float(&self) -> FloatEncoding {
        self.encoding.float().unwrap_or(FloatEncoding::F32)
    }
}

impl Target {
    /// Returns the default type of the head: that of the source, or f32 if the container has no such
    /// type or if it would change norms.
    pub fn default_head(source: &ModelFile, container: Container) -> Result<FloatEncoding, Error> {
        let found = source.tensor(TensorName::Embedding).and_then(|t| t.encoding.float());
        let Some(found) = found.filter(|&float| container.supports_head(float)) else {
            return Ok(FloatEncoding::F32);
        };
        let norms = source.tensors().iter().filter(|t| t.name.is_norm());
        for norm in norms.filter(|_| container == Container::Packed) {
            if !is_exact(source, norm, found)? {
                return Ok(FloatEncoding::F32);
            }
        }
        Ok(found)
    }

    /// Returns every tensor of the output, or an error if one does not fit. Reads norms and scales, but no
    /// other weights.
    pub fn plan(&self, source: &ModelFile) -> Result<Vec<PlannedTensor>, Error> {
        let plan = |name: TensorName| {
            let info = tensor(source, name);
            let encoding = if name.is_linear() {
                Encoding::Ternary(self.trit_encoding(source, info)?)
            } else {
                Encoding::Float(self.float_encoding(source, info)?)
            };
            let size = encoding
                .size(info.rows, info.cols)
                .map_err(|e| compatible::misfit(source, info, e))?;
            Ok(PlannedTensor { name, encoding, size })
        };
        if !self.container.supports_head(self.head) {
            let what = format!(
                "head type {} is not supported by this format, allowed are f32, f16 and bf16",
                self.head
            );
            return Err(Error::unsupported(source.name(), what));
        }
        TensorName::all(source.network()).map(plan).collect()
    }

    /// Returns every file that is created or replaced by writing to `out`.
    pub fn files(&self, source: &ModelFile, out: &Path) -> Vec<PathBuf> {
        let directory = match self.container {
            Container::Gguf(_) | Container::Wf => return vec![out.to_owned()],
            Container::Packed => out,
            Container::Sglbitnt => directory_of(out),
        };
        let mut files = match self.container {
            Container::Packed => packed::NAMES.map(|name| directory.join(name)).to_vec(),
            _ => vec![out.to_owned()],
        };
        if super::tokenizer::has_files(source) {
            files.extend(super::tokenizer::NAMES.map(|name| directory.join(name)));
        }
        files
    }

    /// Writes the model under a temporary name. `progress` receives the number of bytes of the source
    /// that have been processed.
    pub fn stage(
        &self,
        source: &ModelFile,
        out: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Staged, Error> {
        let network = source.network();
        let rejected = |what: &str| {
            let what = format!("architecture {} {what}", source.info().architecture);
            Err(Error::unsupported(&out.display().to_string(), what))
        };
        if network.uniform_layer().is_none() {
            return rejected("has layers that differ, which no format has keys for");
        }
        if !is_plain(network) && !matches!(self.container, Container::Gguf(_)) {
            return rejected("is written to GGUF only");
        }
        match self.container {
            Container::Gguf(trits) => gguf::stage(source, self, trits, out, progress),
            Container::Packed => packed::stage(source, self, out, progress),
            Container::Sglbitnt => sglbitnt::stage(source, self, out, progress),
            Container::Wf => wf::stage(source, self, out, progress),
        }
    }

    /// Writes the model.
    pub fn write(&self, source: &ModelFile, out: &Path) -> Result<(), Error> {
        self.stage(source, out, &mut |_| {})?.commit()
    }

    /// Returns the encoding of a projection, which in a `.wf` file depends on its scales. The number of
    /// scales of master weights is known without computing them.
    fn trit_encoding(
        &self,
        source: &ModelFile,
        info: &TensorInfo,
    ) -> Result<TernaryEncoding, Error> {
        if self.container != Container::Wf {
            return Ok(self.container.trits());
        }
        let scales = match (info.encoding, info.group_len) {
            (Encoding::MasterWeights(_), None) => Scales::Tensor(1.0),
            (Encoding::MasterWeights(_), Some(len)) => Scales::Groups { len, values: Vec::new() },
            _ => source.scales(info)?,
        };
        TernaryEncoding::quad_lines_for(&scales).map_err(|e| source.fault(info, e))
    }

    /// Returns the encoding of a float tensor. Norms are f32, except in packed checkpoints: `transformers`
    /// requires one type for all floats, so there they have the type of the head if that is exact.
    fn float_encoding(
        &self,
        source: &ModelFile,
        info: &TensorInfo,
    ) -> Result<FloatEncoding, Error> {
        if !info.name.is_norm() {
            return Ok(self.head);
        }
        let follows = self.container == Container::Packed && is_exact(source, info, self.head)?;
        Ok(if follows { self.head } else { FloatEncoding::F32 })
    }

    pub(super) fn copier<'a>(
        &self,
        source: &'a ModelFile,
        pairs: RotaryPairs,
        progress: &'a mut Progress<'a>,
    ) -> Copier<'a> {
        let (rounding, threads) = (self.rounding, self.threads);
        Copier { source, rounding, pairs, threads, progress, done: 0 }
    }
}

/// Returns `true` if another encoding represents every value of a tensor exactly.
fn is_exact(source: &ModelFile, info: &TensorInfo, float: FloatEncoding) -> Result<bool, Error> {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    source.read_floats(info, 0..info.rows, &mut bytes, &mut values)?;
    let mut stored = vec![0.0; values.len()];
    let encoded = encode_floats(float, &values);
    let decoded = encoded.and_then(|bytes| decode_floats(float, &bytes, &mut stored));
    Ok(decoded.is_ok() && values == stored)
}
