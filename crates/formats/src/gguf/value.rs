//! GGUF metadata: typed values under unique keys, borrowed from the file.
//!
//! Arrays are walked once to check them and are read again only by whoever wants their elements, so a
//! file cannot make us allocate by the length of an array we do not use.

use std::collections::HashMap;

use crate::cursor::Cursor;
use crate::error::{Error, quote_safely};
use crate::size;

/// Longest key.
const MAX_KEY_LEN: u64 = 256;
/// Longest string value.
pub(crate) const MAX_STRING_LEN: u64 = 64 * 1024;
/// Longest chat template.
pub(crate) const MAX_TEMPLATE_LEN: u64 = 1024 * 1024;
/// Most keys of a file. Real files have under a hundred.
const MAX_KEYS: u64 = 65_536;

/// Type numbers of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

/// One metadata value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    /// Any of the unsigned or signed integers; all fit.
    Integer(i128),
    Float(f64),
    Bool(bool),
    String(&'a str),
    /// `len` elements from byte `offset` on, already walked.
    Array {
        of: ValueType,
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

impl ValueType {
    fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::String,
            9 => Self::Array,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Bytes of one value, where all have the same.
    fn fixed_len(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }
}

impl<'a> Metadata<'a> {
    /// Reads `keys` key-value pairs and leaves the cursor behind them.
    pub(crate) fn read(cursor: &mut Cursor<'a>, keys: u64) -> Result<Self, Error> {
        // Never reserve by `keys`: it is not yet known to be true.
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

    pub(crate) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.values.get(key).map(|(_, value)| *value)
    }

    pub(crate) fn fault(&self, key: &str, what: impl std::fmt::Display) -> Error {
        let offset = self.values.get(key).map_or(0, |(offset, _)| *offset);
        self.start.at(offset).fault(key, what)
    }

    fn wrong_type(&self, key: &str, wanted: &str, found: Value<'_>) -> Error {
        let found = match found {
            Value::Integer(value) => format!("the integer {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Bool(value) => format!("{value}"),
            Value::String(value) => format!("the string \"{}\"", quote_safely(value)),
            Value::Array { len, .. } => format!("an array of {len}"),
        };
        self.fault(key, format!("found {found}, wanted {wanted}"))
    }

    pub(crate) fn string(&self, key: &str) -> Result<Option<&'a str>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong_type(key, "a string", other)),
        }
    }

    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong_type(key, "a bool", other)),
        }
    }

    pub(crate) fn float(&self, key: &str) -> Result<Option<f64>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(value)) => Ok(Some(value)),
            // Some writers store round numbers such as 500000 as integers.
            Some(Value::Integer(value)) => Ok(Some(value as f64)),
            Some(other) => Err(self.wrong_type(key, "a number", other)),
        }
    }

    /// A count, an identifier or a size.
    pub(crate) fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Integer(value)) => u32::try_from(value).map(Some).map_err(|_| {
                self.wrong_type(key, "an integer from 0 to 2^32-1", Value::Integer(value))
            }),
            Some(other) => Err(self.wrong_type(key, "an integer", other)),
        }
    }

    /// Elements of a string array, at most `limit`.
    pub(crate) fn strings(&self, key: &str, limit: u64) -> Result<Option<Vec<String>>, Error> {
        let Some((len, mut cursor)) = self.array(key, limit, &[ValueType::String])? else {
            return Ok(None);
        };
        // `read` has walked the array, so `len` strings of at least eight bytes are there.
        let mut strings = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        for _ in 0..len {
            let text_len = cursor.u64(key)?;
            strings.push(cursor.text(text_len, MAX_STRING_LEN, key)?.to_owned());
        }
        Ok(Some(strings))
    }

    /// Elements of an array of 32-bit integers.
    pub(crate) fn integers(&self, key: &str, limit: u64) -> Result<Option<Vec<i32>>, Error> {
        let types = [ValueType::I32, ValueType::U32];
        let Some((len, mut cursor)) = self.array(key, limit, &types)? else { return Ok(None) };
        (0..len).map(|_| cursor.u32(key).map(u32::cast_signed)).collect::<Result<_, _>>().map(Some)
    }

    /// Elements of an array of 32-bit floats.
    pub(crate) fn floats(&self, key: &str, limit: u64) -> Result<Option<Vec<f32>>, Error> {
        let Some((len, mut cursor)) = self.array(key, limit, &[ValueType::F32])? else {
            return Ok(None);
        };
        (0..len).map(|_| cursor.f32(key)).collect::<Result<_, _>>().map(Some)
    }

    fn array(
        &self,
        key: &str,
        limit: u64,
        types: &[ValueType],
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
                Err(self.fault(key, format!("an array of {of:?}, wanted one of {types:?}")))
            }
            Some(other) => Err(self.wrong_type(key, "an array", other)),
        }
    }
}

fn read_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, Error> {
    let start = cursor.clone();
    let id = cursor.u32(key)?;
    ValueType::from_id(id)
        .ok_or_else(|| start.fault(key, format!("value type {id}, allowed 0 to 12")))
}

fn read_value<'a>(cursor: &mut Cursor<'a>, key: &str) -> Result<Value<'a>, Error> {
    let kind = read_type(cursor, key)?;
    Ok(match kind {
        ValueType::U8 => Value::Integer(cursor.u8(key)?.into()),
        ValueType::I8 => Value::Integer(cursor.u8(key)?.cast_signed().into()),
        ValueType::U16 => Value::Integer(cursor.u16(key)?.into()),
        ValueType::I16 => Value::Integer(cursor.u16(key)?.cast_signed().into()),
        ValueType::U32 => Value::Integer(cursor.u32(key)?.into()),
        ValueType::I32 => Value::Integer(cursor.u32(key)?.cast_signed().into()),
        ValueType::U64 => Value::Integer(cursor.u64(key)?.into()),
        ValueType::I64 => Value::Integer(cursor.u64(key)?.cast_signed().into()),
        ValueType::F32 => Value::Float(cursor.f32(key)?.into()),
        ValueType::F64 => Value::Float(cursor.f64(key)?),
        ValueType::Bool => {
            let start = cursor.clone();
            match cursor.u8(key)? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => {
                    return Err(start.fault(key, format!("bool {other}, allowed 0 and 1")));
                }
            }
        }
        ValueType::String => {
            let template = key.starts_with("tokenizer.chat_template");
            let limit = if template { MAX_TEMPLATE_LEN } else { MAX_STRING_LEN };
            let len = cursor.u64(key)?;
            Value::String(cursor.text(len, limit, key)?)
        }
        ValueType::Array => walk_array(cursor, key)?,
    })
}

/// Checks that an array lies inside the file, and steps over it.
fn walk_array<'a>(cursor: &mut Cursor<'a>, key: &str) -> Result<Value<'a>, Error> {
    let of = read_type(cursor, key)?;
    let len = cursor.u64(key)?;
    let offset = cursor.offset();
    match of.fixed_len() {
        Some(element_len) => {
            let Some(bytes) = size::product(&[len, element_len]) else {
                return Err(cursor.fault(key, format!("an array of {len} is larger than any file")));
            };
            cursor.take(bytes, key)?;
        }
        None if of == ValueType::Array => {
            return Err(cursor.fault(key, "an array of arrays, which is not supported"));
        }
        None => {
            // Each string takes eight bytes at least, so this loop is bounded by the file.
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
