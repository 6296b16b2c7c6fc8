//! Hugging Face checkpoints: `config.json` and one or more safetensors files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde::Deserialize;

use crate::companions::{Companions, read_config, read_limited};
use crate::config;
use crate::config::hugging_face::{Evidence, WeightScheme};
use crate::encoding::{FloatEncoding, TernaryEncoding, decode_floats};
use crate::error::{Error, quote_safely};
use crate::model_file::{OpenOptions, Parts, SourceFile};
use crate::names::{TensorName, layer_and_part};
use crate::safetensors::{self, Dtype, Entry};
use crate::size;
use crate::summary::{FormatKind, FormatSummary};
use crate::tensor::{Encoding, Stored, StoredTensor};
use crate::ternary_floats;

/// Longest list of shards.
const MAX_INDEX_LEN: u64 = 4 * 1024 * 1024;
/// Most shards of a checkpoint.
const MAX_SHARDS: usize = 1024;

/// Opens a checkpoint directory.
pub(crate) fn open_directory(directory: &Path, options: &OpenOptions) -> Result<Parts, Error> {
    let single = directory.join("model.safetensors");
    if single.is_file() {
        return open_files(directory, vec![SourceFile::map(&single)?], options);
    }
    let index_path = directory.join("model.safetensors.index.json");
    let Some(json) = read_limited(&index_path, MAX_INDEX_LEN)? else {
        let what = "a directory without model.safetensors or model.safetensors.index.json (other \
             weight files are not read)";
        return Err(Error::unsupported(&directory.display().to_string(), what));
    };
    let index_name = index_path.display().to_string();
    let index = Index::parse(&index_name, &json)?;
    let mut files = Vec::new();
    for shard in index.shards(&index_name)? {
        files.push(SourceFile::map(&directory.join(shard))?);
    }
    open_files(directory, files, options)
}

/// Opens one safetensors file whose `config.json` lies beside it.
pub(crate) fn open_lone_file(
    path: &Path,
    source: SourceFile,
    options: &OpenOptions,
) -> Result<Parts, Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    open_files(directory.unwrap_or(Path::new(".")), vec![source], options)
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Index {
    fn parse(file: &str, json: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(json).map_err(|e| Error::unsupported(file, e))
    }

    /// The shard names, each once. A name must be a plain file name, so that a checkpoint cannot reach
    /// outside its directory.
    fn shards(&self, file: &str) -> Result<BTreeSet<&str>, Error> {
        let shards: BTreeSet<&str> = self.weight_map.values().map(String::as_str).collect();
        if shards.is_empty() || shards.len() > MAX_SHARDS {
            let what = format!("{} shards, allowed 1 to {MAX_SHARDS}", shards.len());
            return Err(Error::setting(file, "weight_map", what));
        }
        let is_plain = |name: &str| {
            name.ends_with(".safetensors")
                && !name.contains(['/', '\\', ':'])
                && !name.contains(char::is_control)
        };
        match shards.iter().find(|name| !is_plain(name)) {
            None => Ok(shards),
            Some(name) => {
                let what = format!("\"{}\" is no name of a shard", quote_safely(name));
                Err(Error::setting(file, "weight_map", what))
            }
        }
    }
}

fn open_files(
    directory: &Path,
    files: Vec<SourceFile>,
    options: &OpenOptions,
) -> Result<Parts, Error> {
    let companions = Companions::read(directory, read_config(directory)?)?;
    let mut decisions = Vec::new();
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let checkpoint = Checkpoint::read(&files)?;
    let scheme = config::hugging_face::weight_scheme(&companions.documents.config, &mut decisions)?;
    let evidence =
        checkpoint.evidence(names.first().copied().unwrap_or_default(), &companions, options)?;
    let config = config::hugging_face::read(&companions.documents, &evidence, &mut decisions)?;
    let (tensors, extra) = checkpoint.stored(scheme)?.assemble(&names, &config)?;
    let summary = FormatSummary {
        kind: FormatKind::HuggingFace,
        version: None,
        files: files.iter().map(SourceFile::summary).collect(),
        decisions,
    };
    Ok(Parts {
        files,
        config,
        tensors,
        extra,
        tokenizer: companions.tokenizer,
        chat_template: companions.chat_template,
        special_tokens: companions.special_tokens,
        summary,
    })
}

