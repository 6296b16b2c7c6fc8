//! The structure of one safetensors file.
//!
//! ```text
//! u64 header length | JSON header | data
//! header: { "name": { "dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64] }, … }
//! ```
//!
//! The header is read by a visitor instead of into a map, which would silently drop the first of two
//! equal names, and allocate a shape of a million ones.

pub(crate) mod write;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::checkpoint::{Dtype, Entry};
use crate::cursor::Cursor;
use crate::encoding::FloatEncoding;
use crate::error::{Error, quote_safely};
use crate::size;

/// Maximum length of a header. That of a model of thirty layers has 60 KB.
const MAX_HEADER_LEN: u64 = 16 * 1024 * 1024;
const MAX_TENSORS: usize = 65_536;
/// Maximum number of dimensions.
const MAX_DIMS: usize = 4;

/// Returns the element type with this name.
fn dtype(name: &str) -> Option<Dtype> {
    let mut floats = FloatEncoding::ALL.iter().filter(|float| float.is_plain());
    if let Some(&float) = floats.find(|float| float.name() == name) {
        return Some(Dtype::Float(float));
    }
    Some(match name {
        "U8" => Dtype::U8,
        "BOOL" | "I8" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" => Dtype::Other(1),
        "I16" | "U16" => Dtype::Other(2),
        "I32" | "U32" => Dtype::Other(4),
        "I64" | "U64" | "F64" | "C64" => Dtype::Other(8),
        _ => return None,
    })
}

/// Reads the header of file `at` of a checkpoint, and checks that its tensors cover the data without
/// gap or overlap.
pub(crate) fn read(file: &str, at: usize, bytes: &[u8]) -> Result<Vec<Entry>, Error> {
    let mut cursor = Cursor::new(file, bytes);
    let header_len = cursor.u64("header length")?;
    if header_len > MAX_HEADER_LEN {
        let what = format!("{header_len} bytes, at most {MAX_HEADER_LEN} allowed");
        return Err(cursor.at(0).fault("header length", what));
    }
    let header_start = cursor.offset();
    // serde_json does not validate strings that it skips.
    let json = cursor.text(header_len, MAX_HEADER_LEN, "header")?;
    let data_start = cursor.offset();
    let header: Header<'_> =
        serde_json::from_str(json).map_err(|e| cursor.at(header_start).fault("header", e))?;
    let mut entries = Vec::with_capacity(header.0.len());
    let mut names = HashSet::new();
    for (name, raw) in header.0 {
        if !names.insert(name.clone()) {
            let what = format!("\"{}\" appears twice", quote_safely(&name));
            return Err(cursor.at(header_start).fault("tensor name", what));
        }
        entries.push(Entry { file: at, ..locate(file, name, raw, data_start)? });
    }
    check_coverage(file, &entries, data_start, size::widen(bytes.len()))?;
    Ok(entries)
}

fn locate(file: &str, name: String, raw: RawEntry<'_>, data_start: u64) -> Result<Entry, Error> {
    let fault = |what: String| Error::tensor(file, &name, data_start, what);
    let Some(dtype) = dtype(&raw.dtype) else {
        return Err(fault(format!("unknown dtype \"{}\"", quote_safely(&raw.dtype))));
    };
    let (begin, end) = raw.data_offsets;
    let elements = size::product(&raw.shape.0);
    let needed = elements.and_then(|elements| size::product(&[elements, dtype.size()]));
    let found = end.checked_sub(begin);
    let (Some(found), Some(offset)) = (found, data_start.checked_add(begin)) else {
        return Err(fault(format!("data offsets {begin}..{end} are invalid")));
    };
    if Some(found) != needed {
        let what = format!(
            "data offsets {begin}..{end} hold {found} bytes, {} of {:?} takes {}",
            raw.dtype,
            raw.shape.0,
            needed.map_or("more than any file".to_owned(), |needed| needed.to_string())
        );
        return Err(fault(what));
    }
    Ok(Entry { name, dtype, shape: raw.shape.0, file: 0, offset, size: found, scale: None })
}

/// Rejects overlaps, gaps, and data past the end or unused.
fn check_coverage(
    file: &str,
    entries: &[Entry],
    data_start: u64,
    file_len: u64,
) -> Result<(), Error> {
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|entry| (entry.offset, entry.size));
    let mut at = data_start;
    for entry in order {
        let fault = |what: String| Error::tensor(file, &entry.name, entry.offset, what);
        if entry.offset != at {
            let what = if entry.offset < at {
                "overlaps another tensor"
            } else {
                "there is a gap before it"
            };
            return Err(fault(format!("{what}: the previous data ends at byte {at}")));
        }
        at = match entry.offset.checked_add(entry.size) {
            Some(end) if end <= file_len => end,
            _ => {
                let what = format!("its {} bytes end past the file ({file_len} bytes)", entry.size);
                return Err(fault(what));
            }
        };
    }
    if at == file_len {
        return Ok(());
    }
    let what = format!("{} bytes after the last tensor", file_len.saturating_sub(at));
    Err(Error::malformed(file, at, "end of data", what))
}

struct Header<'a>(Vec<(String, RawEntry<'a>)>);

#[derive(Deserialize)]
struct RawEntry<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Shape,
    data_offsets: (u64, u64),
}

struct Shape(Vec<u64>);

impl<'de: 'a, 'a> Deserialize<'de> for Header<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    if entries.len() >= MAX_TENSORS {
                        let what = format!("more than {MAX_TENSORS} tensors");
                        return Err(A::Error::custom(what));
                    }
                    entries.push((name, map.next_value()?));
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dims;
        impl<'de> Visitor<'de> for Dims {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX_DIMS} dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
                let mut dims = Vec::new();
                while let Some(dim) = seq.next_element()? {
                    if dims.len() >= MAX_DIMS {
                        return Err(A::Error::custom(format!("more than {MAX_DIMS} dimensions")));
                    }
                    dims.push(dim);
                }
                Ok(Shape(dims))
            }
        }
        deserializer.deserialize_seq(Dims)
    }
}
