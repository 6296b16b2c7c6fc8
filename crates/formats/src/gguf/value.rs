//! GGUF metadata: typed values under unique keys, borrowed from the file.
//!
//! Arrays are validated once and read again only when their elements are needed, so the length of an
//! unused array causes no allocation.

use std::collections::HashMap;

use crate::cursor::Cursor;
use crate::error::{Error, quote_safely};
use crate::size;

/// Maximum length of a key.
const MAX_KEY_LEN: u64 = 256;
/// Maximum length of a string.
const MAX_STRING_LEN: u64 = 64 * 1024;
/// Maximum length of a chat template.
pub(crate) const MAX_TEMPLATE_LEN: u64 = 1024 * 1024;
/// Maximum number of keys. Real files have under a hundred.
const MAX_KEYS: u64 = 65_536;

/// Types by number: name, and size of a value if it is fixed.
const TYPES: [(&str, Option<u64>); 13] = [
    ("U8", Some(1)),
    ("I8", Some(1)),
    ("U16", Some(2)),
    ("I16", Some(2)),
    ("U32", Some(4)),
    ("I32", Some(4)),
    ("F32", Some(4)),
    ("Bool", Some(1)),
    ("String", None),
    ("Array", None),
    ("U64", Some(8)),
    ("I64", Some(8)),
    ("F64", Some(8)),
];
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// One metadata value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'a> {
    /// Any unsigned or signed integer.
    Integer(i128),
    Float(f64),
    Bool(bool),
    String(&'a str),
    /// `len` valid elements from byte `offset` on.
    Array {
        of: u32,
        len: u64,
        offset: u64,
    },
}

/// All metadata of a file.
#[derive(Debug)]
pub(crate) struct Metadata<'a> {
    start: Cursor<'a>,
    values: HashMap<&'a str, (u64, Value<'a>)>,
}

impl<'a> Metadata<'a> {
    /// Reads `keys` key-value pairs.
    pub(crate) fn read(cursor: &mut Cursor<'a>, keys: u64) -> Result<Self, Error> {
        // Nothing is reserved for `keys`, which may be wrong.
        let mut values = HashMap::new();
        if keys > MAX_KEYS {
            let what = format!("{keys} keys, at most {MAX_KEYS} allowed");
            return Err(cursor.fault("metadata count", what));
        }
        for _ in 0..keys {
            let key_offset = cursor.offset();
            let key_len = cursor.u64("key length")?;
            let key = cursor.text(key_len, MAX_KEY_LEN, "key")?;
            let value = read_value(cursor, key)?;
            if values.insert(key, (key_offset, value)).is_some() {
                let what = format!("\"{}\" appears twice", quote_safely(key));
                return Err(cursor.at(key_offset).fault("key", what));
            }
        }
        Ok(Self { start: cursor.at(0), values })
    }

    fn get(&self, key: &str) -> Option<Value<'a>> {
        self.values.get(key).map(|(_, value)| *value)
    }

    pub(crate) fn fault(&self, key: &str, what: impl std::fmt::Display) -> Error {
        let offset = self.values.get(key).map_or(0, |(offset, _)| *offset);
        self.start.at(offset).fault(key, what)
    }

    /// Returns the name of the file, for messages.
    pub(crate) fn file(&self) -> &'a str {
        self.start.file()
    }

    fn wrong_type(&self, key: &str, expected: &str, found: Value<'_>) -> Error {
        let found = match found {
            Value::Integer(value) => format!("the integer {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Bool(value) => format!("{value}"),
            Value::String(value) => format!("the string \"{}\"", quote_safely(value)),
            Value::Array { len, .. } => format!("an array of {len}"),
        };
        self.fault(key, format!("found {found}, expected {expected}"))
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong_type(key, expected, value))
    }

    pub(crate) fn string(&self, key: &str) -> Result<Option<&'a str>, Error> {
        self.typed(key, "a string", |value| match value {
            Value::String(value) => Some(value),
            _ => None,
        })
    }

    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(value) => Some(value),
            _ => None,
        })
    }

    pub(crate) fn float(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a number", |value| match value {
            Value::Float(value) => Some(value),
            // Some writers store round numbers such as 500000 as integers.
            Value::Integer(value) => Some(value as f64),
            _ => None,
        })
    }

    /// Reads a count, an identifier or a size.
    pub(crate) fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        self.typed(key, "an integer from 0 to 2^32-1", |value| match value {
            Value::Integer(value) => u32::try_from(value).ok(),
            _ => None,
        })
    }

    /// Reads an array of at most `limit` strings.
    pub(crate) fn strings(&self, key: &str, limit: u64) -> Result<Option<Vec<String>>, Error> {
        let Some((len, mut cursor)) = self.array(key, limit, &[STRING])? else {
            return Ok(None);
        };
        // `read` has validated the array, so there are `len` strings of at least eight bytes each.
        let mut strings = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        for _ in 0..len {
            let text_len = cursor.u64(key)?;
            strings.push(cursor.text(text_len, MAX_STRING_LEN, key)?.to_owned());
        }
        Ok(Some(strings))
    }

    /// Reads an array of 32-bit integers.
    pub(crate) fn integers(&self, key: &str, limit: u64) -> Result<Option<Vec<i32>>, Error> {
        let types = [I32, U32];
        let Some((len, mut cursor)) = self.array(key, limit, &types)? else { return Ok(None) };
        (0..len).map(|_| cursor.u32(key).map(u32::cast_signed)).collect::<Result<_, _>>().map(Some)
    }

    /// Reads an array of 32-bit floats.
    pub(crate) fn floats(&self, key: &str, limit: u64) -> Result<Option<Vec<f32>>, Error> {
        let Some((len, mut cursor)) = self.array(key, limit, &[F32])? else {
            return Ok(None);
        };
        (0..len).map(|_| cursor.f32(key)).collect::<Result<_, _>>().map(Some)
    }

    fn array(
        &self,
        key: &str,
        limit: u64,
        types: &[u32],
    ) -> Result<Option<(u64, Cursor<'a>)>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array { len, .. }) if len > limit => {
                Err(self.fault(key, format!("an array of {len}, at most {limit} allowed")))
            }
            Some(Value::Array { of, len, offset }) if types.contains(&of) => {
                Ok(Some((len, self.start.at(offset))))
            }
            Some(Value::Array { of, .. }) => {
                let expected: Vec<&str> = types.iter().map(|&id| type_name(id)).collect();
                let what = format!("an array of {}, expected one of {expected:?}", type_name(of));
                Err(self.fault(key, what))
            }
            Some(other) => Err(self.wrong_type(key, "an array", other)),
        }
    }
}

