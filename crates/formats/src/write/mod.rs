//! Writes any [`ModelFile`] in any supported format, one tensor at a time.
//!
//! Trits and scales are copied exactly. The caller chooses the encoding of the trits, that of the
//! embedding and output head, and whether scales may be rounded.

mod compatible;
mod config_json;
mod copy;
mod family;
mod file;
mod gguf;
mod hybrid;
mod layers;
mod packed;
mod rope;
mod sglbitnt;
mod table;
mod tokenizer;
mod wf;

pub use compatible::{compatible_encodings, scale_unit};
pub use file::{IfExists, Staged};
pub use hybrid::ValueHeadReordering;
pub use table::TableEncoding;
pub use tokenizer::vocabulary_from_tokenizer_json;

use std::path::{Path, PathBuf};

use crate::companions::directory_of;
use crate::encoding::{FloatEncoding, Rounding, ScaleUnit, Scales, TernaryEncoding};
use crate::encoding::{decode_floats, encode_floats};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::names::{LayerTensor, TensorName};
use crate::tensor::{Encoding, TensorInfo};
use copy::{Copier, Progress};
use family::{WrittenFamily, experts};

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
    pub fn supports_head(self, head: TableEncoding) -> bool {
        let is_plain = matches!(head, TableEncoding::Float(float) if float.is_plain());
        is_plain || matches!(self, Self::Gguf(_) | Self::Wf)
    }
}

/// The target of a conversion, with its options.
#[derive(Debug, Clone)]
pub struct Target {
    /// Format of the output.
    pub container: Container,
    /// Encoding of the embedding, and of the output head if it is a separate tensor.
    pub head: TableEncoding,
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
    /// Returns its float encoding; it is not ternary.
    fn float(&self) -> FloatEncoding {
        self.encoding.float().unwrap_or(FloatEncoding::F32)
    }
}

impl Target {
    /// Creates a target that keeps every number, replaces existing files and uses one thread.
    pub fn new(container: Container, head: impl Into<TableEncoding>) -> Self {
        let (rounding, if_exists) = (Rounding::Exact, IfExists::Replace);
        Self { container, head: head.into(), rounding, name: None, if_exists, threads: 1 }
    }

    /// Returns the default type of the head: that of the source, or f32 if the container has no such
    /// type or if it would change norms.
    pub fn default_head(source: &ModelFile, container: Container) -> Result<TableEncoding, Error> {
        let found = TableEncoding::of(source);
        if !container.supports_head(found) {
            return Ok(FloatEncoding::F32.into());
        }
        let TableEncoding::Float(float) = found else { return Ok(found) };
        let norms = source.tensors().iter().filter(|t| t.name.is_norm());
        for norm in norms.filter(|_| container == Container::Packed) {
            if !is_exact(source, norm, float)? {
                return Ok(FloatEncoding::F32.into());
            }
        }
        Ok(found)
    }

