//! Named arrays and a `config.json` → a network: what safetensors and SGLBITNT have in common.
//!
//! Their readers list what lies where. Here each array gets its place in the network, projections get
//! their encoding and their scale, and what would change the network unseen is refused.

use std::collections::HashMap;

use crate::companions::Companions;
use crate::config::hugging_face::WeightScheme;
use crate::config::{self, Evidence};
use crate::encoding::{FloatEncoding, TernaryEncoding, decode_floats};
use crate::error::{Error, quote_safely};
use crate::model_file::{OpenOptions, Parts, SourceFile, name_of};
use crate::names::{TensorName, layer_and_part};
use crate::size;
use crate::summary::{FormatKind, FormatSummary};
use crate::tensor::{Encoding, Stored, TensorInfo};
use crate::ternary_floats;

/// Types of array elements that we can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dtype {
    F32,
    F16,
    Bf16,
    U8,
    /// One that no tensor of the network has; its bytes an element.
    Other(u64),
}

impl Dtype {
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::Other(size) => size,
        }
    }

    fn float(self) -> Option<FloatEncoding> {
        match self {
            Self::F32 => Some(FloatEncoding::F32),
            Self::F16 => Some(FloatEncoding::F16),
            Self::Bf16 => Some(FloatEncoding::Bf16),
            Self::U8 | Self::Other(_) => None,
        }
    }
}

/// One array, inside its file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    /// Which of the checkpoint's files holds it.
    pub(crate) file: usize,
    /// From the start of the file.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// A scale stored with it, which only SGLBITNT has.
    pub(crate) scale: Option<f32>,
}

/// A checkpoint whose files are read, but not yet understood.
pub(crate) struct Checkpoint {
    pub(crate) kind: FormatKind,
    pub(crate) version: Option<u32>,
    pub(crate) files: Vec<SourceFile>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) scheme: WeightScheme,
    pub(crate) companions: Companions,
    pub(crate) decisions: Vec<String>,
}

impl Checkpoint {
    pub(crate) fn open(self, options: &OpenOptions) -> Result<Parts, Error> {
        let Self { kind, version, files, entries, scheme, companions, mut decisions } = self;
        let group_len = options.group_len;
        let stored = Reader { files: &files, scheme, group_len }.stored(entries, &mut decisions)?;
        let tensors = stored.tensors.iter().map(|t| (t.name, t.rows));
        let Some(evidence) = Evidence::of(tensors, options.activation) else {
            let what = "tensor \"model.embed_tokens.weight\" is missing";
            return Err(Error::unsupported(name_of(&files, 0), what));
        };
        let config = config::hugging_face::read(&companions, &evidence, &mut decisions)?;
        let stored = stored.fit(&files, &config)?;
        let summary = FormatSummary::new(kind, version, &files, decisions);
        Ok(Parts { files, config, stored, text: companions.text, summary })
    }
}

/// What the network does with an array.
enum Use {
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
    fn of(name: &str) -> Self {
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
}

/// Turns entries into tensors of a known encoding.
struct Reader<'a> {
    files: &'a [SourceFile],
    scheme: WeightScheme,
    group_len: Option<usize>,
}