fn type_name(id: u32) -> &'static str {
    TYPES.get(id as usize).map_or("unknown", |(name, _)| name)
}

/// Reads a type number, and returns the size of its values if it is fixed.
fn read_type(cursor: &mut Cursor<'_>, key: &str) -> Result<(u32, Option<u64>), Error> {
    let start = cursor.clone();
    let id = cursor.u32(key)?;
    match TYPES.get(id as usize) {
        Some((_, len)) => Ok((id, *len)),
        None => Err(start.fault(key, format!("value type {id}, allowed 0 to 12"))),
    }
}

fn read_value<'a>(cursor: &mut Cursor<'a>, key: &str) -> Result<Value<'a>, Error> {
    let (id, _) = read_type(cursor, key)?;
    Ok(match id {
        0 => Value::Integer(cursor.u8(key)?.into()),
        1 => Value::Integer(cursor.u8(key)?.cast_signed().into()),
        2 => Value::Integer(cursor.u16(key)?.into()),
        3 => Value::Integer(cursor.u16(key)?.cast_signed().into()),
        U32 => Value::Integer(cursor.u32(key)?.into()),
        I32 => Value::Integer(cursor.u32(key)?.cast_signed().into()),
        F32 => Value::Float(cursor.f32(key)?.into()),
        7 => {
            let start = cursor.clone();
            match cursor.u8(key)? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => {
                    return Err(start.fault(key, format!("bool {other}, allowed 0 and 1")));
                }
            }
        }
        STRING => {
            let template = key.starts_with("tokenizer.chat_template");
            let limit = if template { MAX_TEMPLATE_LEN } else { MAX_STRING_LEN };
            let len = cursor.u64(key)?;
            Value::String(cursor.text(len, limit, key)?)
        }
        ARRAY => skip_array(cursor, key)?,
        10 => Value::Integer(cursor.u64(key)?.into()),
        11 => Value::Integer(cursor.u64(key)?.cast_signed().into()),
        _ => Value::Float(cursor.f64(key)?),
    })
}

/// Checks that an array lies inside the file, and skips it.
fn skip_array<'a>(cursor: &mut Cursor<'a>, key: &str) -> Result<Value<'a>, Error> {
    let (of, element_len) = read_type(cursor, key)?;
    let len = cursor.u64(key)?;
    let offset = cursor.offset();
    match element_len {
        Some(element_len) => {
            let Some(bytes) = size::product(&[len, element_len]) else {
                return Err(cursor.fault(key, format!("an array of {len} is larger than any file")));
            };
            cursor.take(bytes, key)?;
        }
        None if of == ARRAY => {
            return Err(cursor.fault(key, "an array of arrays, which is not supported"));
        }
        None => {
            // Each string takes at least eight bytes, so the size of the file bounds this loop.
            for _ in 0..len {
                let text_len = cursor.u64(key)?;
                if text_len > MAX_STRING_LEN {
                    let what = format!("a string of {text_len} bytes, at most {MAX_STRING_LEN}");
                    return Err(cursor.fault(key, what));
                }
                cursor.take(text_len, key)?;
            }
        }
    }
    Ok(Value::Array { of, len, offset })
}
