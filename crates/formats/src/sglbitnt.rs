//! sgl-kernel's `.bin`: a Hugging Face configuration and tensors in one stream, unaligned.
//!
//! ```text
//! "SGLBITNT" | u32 version = 1 | u32 json_len | json (config.json) | u32 tensors
//! tensors × u32 name_len | name | u32 dtype | u32 n_dims | u32 dims[] | u32 has_scale | [f32 scale]
//!           | u64 bytes | data
//! dtype 0 u8 (packed trits)  1 f32  2 f16  3 bf16
//! ```
//!
//! Packed trits are u8 of [out, in / 4] in I2_S order 128. Tokenizer files are looked for beside the
//! file, as in a Hugging Face directory.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

use crate::companions::Companions;
use crate::config;
use crate::config::hugging_face::Evidence;
use crate::config::settings::Settings;
use crate::cursor::Cursor;
use crate::encoding::{FloatEncoding, TernaryEncoding, decode_floats};
use crate::error::{Error, quote_safely};
use crate::hugging_face::{Use, rows_and_cols};
use crate::model_file::{OpenOptions, Parts, SourceFile};
use crate::names::TensorName;
use crate::size;
use crate::summary::{FormatKind, FormatSummary};
use crate::tensor::{Encoding, Stored, StoredTensor};

/// First bytes of the format.
pub(crate) const MAGIC: &[u8] = b"SGLBITNT";

const VERSION: u32 = 1;
const MAX_CONFIG_LEN: u64 = 1024 * 1024;
const MAX_NAME_LEN: u64 = 256;
const MAX_TENSORS: u64 = 65_536;
/// Bytes of the smallest possible record: a name of one byte, one dimension, no scale.
const MIN_RECORD_LEN: u64 = 4 + 1 + 4 + 4 + 4 + 4 + 8;
/// Largest dimension: kernels may hold a dimension in an `i32`.
const MAX_DIM: u32 = i32::MAX as u32;

/// Opens a file.
pub(crate) fn open(path: &Path, source: SourceFile, options: &OpenOptions) -> Result<Parts, Error> {
    let file = source.name.as_str();
    let (settings, records) = read(file, source.bytes.as_slice())?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let companions = Companions::read(directory.unwrap_or(Path::new(".")), settings)?;
    let mut decisions = Vec::new();
    let stored = stored(file, source.bytes.as_slice(), records, &mut decisions)?;
    let evidence = evidence(file, &stored, &companions, options)?;
    let config = config::hugging_face::read(&companions.documents, &evidence, &mut decisions)?;
    let (tensors, extra) = stored.assemble(&[file], &config)?;
    let summary = FormatSummary {
        kind: FormatKind::Sglbitnt,
        version: Some(VERSION),
        files: vec![source.summary()],
        decisions,
    };
    Ok(Parts {
        files: vec![source],
        config,
        tensors,
        extra,
        tokenizer: companions.tokenizer,
        chat_template: companions.chat_template,
        special_tokens: companions.special_tokens,
        summary,
    })
}

/// One tensor record; its data lies inside the file.
#[derive(Debug)]
struct Record {
    name: String,
    /// `None` is u8.
    float: Option<FloatEncoding>,
    rows: usize,
    cols: usize,
    scale: Option<f32>,
    offset: u64,
    size: u64,
}

fn read(file: &str, bytes: &[u8]) -> Result<(Settings, Vec<Record>), Error> {
    let mut cursor = Cursor::new(file, bytes);
    if cursor.take(size::widen(MAGIC.len()), "magic")? != MAGIC {
        return Err(cursor.at(0).fault("magic", "not \"SGLBITNT\""));
    }
    let start = cursor.clone();
    let version = cursor.u32("version")?;
    if version != VERSION {
        return Err(start.fault("version", format!("{version}, allowed is {VERSION}")));
    }
    let json_len = cursor.u32("config length")?;
    let json = cursor.text(json_len.into(), MAX_CONFIG_LEN, "config")?;
    let settings = Settings::parse(file, json.as_bytes())?;
    let start = cursor.clone();
    let tensors = u64::from(cursor.u32("tensor count")?);
    let most = (cursor.remaining() / MIN_RECORD_LEN).min(MAX_TENSORS);
    if tensors > most {
        let what = format!("{tensors} tensors, at most {most} fit in the file");
        return Err(start.fault("tensor count", what));
    }
    let mut records = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensors {
        let start = cursor.clone();
        let record = read_record(&mut cursor)?;
        if !names.insert(record.name.clone()) {
            let what = format!("\"{}\" appears twice", quote_safely(&record.name));
            return Err(start.fault("tensor name", what));
        }
        records.push(record);
    }
    if cursor.remaining() != 0 {
        let what = format!("{} bytes after the last tensor", cursor.remaining());
        return Err(cursor.fault("end of data", what));
    }
    Ok((settings, records))
}