/// What the network does with a tensor of a Hugging Face name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is part of the network.
    Network(TensorName),
    /// It is the scale of a projection.
    Scale(TensorName),
    /// None; it may be left out.
    Unused,
    /// It changes the network in a way we do not compute.
    Unsupported,
}

impl Use {
    pub(crate) fn of(name: &str) -> Self {
        if let Some(name) = TensorName::from_hugging_face(name) {
            return Self::Network(name);
        }
        let scaled = name.strip_suffix("_scale").and_then(TensorName::from_hugging_face);
        if let Some(name) = scaled.filter(|name| name.is_linear()) {
            return Self::Scale(name);
        }
        let in_layer = layer_and_part(name, "model.layers.").is_some();
        let harmless = name.ends_with(".rotary_emb.inv_freq");
        if (in_layer && !harmless) || name.ends_with(".bias") {
            return Self::Unsupported;
        }
        Self::Unused
    }

    /// The error for a tensor that we cannot leave out.
    pub(crate) fn refusal(file: &str, name: &str, offset: u64) -> Error {
        let what = "is no part of this network, which would be another without it";
        Error::tensor(file, name, offset, what)
    }
}

/// All tensors of all files, sorted by what they are for.
struct Checkpoint<'a> {
    files: &'a [SourceFile],
    network: Vec<(TensorName, usize, Entry)>,
    scales: HashMap<TensorName, (usize, Entry)>,
    extra: Vec<String>,
}

impl<'a> Checkpoint<'a> {
    fn read(files: &'a [SourceFile]) -> Result<Self, Error> {
        let mut checkpoint =
            Self { files, network: Vec::new(), scales: HashMap::new(), extra: Vec::new() };
        for (at, file) in files.iter().enumerate() {
            for entry in safetensors::read(&file.name, file.bytes.as_slice())? {
                match Use::of(&entry.name) {
                    Use::Network(name) => checkpoint.network.push((name, at, entry)),
                    Use::Scale(name) => {
                        let offset = entry.offset;
                        let source_name = entry.name.clone();
                        if checkpoint.scales.insert(name, (at, entry)).is_some() {
                            let what = "is in two files";
                            return Err(Error::tensor(&file.name, &source_name, offset, what));
                        }
                    }
                    Use::Unused => checkpoint.extra.push(entry.name),
                    Use::Unsupported => {
                        return Err(Use::refusal(&file.name, &entry.name, entry.offset));
                    }
                }
            }
        }
        Ok(checkpoint)
    }

    fn evidence(
        &self,
        file: &str,
        companions: &Companions,
        options: &OpenOptions,
    ) -> Result<Evidence, Error> {
        let embedding = self.network.iter().find(|(name, _, _)| *name == TensorName::Embedding);
        let rows = embedding.and_then(|(_, _, entry)| usize::try_from(*entry.shape.first()?).ok());
        let Some(vocab_len) = rows else {
            return Err(Error::unsupported(
                file,
                "tensor \"model.embed_tokens.weight\" is missing",
            ));
        };
        let has = |wanted: fn(TensorName) -> bool| self.network.iter().any(|(n, _, _)| wanted(*n));
        Ok(Evidence {
            vocab_len,
            has_output: has(|name| name == TensorName::Output),
            sub_norms: has(|n| matches!(n, TensorName::Layer(_, t) if t.is_sub_norm())),
            activation: options.activation,
            mask_token: companions.mask_token(),
        })
    }

