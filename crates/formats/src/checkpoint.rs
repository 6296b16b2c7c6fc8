//! Named arrays and a `config.json` → a model: the common part of safetensors and SGLBITNT.
//!
//! The readers of both formats list the arrays. Here each array becomes a tensor of the network,
//! projections get their encoding and scale, and arrays that would change the network are rejected.

use std::collections::HashMap;

use crate::companions::Companions;
use crate::config;
use crate::config::NAIVE_HINT;
use crate::config::hugging_face::WeightScheme;
use crate::encoding::absmean::FloatTrits;
use crate::encoding::{FloatEncoding, TernaryEncoding, decode_floats};
use crate::error::{Error, quote_safely};
use crate::families::{Evidence, Family, mtp};
use crate::map::{SourceFile, name_of};
use crate::names::{TensorName, layer_and_part};
use crate::parts::{FormatKind, FormatSummary, OpenOptions, Parts};
use crate::size;
use crate::tensor::{Encoding, Stored, TensorInfo};

/// Element type of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dtype {
    Float(FloatEncoding),
    U8,
    /// A type that no tensor of the network has, with its size in bytes.
    Other(u64),
}

impl Dtype {
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::Float(float) => float.block_bytes(),
            Self::Other(size) => size,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Float(float) => float.name(),
            Self::U8 => "U8",
            Self::Other(_) => "neither float nor U8",
        }
    }

    fn float(self) -> Option<FloatEncoding> {
        if let Self::Float(float) = self { Some(float) } else { None }
    }
}

/// One array of a file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    /// Index of the checkpoint's file that holds it.
    pub(crate) file: usize,
    /// From the start of the file.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// Scale stored with the array, in SGLBITNT only.
    pub(crate) scale: Option<f32>,
}

/// A checkpoint whose arrays are listed, but not yet matched with a network.
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
        let Self { kind, version, files, entries, scheme, mut companions, mut decisions } = self;
        let group_len = options.group_len;
        let family = Family::of_config(&companions.config)?;
        companions.config = family.text_settings(companions.config)?;
        let layers = companions.config.optional_size("num_hidden_layers")?.unwrap_or(usize::MAX);
        let has_mtp_tables = entries.iter().any(|entry| mtp::is_table(&entry.name));
        let reader = Reader { files: &files, family, scheme, group_len, layers };
        let stored = reader.stored(entries, &mut decisions)?;
        if scheme == WeightScheme::Exact {
            decisions.push("weights are exactly ternary: found in the floats".to_owned());
        }
        let tensors = stored.tensors.iter().map(|t| (t.name, t.rows));
        let mut evidence = Evidence::of(name_of(&files, 0), "model.embed_tokens.weight", tensors)?;
        evidence.runs_as_floats = scheme == WeightScheme::Exact;
        evidence.has_mtp_tables = has_mtp_tables;
        let activation = options.activation;
        let config =
            config::hugging_face::read(&companions, &evidence, activation, &mut decisions)?;
        let summary = FormatSummary::new(kind, version, decisions);
        Ok(Parts { files, config, stored, text: companions.text, summary })
    }
}

/// Turns entries into tensors of a known encoding.
struct Reader<'a> {
    files: &'a [SourceFile],
    family: &'static Family,
    scheme: WeightScheme,
    group_len: Option<usize>,
    /// Number of layers that the configuration names.
    layers: usize,
}

