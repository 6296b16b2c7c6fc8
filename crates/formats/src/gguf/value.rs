//! GGUF metadata: typed values under unique keys.
//!
//! Arrays are validated once and read again only when their elements are needed, so the length of an
//! unused array causes no allocation.

use std::collections::HashMap;

use serde_json::Value;
use wf_core::Vocabulary;

use crate::config::settings::Settings;
use crate::cursor::Cursor;
use crate::error::{Error, quote_safely};
use crate::size;

const MAX_KEY_LEN: u64 = 256;
const MAX_STRING_LEN: u64 = Vocabulary::MAX_TOKEN_LEN as u64;
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
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const INTEGERS: [u32; 8] = [0, 1, 2, 3, U32, I32, 10, 11];

/// All metadata of a file.
#[derive(Debug)]
pub(crate) struct Metadata<'a> {
    /// All values; arrays are empty here until [`load_list`](Metadata::load_list).
    pub(crate) settings: Settings,
    start: Cursor<'a>,
    arrays: HashMap<&'a str, Array>,
}

/// An array of `len` valid elements from byte `offset` on.
#[derive(Debug, Clone, Copy)]
struct Array {
    of: u32,
    len: u64,
    offset: u64,
}

impl<'a> Metadata<'a> {
    /// Reads `keys` key-value pairs.
    pub(crate) fn read(cursor: &mut Cursor<'a>, keys: u64) -> Result<Self, Error> {
        if keys > MAX_KEYS {
            let what = format!("{keys} keys, at most {MAX_KEYS} allowed");
            return Err(cursor.fault("metadata count", what));
        }
        // Nothing is reserved for `keys`, which may be wrong.
        let mut settings = Settings::empty(cursor.file());
        let mut arrays = HashMap::new();
        for _ in 0..keys {
            let key_offset = cursor.offset();
            let key_len = cursor.u64("key length")?;
            let key = cursor.text(key_len, MAX_KEY_LEN, "key")?;
            let (id, _) = read_type(cursor, key)?;
            let value = if id == ARRAY {
                arrays.insert(key, skip_array(cursor, key)?);
                Value::Array(Vec::new())
            } else {
                read_value(cursor, key, id)?
            };
            if !settings.insert(key, key_offset, value) {
                let what = format!("\"{}\" appears twice", quote_safely(key));
                return Err(cursor.at(key_offset).fault("key", what));
            }
        }
        Ok(Self { settings, start: cursor.at(0), arrays })
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

    /// Reads an array of at most `limit` integers of any type.
    pub(crate) fn whole_numbers(&self, key: &str, limit: u64) -> Result<Option<Vec<i64>>, Error> {
        let Some((len, mut cursor)) = self.array(key, limit, &INTEGERS)? else { return Ok(None) };
        let of = self.arrays.get(key).map_or(U32, |array| array.of);
        let number = |_| {
            let value = read_value(&mut cursor, key, of)?;
            let wanted = || self.settings.fault(key, format!("{value}, must be less than 2^63"));
            value.as_i64().ok_or_else(wanted)
        };
        (0..len).map(number).collect::<Result<_, _>>().map(Some)
    }

    /// Reads an array of 32-bit floats.
    pub(crate) fn floats(&self, key: &str, limit: u64) -> Result<Option<Vec<f32>>, Error> {
        let Some((len, mut cursor)) = self.array(key, limit, &[F32])? else {
            return Ok(None);
        };
        (0..len).map(|_| cursor.f32(key)).collect::<Result<_, _>>().map(Some)
    }

    /// Makes the elements of an array of at most `limit` numbers or flags part of the settings; other values
    /// stay as they are.
    pub(crate) fn load_list(&mut self, key: &str, limit: u64) -> Result<(), Error> {
        let Some(&Array { of, .. }) = self.arrays.get(key) else { return Ok(()) };
        let Some((len, mut cursor)) = self.array(key, limit, &[U32, I32, F32, BOOL])? else {
            return Ok(());
        };
        let values =
            (0..len).map(|_| read_value(&mut cursor, key, of)).collect::<Result<_, _>>()?;
        self.settings.replace(key, Value::Array(values));
        Ok(())
    }

    fn array(
        &self,
        key: &str,
        limit: u64,
        types: &[u32],
    ) -> Result<Option<(u64, Cursor<'a>)>, Error> {
        let Some(&Array { of, len, offset }) = self.arrays.get(key) else {
            return match self.settings.get(key) {
                None => Ok(None),
                Some(_) => Err(self.settings.fault(key, "must be an array")),
            };
        };
        if len > limit {
            let what = format!("an array of {len}, at most {limit} allowed");
            return Err(self.settings.fault(key, what));
        }
        if !types.contains(&of) {
            let expected: Vec<&str> = types.iter().map(|&id| type_name(id)).collect();
            let what = format!("an array of {}, expected one of {expected:?}", type_name(of));
            return Err(self.settings.fault(key, what));
        }
        Ok(Some((len, self.start.at(offset))))
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

fn read_value(cursor: &mut Cursor<'_>, key: &str, type_id: u32) -> Result<Value, Error> {
    // JSON has no such numbers as NaN; a string is no number either.
    let float = |value: f64| {
        if value.is_finite() { Value::from(value) } else { Value::from(value.to_string()) }
    };
    Ok(match type_id {
        0 => cursor.u8(key)?.into(),
        1 => cursor.u8(key)?.cast_signed().into(),
        2 => cursor.u16(key)?.into(),
        3 => cursor.u16(key)?.cast_signed().into(),
        U32 => cursor.u32(key)?.into(),
        I32 => cursor.u32(key)?.cast_signed().into(),
        F32 => float(cursor.f32(key)?.into()),
        BOOL => {
            let start = cursor.clone();
            match cursor.u8(key)? {
                value @ (0 | 1) => Value::Bool(value == 1),
                other => return Err(start.fault(key, format!("bool {other}, allowed 0 and 1"))),
            }
        }
        STRING => {
            let template = key.starts_with("tokenizer.chat_template");
            let limit = if template { MAX_TEMPLATE_LEN } else { MAX_STRING_LEN };
            let len = cursor.u64(key)?;
            cursor.text(len, limit, key)?.into()
        }
        10 => cursor.u64(key)?.into(),
        11 => cursor.u64(key)?.cast_signed().into(),
        _ => float(cursor.f64(key)?),
    })
}

/// Checks that an array lies inside the file, and skips it.
fn skip_array(cursor: &mut Cursor<'_>, key: &str) -> Result<Array, Error> {
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
    Ok(Array { of, len, offset })
}