impl Reader<'_> {
    fn stored(&self, entries: Vec<Entry>, decisions: &mut Vec<String>) -> Result<Stored, Error> {
        let mut stored = Stored::default();
        let mut network = Vec::new();
        let mut scales = HashMap::new();
        for entry in entries {
            match Use::of(&entry.name) {
                Use::Network(TensorName::Output) if self.is_packed_head(&entry) => {
                    // A head of trits is a poor copy of the embedding, made to save memory traffic.
                    let name = &entry.name;
                    decisions.push(format!("{name} is packed and not used: the embedding is"));
                    stored.extra.push(entry.name);
                }
                Use::Network(name) => network.push((name, entry)),
                Use::Scale(name) => {
                    if let Some(entry) = scales.insert(name, entry) {
                        return Err(self.fault(&entry, "is in two files"));
                    }
                }
                Use::Unused => stored.extra.push(entry.name),
                Use::Unsupported => {
                    let what = "is no part of this network, which would be another without it";
                    return Err(self.fault(&entry, what));
                }
            }
        }
        for (name, entry) in network {
            stored.tensors.push(self.tensor(name, entry, &mut scales)?);
        }
        stored.extra.extend(scales.into_values().map(|entry| entry.name));
        Ok(stored)
    }

    fn is_packed_head(&self, entry: &Entry) -> bool {
        self.scheme == WeightScheme::PackedColumns && entry.dtype == Dtype::U8
    }

    fn tensor(
        &self,
        name: TensorName,
        entry: Entry,
        scales: &mut HashMap<TensorName, Entry>,
    ) -> Result<TensorInfo, Error> {
        let Some((mut rows, mut cols)) = rows_and_cols(&entry.shape) else {
            let what = format!("has shape {:?}, the network needs 1 or 2 dimensions", entry.shape);
            return Err(self.fault(&entry, what));
        };
        let too_many = || self.fault(&entry, "is larger than any file");
        let mut factor = 1.0;
        let encoding = match (name.is_linear(), self.scheme, entry.dtype.float(), entry.dtype) {
            (false, _, Some(float), _) => Encoding::Float(float),
            (true, WeightScheme::Online, Some(float), _) => Encoding::MasterWeights(float),
            (true, WeightScheme::Multiply, Some(float), _) => {
                let own = ternary_floats::scale(float, self.bytes(&entry), cols)
                    .map_err(|e| self.fault(&entry, e))?;
                let Some(own) = own else {
                    let what = format!("is {float} and not ternary, in offline mode");
                    return Err(self.fault(&entry, what));
                };
                factor = own * self.factor(&entry, name, scales)?;
                Encoding::TernaryFloats(float)
            }
            (true, WeightScheme::Multiply | WeightScheme::Divide, _, Dtype::U8) => {
                // Four rows share a byte.
                rows = rows.checked_mul(4).ok_or_else(too_many)?;
                factor = self.factor(&entry, name, scales)?;
                Encoding::Ternary(TernaryEncoding::HfPacked)
            }
            (true, WeightScheme::PackedColumns, _, Dtype::U8) => {
                // Four columns share a byte.
                cols = cols.checked_mul(4).ok_or_else(too_many)?;
                factor = self.factor(&entry, name, scales)?;
                Encoding::Ternary(TernaryEncoding::SglPacked)
            }
            _ => {
                let (found, scheme) = (entry.dtype, self.scheme);
                let what = format!("is {found:?}, which does not fit {scheme:?} weights");
                return Err(self.fault(&entry, what));
            }
        };
        let Entry { name: source_name, file, offset, size, .. } = entry;
        let group_len = self.group_len;
        Ok(TensorInfo {
            name,
            source_name,
            rows,
            cols,
            encoding,
            offset,
            size,
            file,
            factor,
            group_len,
            checksum: None,
        })
    }

    /// What the trits of `weight` are to be multiplied by: the scale stored with them, or beside them.
    fn factor(
        &self,
        weight: &Entry,
        name: TensorName,
        scales: &mut HashMap<TensorName, Entry>,
    ) -> Result<f32, Error> {
        let beside = if weight.scale.is_none() { scales.remove(&name) } else { None };
        let (place, value) = match (weight.scale, &beside) {
            (Some(scale), _) => (weight, scale),
            (None, Some(beside)) => (beside, self.one_float(beside)?),
            (None, None) => {
                let packed = if weight.dtype == Dtype::U8 { "is packed but " } else { "" };
                let what = format!("{packed}has no scale \"{}_scale\"", quote_safely(&weight.name));
                return Err(self.fault(weight, what));
            }
        };
        let factor = if self.scheme == WeightScheme::Divide { 1.0 / value } else { value };
        if factor.is_finite() && factor > 0.0 {
            return Ok(factor);
        }
        Err(self.fault(place, format!("found scale {value}, it must be positive and finite")))
    }

    fn one_float(&self, entry: &Entry) -> Result<f32, Error> {
        let float = entry.dtype.float().filter(|_| size::product(&entry.shape) == Some(1));
        let Some(float) = float else {
            let what = format!("is {:?} of {:?}, a scale is one float", entry.dtype, entry.shape);
            return Err(self.fault(entry, what));
        };
        let mut value = [0.0];
        decode_floats(float, self.bytes(entry), &mut value).map_err(|e| self.fault(entry, e))?;
        let [value] = value;
        Ok(value)
    }

    fn bytes(&self, entry: &Entry) -> &[u8] {
        let file = self.files.get(entry.file).map(|file| file.bytes.as_slice());
        size::slice(file.unwrap_or_default(), entry.offset, entry.size).unwrap_or_default()
    }

    fn fault(&self, entry: &Entry, what: impl std::fmt::Display) -> Error {
        Error::tensor(name_of(self.files, entry.file), &entry.name, entry.offset, what)
    }
}

/// Rows and columns; one dimension is one row.
fn rows_and_cols(shape: &[u64]) -> Option<(usize, usize)> {
    let (rows, cols) = match *shape {
        [cols] => (1, cols),
        [rows, cols] => (rows, cols),
        _ => return None,
    };
    Some((usize::try_from(rows).ok()?, usize::try_from(cols).ok()?))
}
