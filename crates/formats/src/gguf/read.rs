//! The structure of a GGUF file: header, metadata, tensor records.
//!
//! ```text
//! "GGUF" | u32 version | u64 tensors | u64 keys
//! keys ×    u64 len, key | u32 type | value
//! tensors × u64 len, name | u32 n_dims | u64 dims[n_dims] | u32 type | u64 offset
//! padding to the alignment | tensor data, each padded to the alignment
//! ```
//!
//! Dimensions are stored fastest first and converted to rows and columns.

use std::collections::HashSet;

use super::types::{self, Space};
use super::value::Metadata;
use crate::config::settings::Settings;
use crate::cursor::Cursor;
use crate::error::{Error, quote_safely};
use crate::size;
use crate::tensor::Encoding;

const MAX_NAME_LEN: u64 = 256;
/// Maximum number of tensors. A model of thirty layers has about 330.
const MAX_TENSORS: u64 = 65_536;
const MIN_RECORD_LEN: u64 = 8 + 1 + 4 + 8 + 4 + 8;
/// Alignment of a file without the key.
const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_ALIGNMENT: u64 = 4096;
/// Maximum dimension: kernels may store a dimension in an `i32`.
const MAX_DIM: u64 = i32::MAX as u64;

/// The structure of a file, whose offsets have been validated.
#[derive(Debug)]
pub(crate) struct Gguf<'a> {
    pub(crate) version: u32,
    pub(crate) metadata: Metadata<'a>,
    pub(crate) tensors: Vec<Record>,
}

/// One tensor record.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) name: String,
    /// Rows of all matrices together.
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Number of matrices that follow each other: the product of the third and fourth dimension.
    pub(crate) matrices: usize,
    pub(crate) type_id: u32,
    /// Offset from the start of the file.
    pub(crate) offset: u64,
    pub(crate) space: Space,
}

impl Record {
    /// Returns the size of the tensor, after checking that it fits into its space.
    pub(crate) fn size(&self, file: &str, encoding: Encoding) -> Result<u64, Error> {
        let fault = |what: String| Error::tensor(file, &self.name, self.offset, what);
        let size = encoding.size(self.rows, self.cols).map_err(|e| fault(e.to_string()))?;
        if size <= self.space.bytes {
            return Ok(size);
        }
        Err(fault(format!(
            "takes {size} bytes, {} more than there are before {}",
            size.saturating_sub(self.space.bytes),
            if self.space.last { "the end of the file" } else { "the next tensor" }
        )))
    }

    /// Returns the number of weights; `read` has checked that it fits.
    pub(crate) fn weights(&self) -> u64 {
        size::widen(self.rows).saturating_mul(size::widen(self.cols))
    }
}