fn read_record(cursor: &mut Cursor<'_>) -> Result<Record, Error> {
    let start = cursor.clone();
    let name_len = cursor.u32("tensor name length")?;
    let name = cursor.text(name_len.into(), MAX_NAME_LEN, "tensor name")?;
    let field = format!("tensor \"{}\"", quote_safely(name));
    let float = match cursor.u32(&field)? {
        0 => None,
        1 => Some(FloatEncoding::F32),
        2 => Some(FloatEncoding::F16),
        3 => Some(FloatEncoding::Bf16),
        other => return Err(start.fault(&field, format!("dtype {other}, allowed 0 to 3"))),
    };
    let n_dims = cursor.u32(&field)?;
    if !(1..=4).contains(&n_dims) {
        return Err(start.fault(&field, format!("{n_dims} dimensions, allowed 1 to 4")));
    }
    let mut dims = Vec::new();
    for _ in 0..n_dims {
        let dim = cursor.u32(&field)?;
        if dim == 0 || dim > MAX_DIM {
            return Err(
                start.fault(&field, format!("a dimension of {dim}, allowed 1 to {MAX_DIM}"))
            );
        }
        dims.push(u64::from(dim));
    }
    let scale = match cursor.u32(&field)? {
        0 => None,
        1 => Some(cursor.f32(&field)?),
        other => return Err(start.fault(&field, format!("has_scale {other}, allowed 0 and 1"))),
    };
    let found = cursor.u64(&field)?;
    let element = match float {
        None => 1,
        Some(FloatEncoding::F32) => 4,
        Some(_) => 2,
    };
    let needed = size::product(&dims).and_then(|elements| size::product(&[elements, element]));
    if needed != Some(found) {
        let needed = needed.map_or("more than any file has".to_owned(), |n| n.to_string());
        let what = format!("{found} bytes of data, {dims:?} takes {needed}");
        return Err(start.fault(&field, what));
    }
    let Some((rows, cols)) = rows_and_cols(&dims) else {
        return Err(start.fault(&field, format!("{n_dims} dimensions, allowed 1 and 2")));
    };
    let offset = cursor.offset();
    cursor.take(found, &field)?;
    Ok(Record { name: name.to_owned(), float, rows, cols, scale, offset, size: found })
}

fn stored(
    file: &str,
    bytes: &[u8],
    records: Vec<Record>,
    decisions: &mut Vec<String>,
) -> Result<Stored, Error> {
    let mut stored = Stored::default();
    let scales = scales_beside(file, bytes, &records)?;
    for record in records {
        let fault = |what: &str| Error::tensor(file, &record.name, record.offset, what);
        let name = match Use::of(&record.name) {
            Use::Network(name) => name,
            Use::Scale(_) => continue,
            Use::Unused => {
                stored.extra.push(record.name);
                continue;
            }
            Use::Unsupported => {
                return Err(Use::refusal(file, &record.name, record.offset));
            }
        };
        if name == TensorName::Output && record.float.is_none() {
            // A head of trits is a poor copy of the embedding, made to save memory traffic.
            decisions.push(format!("{} is packed and not used: the embedding is", record.name));
            stored.extra.push(record.name);
            continue;
        }
        let mut tensor = StoredTensor {
            source_name: record.name.clone(),
            rows: record.rows,
            cols: record.cols,
            encoding: Encoding::Ternary(TernaryEncoding::SglPacked),
            file: 0,
            offset: record.offset,
            size: record.size,
            factor: 1.0,
        };
        if let Some(float) = record.float {
            tensor.encoding = Encoding::Float(float);
        } else {
            // Four columns share a byte.
            let cols = record.cols.checked_mul(4);
            tensor.cols = cols.ok_or_else(|| fault("has too many columns"))?;
            tensor.factor = match record.scale.or_else(|| scales.get(&name).copied()) {
                Some(scale) if scale.is_finite() && scale > 0.0 => scale,
                Some(scale) => {
                    return Err(fault(&format!(
                        "found scale {scale}, it must be positive and finite"
                    )));
                }
                None => return Err(fault("is packed but has no scale")),
            };
        }
        stored.tensors.push((name, tensor));
    }
    Ok(stored)
}

