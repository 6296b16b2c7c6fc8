//! sgl-kernel's `.bin`: a Hugging Face configuration and tensors in one stream, unaligned.
//!
//! ```text
//! "SGLBITNT" | u32 version = 1 | u32 json_len | json (config.json) | u32 tensors
//! tensors × u32 name_len | name | u32 dtype | u32 n_dims | u32 dims[] | u32 has_scale | [f32 scale]
//!           | u64 bytes | data
//! dtype 0 u8 (packed trits)  1 f32  2 f16  3 bf16
//! ```
//!
//! Packed trits are u8 of [out, in / 4] in I2_S order 128. Tokenizer files are beside the file, as in
//! a Hugging Face directory.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use crate::checkpoint::{Checkpoint, Dtype, Entry};
use crate::companions::{Companions, directory_of};
use crate::config::hugging_face::WeightScheme;
use crate::config::settings::Settings;
use crate::cursor::Cursor;
use crate::encoding::FloatEncoding;
use crate::error::{Error, invalid, quote_safely};
use crate::map::SourceFile;
use crate::parts::{FormatKind, OpenOptions, Parts};
use crate::size;

/// First bytes of the format.
pub(crate) const MAGIC: &[u8] = b"SGLBITNT";

const VERSION: u32 = 1;
const MAX_CONFIG_LEN: u64 = 1024 * 1024;
const MAX_NAME_LEN: u64 = 256;
const MAX_TENSORS: u64 = 65_536;
/// Size of the smallest possible record: a name of one byte, one dimension, no scale.
const MIN_RECORD_LEN: u64 = 4 + 1 + 4 + 4 + 4 + 4 + 8;
/// Largest dimension: kernels may hold a dimension in an `i32`.
const MAX_DIM: u32 = i32::MAX as u32;

/// Numbers of the float types.
const FLOATS: [(u32, FloatEncoding); 3] =
    [(1, FloatEncoding::F32), (2, FloatEncoding::F16), (3, FloatEncoding::BF16)];

pub(crate) fn open(path: &Path, source: SourceFile, options: &OpenOptions) -> Result<Parts, Error> {
    let (settings, entries) = read(&source.name, source.bytes())?;
    Checkpoint {
        kind: FormatKind::Sglbitnt,
        version: Some(VERSION),
        files: vec![source],
        entries,
        scheme: WeightScheme::PackedColumns,
        companions: Companions::read(directory_of(path), settings)?,
        decisions: Vec::new(),
    }
    .open(options)
}

fn read(file: &str, bytes: &[u8]) -> Result<(Settings, Vec<Entry>), Error> {
    let mut cursor = Cursor::new(file, bytes);
    if cursor.take(size::widen(MAGIC.len()), "magic")? != MAGIC {
        return Err(cursor.at(0).fault("magic", "not \"SGLBITNT\""));
    }
    let start = cursor.clone();
    let version = cursor.u32("version")?;
    if version != VERSION {
        return Err(start.fault("version", format!("{version}, must be {VERSION}")));
    }
    let json_len = cursor.u32("config length")?;
    let json = cursor.text(json_len.into(), MAX_CONFIG_LEN, "config")?;
    let settings = Settings::parse(file, json.as_bytes())?;
    let start = cursor.clone();
    let tensors = u64::from(cursor.u32("tensor count")?);
    let max = (cursor.remaining() / MIN_RECORD_LEN).min(MAX_TENSORS);
    if tensors > max {
        let what = format!("{tensors} tensors, at most {max} fit in the file");
        return Err(start.fault("tensor count", what));
    }
    let mut entries = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensors {
        let start = cursor.clone();
        let entry = read_record(&mut cursor)?;
        if !names.insert(entry.name.clone()) {
            let what = format!("\"{}\" appears twice", quote_safely(&entry.name));
            return Err(start.fault("tensor name", what));
        }
        entries.push(entry);
    }
    if cursor.remaining() != 0 {
        let what = format!("{} bytes after the last tensor", cursor.remaining());
        return Err(cursor.fault("end of data", what));
    }
    Ok((settings, entries))
}

fn read_record(cursor: &mut Cursor<'_>) -> Result<Entry, Error> {
    let start = cursor.clone();
    let name_len = cursor.u32("tensor name length")?;
    let name = cursor.text(name_len.into(), MAX_NAME_LEN, "tensor name")?;
    let field = format!("tensor \"{}\"", quote_safely(name));
    let dtype = match cursor.u32(&field)? {
        0 => Dtype::U8,
        other => match FLOATS.iter().find(|(id, _)| *id == other) {
            Some((_, float)) => Dtype::Float(*float),
            None => {
                let what = format!("dtype {other}, must be between 0 and 3");
                return Err(start.fault(&field, what));
            }
        },
    };
    let n_dims = cursor.u32(&field)?;
    if !(1..=4).contains(&n_dims) {
        return Err(start.fault(&field, format!("{n_dims} dimensions, must be between 1 and 4")));
    }
    let mut shape = Vec::new();
    for _ in 0..n_dims {
        let dim = cursor.u32(&field)?;
        if dim == 0 || dim > MAX_DIM {
            return Err(start
                .fault(&field, format!("a dimension of {dim}, must be between 1 and {MAX_DIM}")));
        }
        shape.push(u64::from(dim));
    }
    let scale = match cursor.u32(&field)? {
        0 => None,
        1 => Some(cursor.f32(&field)?),
        other => return Err(start.fault(&field, format!("has_scale {other}, must be 0 or 1"))),
    };
    let size = cursor.u64(&field)?;
    let elements = size::product(&shape);
    let needed = elements.and_then(|elements| size::product(&[elements, dtype.size()]));
    if needed != Some(size) {
        let needed = needed.map_or("more than 2^64".to_owned(), |n| n.to_string());
        let what = format!("{size} bytes of data, shape {shape:?} takes {needed}");
        return Err(start.fault(&field, what));
    }
    let offset = cursor.offset();
    cursor.take(size, &field)?;
    Ok(Entry { name: name.to_owned(), dtype, shape, file: 0, offset, size, scale })
}

/// Writes the start of a file: the configuration and the number of tensors.
pub(crate) fn write_header<W: Write>(out: &mut W, config: &str, tensors: usize) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&short(config.len())?.to_le_bytes())?;
    out.write_all(config.as_bytes())?;
    out.write_all(&short(tensors)?.to_le_bytes())
}

/// Writes the record before the data of one tensor. A tensor without `float` is packed trits.
pub(crate) fn write_record<W: Write>(
    out: &mut W,
    name: &str,
    float: Option<FloatEncoding>,
    dims: &[usize],
    scale: Option<f32>,
    data_len: u64,
) -> io::Result<()> {
    let known = FLOATS.iter().find(|(_, known)| Some(*known) == float);
    let dtype = match (float, known) {
        (None, _) => 0,
        (_, Some((id, _))) => *id,
        _ => return Err(invalid(format!("{name}: SGLBITNT has no type for blocks"))),
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
    u32::try_from(len).map_err(|_| invalid(format!("length {len} does not fit in 32 bits")))
}