    /// Returns every tensor of the output, or an error if one does not fit. Reads norms and scales, but no
    /// other weights.
    pub fn plan(&self, source: &ModelFile) -> Result<Vec<PlannedTensor>, Error> {
        let plan = |name: TensorName| {
            let info = tensor(source, name);
            let encoding = self.encoding(source, info)?;
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

    /// Returns the encoding of a tensor. Projections in a `.wf` file depend on their scales; the number
    /// of scales of master weights is known without computing them. Norms are f32, except in packed
    /// checkpoints: `transformers` requires one type for all floats, so there they have the type of the
    /// head if that is exact.
    fn encoding(&self, source: &ModelFile, info: &TensorInfo) -> Result<Encoding, Error> {
        let of_mtp = matches!(info.name, TensorName::Layer(_, LayerTensor::MtpInput));
        let stays = self.head == TableEncoding::Source || of_mtp;
        let stays_ternary = stays && info.encoding.is_ternary();
        if info.name.is_linear() || stays_ternary {
            if self.container != Container::Wf {
                return Ok(Encoding::Ternary(self.container.trits()));
            }
            let scales = match (info.encoding, info.group_len) {
                (Encoding::MasterWeights(_), None) => Scales::Tensor(1.0),
                (Encoding::MasterWeights(_), Some(len)) => {
                    Scales::Groups { len, values: Vec::new() }
                }
                _ => source.scales(info)?,
            };
            let lines = TernaryEncoding::quad_lines_for(&scales);
            return lines.map(Encoding::Ternary).map_err(|e| source.fault(info, e));
        }
        let head = match self.head {
            _ if of_mtp => {
                let found = info.encoding.float().filter(|float| float.is_writable());
                found.unwrap_or(FloatEncoding::F32)
            }
            TableEncoding::Float(float) => float,
            TableEncoding::Source => info.encoding.float().unwrap_or(FloatEncoding::F32),
        };
        let has_head_type = !info.name.is_float()
            || (self.container == Container::Packed && is_exact(source, info, head)?);
        Ok(Encoding::Float(if has_head_type { head } else { FloatEncoding::F32 }))
    }

    /// Returns every file that is created or replaced by writing to `out`.
    pub fn files(&self, source: &ModelFile, out: &Path) -> Vec<PathBuf> {
        let (directory, mut files) = match self.container {
            Container::Gguf(_) | Container::Wf => return vec![out.to_owned()],
            Container::Packed => (out, packed::NAMES.map(|name| out.join(name)).to_vec()),
            Container::Sglbitnt => (directory_of(out), vec![out.to_owned()]),
        };
        if tokenizer::has_files(source) {
            files.extend(tokenizer::NAMES.map(|name| directory.join(name)));
        }
        if packed::generation_file(source).is_some() {
            files.push(directory.join(packed::GENERATION));
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
            Err(Error::unsupported(out.display(), what))
        };
        if network.layer_kinds().is_none() {
            return rejected("has layers that differ, which no format has keys for");
        }
        let family = WrittenFamily::of(network);
        if let Some(what) = family.misfit(network) {
            return rejected(what);
        }
        let has_config = family.has_config(network);
        match self.container {
            Container::Gguf(_) if !rope::fits_gguf(network) => {
                return rejected(
                    "has YaRN with \"truncate\": false, which GGUF has no key for: use .wf",
                );
            }
            Container::Gguf(_) if network.is_recurrent() && hybrid::period(network).is_none() => {
                return rejected(
                    "has an order of recurrent and other layers that GGUF has no key for: use .wf",
                );
            }
            Container::Gguf(trits) => check_experts(source, trits)?,
            Container::Wf if has_config => {}
            Container::Packed | Container::Sglbitnt if has_config && family.has_packed_trits() => {}
            Container::Wf => return rejected("is written to GGUF only"),
            Container::Packed | Container::Sglbitnt => {
                return rejected(if has_config {
                    "is written to GGUF and .wf only"
                } else {
                    "is written to GGUF only"
                });
            }
        }
        let job = Job { source, target: self, out, plan: self.plan(source)? };
        let copier = Copier::new(source, self, progress);
        match self.container {
            Container::Gguf(trits) => gguf::stage(&job, trits, copier),
            Container::Packed => packed::stage(&job, copier),
            Container::Sglbitnt => sglbitnt::stage(&job, copier),
            Container::Wf => wf::stage(&job, copier),
        }
    }

    /// Writes the model.
    pub fn write(&self, source: &ModelFile, out: &Path) -> Result<(), Error> {
        self.stage(source, out, &mut |_| {})?.commit()
    }
}

/// A model to be written.
struct Job<'a> {
    source: &'a ModelFile,
    target: &'a Target,
    out: &'a Path,
    plan: Vec<PlannedTensor>,
}

impl Job<'_> {
    /// Returns every tensor of the output with the one it is made of.
    fn tensors(&self) -> impl Iterator<Item = (&PlannedTensor, &TensorInfo)> {
        self.plan.iter().map(|planned| (planned, tensor(self.source, planned.name)))
    }
}

/// Returns a tensor of the network; opening the model has found it.
fn tensor(source: &ModelFile, name: TensorName) -> &TensorInfo {
    source.tensor(name).expect("an opened model has every tensor of its network")
}

/// Rejects trits and routers that GGUF files with experts cannot have.
fn check_experts(source: &ModelFile, trits: TernaryEncoding) -> Result<(), Error> {
    let Some(experts) = experts(source.network()) else { return Ok(()) };
    if experts.renormalize != WrittenFamily::of(source.network()).renormalizes() {
        let not = if experts.renormalize { "" } else { "not " };
        let what = format!(
            "shares of active experts that are {not}renormalized, which llama.cpp does not read: use .wf"
        );
        return Err(Error::unsupported(source.name(), what));
    }
    if !matches!(trits.scale_unit(), Some(ScaleUnit::Row | ScaleUnit::Group(_))) {
        let what = format!(
            "{trits} stores one scale for a tensor, and the experts of a layer are one tensor of GGUF: use an \
             encoding with a scale for each row or group, or .wf"
        );
        return Err(Error::unsupported(source.name(), what));
    }
    Ok(())
}

/// Returns the dimensions of a tensor in a file: norms and the gates of shared experts are vectors.
fn dims(info: &TensorInfo) -> Vec<usize> {
    if info.name.is_vector() { vec![info.cols] } else { vec![info.rows, info.cols] }
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