/// Scales that a converter has copied as tensors of their own.
fn scales_beside(
    file: &str,
    bytes: &[u8],
    records: &[Record],
) -> Result<HashMap<TensorName, f32>, Error> {
    let mut scales = HashMap::new();
    for record in records {
        let Use::Scale(name) = Use::of(&record.name) else { continue };
        let fault = |what: String| Error::tensor(file, &record.name, record.offset, what);
        let (Some(float), 1, 1) = (record.float, record.rows, record.cols) else {
            return Err(fault("a scale is one float".to_owned()));
        };
        let mut value = [0.0];
        let bytes = size::slice(bytes, record.offset, record.size).unwrap_or_default();
        decode_floats(float, bytes, &mut value).map_err(|e| fault(e.to_string()))?;
        let [value] = value;
        scales.insert(name, value);
    }
    Ok(scales)
}

fn evidence(
    file: &str,
    stored: &Stored,
    companions: &Companions,
    options: &OpenOptions,
) -> Result<Evidence, Error> {
    let embedding = stored.tensors.iter().find(|(name, _)| *name == TensorName::Embedding);
    let Some((_, embedding)) = embedding else {
        return Err(Error::unsupported(file, "tensor \"model.embed_tokens.weight\" is missing"));
    };
    let has = |wanted: fn(TensorName) -> bool| stored.tensors.iter().any(|(n, _)| wanted(*n));
    Ok(Evidence {
        vocab_len: embedding.rows,
        has_output: has(|name| name == TensorName::Output),
        sub_norms: has(|n| matches!(n, TensorName::Layer(_, t) if t.is_sub_norm())),
        activation: options.activation,
        mask_token: companions.mask_token(),
    })
}

/// Writes the start of a file: configuration and how many tensors follow.
pub(crate) fn write_header<W: Write>(out: &mut W, config: &str, tensors: usize) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&short(config.len())?.to_le_bytes())?;
    out.write_all(config.as_bytes())?;
    out.write_all(&short(tensors)?.to_le_bytes())
}

/// Writes what comes before the data of one tensor. `scale` marks packed trits.
pub(crate) fn write_record<W: Write>(
    out: &mut W,
    name: &str,
    float: Option<FloatEncoding>,
    dims: &[usize],
    scale: Option<f32>,
    data_len: u64,
) -> io::Result<()> {
    let dtype: u32 = match float {
        None => 0,
        Some(FloatEncoding::F32) => 1,
        Some(FloatEncoding::F16) => 2,
        Some(FloatEncoding::Bf16) => 3,
        Some(other) => {
            let what = format!("{name}: SGLBITNT has no type for {other}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
    };
    out.write_all(&short(name.len())?.to_le_bytes())?;
    out.write_all(name.as_bytes())?;
    out.write_all(&dtype.to_le_bytes())?;
    out.write_all(&short(dims.len())?.to_le_bytes())?;
    for &dim in dims {
        out.write_all(&short(dim)?.to_le_bytes())?;
    }
    out.write_all(&u32::from(scale.is_some()).to_le_bytes())?;
    if let Some(scale) = scale {
        out.write_all(&scale.to_le_bytes())?;
    }
    out.write_all(&data_len.to_le_bytes())
}

fn short(len: usize) -> io::Result<u32> {
    let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "longer than 32 bits can say");
    u32::try_from(len).map_err(too_long)
}