    fn stored(self, scheme: WeightScheme) -> Result<Stored, Error> {
        let mut stored = Stored { tensors: Vec::new(), extra: self.extra };
        let mut scales = Scales { files: self.files, scheme, entries: self.scales };
        for (name, at, entry) in self.network {
            let file = self.files.get(at).map(|file| file.name.as_str()).unwrap_or_default();
            let fault = |what: String| Error::tensor(file, &entry.name, entry.offset, what);
            let Some((mut rows, cols)) = rows_and_cols(&entry.shape) else {
                return Err(fault(format!(
                    "has shape {:?}, the network needs 1 or 2",
                    entry.shape
                )));
            };
            let mut factor = 1.0;
            let encoding = match (name.is_linear(), scheme, float(entry.dtype)) {
                (false, _, Some(float)) => Encoding::Float(float),
                (true, WeightScheme::Online, Some(float)) => Encoding::MasterWeights(float),
                (true, WeightScheme::Multiply, Some(float)) => {
                    let bytes = bytes(self.files, at, &entry);
                    let own = ternary_floats::scale(float, bytes, cols)
                        .map_err(|e| fault(e.to_string()))?;
                    let Some(own) = own else {
                        return Err(fault(format!("is {float} and not ternary, in offline mode")));
                    };
                    factor = own * scales.take(name, file, &entry)?;
                    Encoding::TernaryFloats(float)
                }
                (true, WeightScheme::Multiply | WeightScheme::Divide, None)
                    if entry.dtype == Dtype::U8 =>
                {
                    // Four rows share a byte.
                    rows = rows.checked_mul(4).ok_or_else(|| fault("too many rows".to_owned()))?;
                    factor = scales.take(name, file, &entry)?;
                    Encoding::Ternary(TernaryEncoding::HfPacked)
                }
                _ => {
                    let what =
                        format!("is {:?}, which does not fit {scheme:?} weights", entry.dtype);
                    return Err(fault(what));
                }
            };
            let Entry { name: source_name, offset, size, .. } = entry;
            let tensor =
                StoredTensor { source_name, rows, cols, encoding, file: at, offset, size, factor };
            stored.tensors.push((name, tensor));
        }
        stored.extra.extend(scales.entries.into_values().map(|(_, entry)| entry.name));
        Ok(stored)
    }
}

/// The `weight_scale` tensors, and what the linear class does with them.
struct Scales<'a> {
    files: &'a [SourceFile],
    scheme: WeightScheme,
    entries: HashMap<TensorName, (usize, Entry)>,
}

impl Scales<'_> {
    /// The factor to multiply by.
    fn take(&mut self, name: TensorName, file: &str, weight: &Entry) -> Result<f32, Error> {
        let Some((at, entry)) = self.entries.remove(&name) else {
            let what = format!("has no \"{}_scale\"", quote_safely(&weight.name));
            return Err(Error::tensor(file, &weight.name, weight.offset, what));
        };
        let file = self.files.get(at).map(|file| file.name.as_str()).unwrap_or_default();
        scale_value(file, bytes(self.files, at, &entry), &entry, self.scheme)
    }
}

/// Reads a scale of one element as the factor to multiply by.
fn scale_value(
    file: &str,
    bytes: &[u8],
    entry: &Entry,
    scheme: WeightScheme,
) -> Result<f32, Error> {
    let fault = |what: String| Error::tensor(file, &entry.name, entry.offset, what);
    let Some(float) = float(entry.dtype).filter(|_| size::product(&entry.shape) == Some(1)) else {
        let what = format!("is {:?} of {:?}, a scale is one float", entry.dtype, entry.shape);
        return Err(fault(what));
    };
    let mut value = [0.0f32];
    decode_floats(float, bytes, &mut value).map_err(|e| fault(e.to_string()))?;
    let [value] = value;
    let factor = if scheme == WeightScheme::Divide { 1.0 / value } else { value };
    if factor.is_finite() && factor > 0.0 {
        return Ok(factor);
    }
    Err(fault(format!("found scale {value}, it must be positive and finite")))
}

fn bytes<'a>(files: &'a [SourceFile], at: usize, entry: &Entry) -> &'a [u8] {
    let file = files.get(at).map(|file| file.bytes.as_slice()).unwrap_or_default();
    size::slice(file, entry.offset, entry.size).unwrap_or_default()
}

fn float(dtype: Dtype) -> Option<FloatEncoding> {
    match dtype {
        Dtype::F32 => Some(FloatEncoding::F32),
        Dtype::F16 => Some(FloatEncoding::F16),
        Dtype::Bf16 => Some(FloatEncoding::Bf16),
        Dtype::U8 | Dtype::Other(_) => None,
    }
}

/// Rows and columns; one dimension is one row.
pub(crate) fn rows_and_cols(shape: &[u64]) -> Option<(usize, usize)> {
    let (rows, cols) = match *shape {
        [cols] => (1, cols),
        [rows, cols] => (rows, cols),
        _ => return None,
    };
    Some((usize::try_from(rows).ok()?, usize::try_from(cols).ok()?))
}