impl<'a> Gguf<'a> {
    pub(crate) fn read(file: &'a str, bytes: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(file, bytes);
        let version = read_version(&mut cursor)?;
        let tensors = cursor.u64("tensor count")?;
        let keys = cursor.u64("metadata count")?;
        let max = (cursor.remaining() / MIN_RECORD_LEN).min(MAX_TENSORS);
        if tensors > max {
            let what = format!("{tensors} tensors, at most {max} fit in the file");
            return Err(cursor.fault("tensor count", what));
        }
        let metadata = Metadata::read(&mut cursor, keys)?;
        let alignment = read_alignment(&metadata.settings)?;
        let mut records = Vec::new();
        let mut names = HashSet::new();
        for _ in 0..tensors {
            let start = cursor.clone();
            let record = read_record(&mut cursor, alignment)?;
            if !names.insert(record.name.clone()) {
                let what = format!("\"{}\" appears twice", quote_safely(&record.name));
                return Err(start.fault("tensor name", what));
            }
            records.push(record);
        }
        locate(&cursor, bytes, alignment, &mut records)?;
        // Ambiguous types are checked when they have been decided.
        for record in &records {
            if let Some(encoding) = types::unambiguous(record.type_id) {
                record.size(file, encoding)?;
            }
        }
        Ok(Self { version, metadata, tensors: records })
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, Error> {
    let start = cursor.clone();
    let magic = cursor.take(4, "magic")?;
    if magic != b"GGUF" {
        return Err(start.fault("magic", "not \"GGUF\""));
    }
    let start = cursor.clone();
    let version = cursor.u32("version")?;
    match version {
        2 | 3 => Ok(version),
        1 => Err(start.fault("version", "1, whose lengths are 32 bits wide; allowed are 2 and 3")),
        _ if matches!(version.swap_bytes(), 1..=3) => {
            Err(start.fault("version", "a big-endian file; only little-endian files are supported"))
        }
        _ => Err(start.fault("version", format!("{version}, allowed are 2 and 3"))),
    }
}

fn read_alignment(settings: &Settings) -> Result<u64, Error> {
    let key = "general.alignment";
    let alignment = settings.u32(key)?.map_or(DEFAULT_ALIGNMENT, u64::from);
    if alignment.is_power_of_two() && alignment <= MAX_ALIGNMENT {
        return Ok(alignment);
    }
    let what = format!("{alignment}, allowed are powers of two from 1 to {MAX_ALIGNMENT}");
    Err(settings.fault(key, what))
}

/// Reads one record. Its offset is relative to the data, and its space is not yet known.
fn read_record(cursor: &mut Cursor<'_>, alignment: u64) -> Result<Record, Error> {
    let start = cursor.clone();
    let name_len = cursor.u64("tensor name length")?;
    let name = cursor.text(name_len, MAX_NAME_LEN, "tensor name")?;
    let field = format!("tensor \"{}\"", quote_safely(name));
    let n_dims = cursor.u32(&field)?;
    if !(1..=4).contains(&n_dims) {
        return Err(start.fault(&field, format!("{n_dims} dimensions, allowed 1 to 4")));
    }
    let mut dims = [1u64; 4];
    for dim in dims.iter_mut().take(n_dims as usize) {
        *dim = cursor.u64(&field)?;
        if *dim == 0 || *dim > MAX_DIM {
            return Err(
                start.fault(&field, format!("a dimension of {dim}, allowed 1 to {MAX_DIM}"))
            );
        }
    }
    let [cols, outer @ ..] = dims;
    let rows = size::product(&outer).filter(|&rows| rows <= MAX_DIM);
    let weights = size::product(&dims);
    let (Some(rows), Some(_)) = (rows, weights) else {
        return Err(start.fault(&field, format!("dimensions {dims:?} are larger than any file")));
    };
    let type_id = cursor.u32(&field)?;
    let offset = cursor.u64(&field)?;
    if !offset.is_multiple_of(alignment) {
        let what = format!("data offset {offset} is not a multiple of the alignment {alignment}");
        return Err(start.fault(&field, what));
    }
    // Both are at most i32::MAX.
    let (rows, cols) = (rows as usize, cols as usize);
    let [_, _, third, fourth] = dims;
    let matrices = third.saturating_mul(fourth) as usize;
    let space = Space { bytes: 0, last: false, alignment };
    Ok(Record { name: name.to_owned(), rows, cols, matrices, type_id, offset, space })
}

/// Makes offsets relative to the file, and determines the space of each tensor.
fn locate(
    cursor: &Cursor<'_>,
    bytes: &[u8],
    alignment: u64,
    records: &mut [Record],
) -> Result<(), Error> {
    let file_len = size::widen(bytes.len());
    let Some(data_start) = size::align_up(cursor.offset(), alignment) else {
        return Err(cursor.fault("tensor data", "starts past any file"));
    };
    for record in records.iter_mut() {
        let offset = data_start.checked_add(record.offset).filter(|&offset| offset <= file_len);
        let Some(offset) = offset else {
            let field = format!("tensor \"{}\"", quote_safely(&record.name));
            let what = format!(
                "data offset {} lies past the end of the file ({file_len} bytes)",
                record.offset
            );
            return Err(cursor.fault(&field, what));
        };
        record.offset = offset;
    }
    let mut starts: Vec<u64> = records.iter().map(|record| record.offset).collect();
    starts.sort_unstable();
    for record in records {
        // Every tensor has bytes, so two at one offset overlap. With distinct offsets, a tensor that fits
        // into its space is inside the file and overlaps no other.
        let here = starts.partition_point(|&start| start < record.offset);
        let after = starts.partition_point(|&start| start <= record.offset);
        if after.saturating_sub(here) > 1 {
            let field = format!("tensor \"{}\"", quote_safely(&record.name));
            let what = format!("shares byte {} with another tensor", record.offset);
            return Err(cursor.fault(&field, what));
        }
        let next = starts.get(after).copied();
        let end = next.unwrap_or(file_len);
        record.space.bytes = end.saturating_sub(record.offset);
        record.space.last = next.is_none();
    }
    Ok(())
}
