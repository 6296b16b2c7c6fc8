//! What a model is to become.

use std::path::{Path, PathBuf};

use super::file::{Existing, Staged};
use super::{Carrier, Progress, fitting, gguf, packed, sglbitnt, tensor, wf};
use crate::companions::directory_of;
use crate::config::RotaryPairs;
use crate::encoding::{FloatEncoding, Rounding, ScaleUnit, TernaryEncoding, TritScales};
use crate::encoding::{decode_floats, encode_floats};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::names::TensorName;
use crate::tensor::{Encoding, TensorInfo};

/// The kind of file, or directory of files, that a model becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// One GGUF file with projections in this encoding.
    Gguf(TernaryEncoding),
    /// A directory as `transformers` reads it: packed safetensors, `config.json`, tokenizer.
    Packed,
    /// One `.bin`, with the tokenizer's files beside it.
    Sglbitnt,
    /// One `.wf`, our own: all of the model, its trits as kernels compute with them.
    Wf,
}

impl Container {
    /// The encoding of the projections; for [`Container::Wf`], of those with one scale.
    pub fn trits(self) -> TernaryEncoding {
        match self {
            Self::Gguf(trits) => trits,
            Self::Packed => TernaryEncoding::HfPacked,
            Self::Sglbitnt => TernaryEncoding::SglPacked,
            Self::Wf => TernaryEncoding::QuadLines(ScaleUnit::Tensor),
        }
    }

    /// Whether the embedding and output head can be in this encoding.
    pub fn holds(self, head: FloatEncoding) -> bool {
        let plain = matches!(head, FloatEncoding::F32 | FloatEncoding::F16 | FloatEncoding::Bf16);
        plain || matches!(self, Self::Gguf(_) | Self::Wf)
    }
}

/// What a model is to become, and how.
#[derive(Debug, Clone)]
pub struct Target {
    /// The kind of file.
    pub container: Container,
    /// Encoding of the embedding, and of the output head where it is another tensor.
    pub head: FloatEncoding,
    /// Whether scales may be rounded to what the encoding can hold.
    pub rounding: Rounding,
    /// The model's name, if another than the source's.
    pub name: Option<String>,
    /// What becomes of a file that is already there.
    pub existing: Existing,
    /// Threads that read trits. The file is the same for any number.
    pub threads: usize,
}

/// One tensor of a file that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedTensor {
    /// Which tensor it is.
    pub name: TensorName,
    /// How its numbers will lie in the file.
    pub encoding: Encoding,
    /// Bytes they will take.
    pub size: u64,
}

impl PlannedTensor {
    /// The encoding of its floats; a projection has none.
    pub(super) fn float(&self) -> FloatEncoding {
        self.encoding.float().unwrap_or(FloatEncoding::F32)
    }
}

impl Target {
    /// The type of head that a source is carried over with if nothing else is asked for: its own, or
    /// f32 where the container has no such type or norms would change in it.
    pub fn usual_head(source: &ModelFile, container: Container) -> Result<FloatEncoding, Error> {
        let found = source.tensor(TensorName::Embedding).and_then(|t| t.encoding.float());
        let Some(found) = found.filter(|&float| container.holds(float)) else {
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

    /// Every tensor as it will be, or why one of them cannot be so. Of the weights, at most norms and
    /// scales are read.
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
                .map_err(|e| fitting::misfit(source, info, e))?;
            Ok(PlannedTensor { name, encoding, size })
        };
        if !self.container.holds(self.head) {
            let what = format!(
                "a head of {} has no place in this format, which holds f32, f16 and bf16",
                self.head
            );
            return Err(Error::unsupported(source.name(), what));
        }
        source.config().tensor_names().map(plan).collect()
    }

    /// Every file that writing to `out` makes or replaces.
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

    /// Writes the model, but does not yet give it its name. `progress` is told how many bytes of the
    /// source are done.
    pub fn stage(
        &self,
        source: &ModelFile,
        out: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Staged, Error> {
        let config = source.config();
        let is_plain = !config.extra_norms.any() && !config.scaled_embedding;
        if !is_plain && !matches!(self.container, Container::Gguf(_)) {
            let what = format!("architecture {} is written to GGUF only", config.architecture);
            return Err(Error::unsupported(&out.display().to_string(), what));
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
        self.stage(source, out, &mut |_| {})?.settle()
    }

    /// Our own file has room for as many scales as a projection needs. Those of master weights take a
    /// pass over all of them to know; how many there may be does not.
    fn trit_encoding(
        &self,
        source: &ModelFile,
        info: &TensorInfo,
    ) -> Result<TernaryEncoding, Error> {
        if self.container != Container::Wf {
            return Ok(self.container.trits());
        }
        let scales = match (info.encoding, info.group_len) {
            (Encoding::MasterWeights(_), None) => TritScales::Tensor(1.0),
            (Encoding::MasterWeights(_), Some(len)) => {
                TritScales::Groups { len, values: Vec::new() }
            }
            _ => source.scales(info)?,
        };
        Ok(TernaryEncoding::quad_lines_for(&scales))
    }

    /// The embedding and head get the encoding asked for. Norms are small and stay exact, in f32; but
    /// `transformers` runs a packed checkpoint only if all its floats are of one type, so there they
    /// follow the head where that changes none of them.
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

    pub(super) fn carrier<'a>(
        &self,
        source: &'a ModelFile,
        pairs: RotaryPairs,
        progress: &'a mut Progress<'a>,
    ) -> Carrier<'a> {
        let (rounding, threads) = (self.rounding, self.threads);
        Carrier { source, rounding, pairs, threads, progress, done: 0 }
    }
}

/// Whether every value of a small tensor is the same in another encoding.
fn is_exact(source: &ModelFile, info: &TensorInfo, float: FloatEncoding) -> Result<bool, Error> {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    source.read_floats(info, 0..info.rows, &mut bytes, &mut values)?;
    let mut stored = vec![0.0; values.len()];
    let encoded = encode_floats(float, &values);
    let decoded = encoded.and_then(|bytes| decode_floats(float, &bytes, &mut stored));
    Ok(decoded.is_ok() && values == stored)
}