impl Reader<'_> {
    fn stored(&self, entries: Vec<Entry>, decisions: &mut Vec<String>) -> Result<Stored, Error> {
        let mut stored = Stored::default();
        let mut network = Vec::new();
        let mut scales = HashMap::new();
        for entry in entries {
            let of_network = |name: &str| self.family.hugging_face_tensor(name, self.layers);
            if let Some(name) = of_network(&entry.name) {
                if name == TensorName::Output && self.is_packed_head(&entry) {
                    // A head of trits is an approximation of the embedding, made to save bandwidth.
                    let why = "is packed and not used: the embedding serves as output head";
                    decisions.push(format!("{} {why}", entry.name));
                    stored.extra.push(entry.name);
                } else {
                    network.push((name, entry));
                }
                continue;
            }
            let scaled = entry.name.strip_suffix("_scale").and_then(of_network);
            if let Some(name) = scaled.filter(|name| name.is_linear()) {
                if let Some(entry) = scales.insert(name, entry) {
                    return Err(self.fault(&entry, "is in two files"));
                }
                continue;
            }
            if let Some(note) = self.family.skipped_note(&entry.name) {
                if !decisions.iter().any(|known| known == note) {
                    decisions.push(note.to_owned());
                }
                stored.extra.push(entry.name);
                continue;
            }
            let in_layer = layer_and_part(&entry.name, "model.layers.").is_some();
            let harmless = entry.name.ends_with(".rotary_emb.inv_freq");
            if (in_layer && !harmless) || entry.name.ends_with(".bias") {
                let what = "is not a tensor of this network: its computation is not supported";
                return Err(self.fault(&entry, what));
            }
            stored.extra.push(entry.name);
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
            let what = format!(
                "has shape {:?}, must have 1 or 2 dimensions, or 3 of which the second is 1",
                entry.shape
            );
            return Err(self.fault(&entry, what));
        };
        let too_many = || self.fault(&entry, "is too large");
        let mut factor = 1.0;
        let mut parts = None;
        let encoding = match (name.is_linear(), self.scheme, entry.dtype.float(), entry.dtype) {
            (_, WeightScheme::Exact, Some(float), _) if !name.is_float() => {
                parts = self.float_trits(name, &entry, float, cols)?;
                Encoding::Float(float)
            }
            (false, _, Some(float), _) => Encoding::Float(float),
            (true, WeightScheme::Online, Some(float), _) => Encoding::MasterWeights(float),
            (true, WeightScheme::Multiply, Some(float), _) => {
                let found = FloatTrits::find(float, self.bytes(&entry), cols);
                let Ok(found) = found.map_err(|e| self.fault(&entry, e))? else {
                    let what = format!(
                        "is {float} and not ternary, which quantization_mode offline requires"
                    );
                    return Err(self.fault(&entry, what));
                };
                parts = Some((float, found));
                factor = self.factor(&entry, name, scales)?;
                Encoding::Float(float)
            }
            (true, WeightScheme::Multiply | WeightScheme::Divide, _, Dtype::U8) => {
                // Four rows share a byte.
                rows = rows.checked_mul(4).ok_or_else(too_many)?;
                factor = self.factor(&entry, name, scales)?;
                Encoding::Ternary(TernaryEncoding::HF_PACKED)
            }
            (true, WeightScheme::PackedColumns, _, Dtype::U8) => {
                // Four columns share a byte.
                cols = cols.checked_mul(4).ok_or_else(too_many)?;
                factor = self.factor(&entry, name, scales)?;
                Encoding::Ternary(TernaryEncoding::SGL_PACKED)
            }
            (true, WeightScheme::Exact, None, _) => {
                let (found, advice) = (entry.dtype.name(), self.family.unquantized);
                let what =
                    format!("has type {found}, and quantization_config is missing: {advice}");
                return Err(self.fault(&entry, what));
            }
            _ => {
                let (found, scheme) = (entry.dtype.name(), self.scheme);
                let what = format!("has type {found}, which {scheme:?} weights do not allow");
                return Err(self.fault(&entry, what));
            }
        };
        let Entry { name: source_name, file, offset, size, .. } = entry;
        let info = TensorInfo::new(name, source_name, (rows, cols), encoding, offset, size);
        let change = self.family.float_change(name);
        let mut info = TensorInfo { file, factor, change, group_len: self.group_len, ..info };
        if let Some((float, parts)) = parts {
            info.set_float_trits(float, parts);
        }
        Ok(info)
    }

    /// Looks for trits in the floats of a checkpoint that does not say how they are quantized. A table
    /// without trits is one of floats; a projection without any is an error.
    fn float_trits(
        &self,
        name: TensorName,
        entry: &Entry,
        float: FloatEncoding,
        cols: usize,
    ) -> Result<Option<(FloatEncoding, FloatTrits)>, Error> {
        let found = FloatTrits::find(float, self.bytes(entry), cols);
        match found.map_err(|e| self.fault(entry, e))? {
            Ok(parts) => Ok(Some((float, parts))),
            Err(_) if !name.is_linear() => Ok(None),
            // A prediction head in floats is not used.
            Err(_) if name.layer() == Some(self.layers) => Ok(None),
            Err(row) => {
                let what = format!(
                    "is {float} and not ternary, neither by tensor nor by row or group (row {row} has \
                     several magnitudes besides 0), and quantization_config is missing: {}; {NAIVE_HINT}",
                    self.family.unquantized
                );
                Err(self.fault(entry, what))
            }
        }
    }

    /// Returns the factor of a projection's trits: the scale stored with them, or beside them.
    fn factor(
        &self,
        weight: &Entry,
        name: TensorName,
        scales: &mut HashMap<TensorName, Entry>,
    ) -> Result<f32, Error> {
        let beside = if weight.scale.is_none() { scales.remove(&name) } else { None };
        let (owner, value) = match (weight.scale, &beside) {
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
        Err(self.fault(owner, format!("scale is {value}: must be positive and finite")))
    }

    fn one_float(&self, entry: &Entry) -> Result<f32, Error> {
        let float = entry.dtype.float().filter(|_| size::product(&entry.shape) == Some(1));
        let Some(float) = float else {
            let what = format!(
                "is {} of shape {:?}, a scale must be one float",
                entry.dtype.name(),
                entry.shape
            );
            return Err(self.fault(entry, what));
        };
        let mut value = [0.0];
        decode_floats(float, self.bytes(entry), &mut value).map_err(|e| self.fault(entry, e))?;
        let [value] = value;
        Ok(value)
    }

    fn bytes(&self, entry: &Entry) -> &[u8] {
        let file = self.files.get(entry.file).map(|file| file.bytes());
        size::slice(file.unwrap_or_default(), entry.offset, entry.size).unwrap_or_default()
    }

    fn fault(&self, entry: &Entry, what: impl std::fmt::Display) -> Error {
        Error::tensor(name_of(self.files, entry.file), &entry.name, entry.offset, what)
    }
}

/// Returns rows and columns; one dimension is one row. Convolutions have a second dimension of 1.
fn rows_and_cols(shape: &[u64]) -> Option<(usize, usize)> {
    let (rows, cols) = match *shape {
        [cols] => (1, cols),
        [rows, cols] | [rows, 1, cols] => (rows, cols),
        _ => return None,
    };
    Some((usize::try_from(rows).ok()?, usize::try_from(cols).ok()?))
}
