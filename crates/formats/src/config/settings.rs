//! Keys and values with typed access, from JSON or GGUF metadata, and errors that name the key.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::{Error, quote_safely};

/// A JSON object, or the metadata of a GGUF file; `null` counts as absent.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) file: String,
    path: String,
    values: Map<String, Value>,
    /// Positions of the keys of a GGUF file.
    offsets: HashMap<String, u64>,
}

impl Settings {
    pub(crate) fn parse(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        let values = serde_json::from_slice(bytes)
            .map_err(|e| Error::unsupported(file, format!("not a JSON object: {e}")))?;
        Ok(Self { values, ..Self::empty(file) })
    }

    /// Wraps the object under `key` of a larger document.
    pub(crate) fn part_of(file: &str, key: &str, values: Map<String, Value>) -> Self {
        Self { path: format!("{key}."), values, ..Self::empty(file) }
    }

    pub(crate) fn empty(file: &str) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    /// Adds a key at byte `offset` of the file; returns `false` if there is one of this name.
    pub(crate) fn insert(&mut self, key: &str, offset: u64, value: Value) -> bool {
        self.values.insert(key.to_owned(), value);
        self.offsets.insert(key.to_owned(), offset).is_none()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// Returns the keys that begin with `prefix`.
    pub(crate) fn keys_with<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = &'s str> {
        self.values.keys().map(String::as_str).filter(move |key| key.starts_with(prefix))
    }

    pub(crate) fn fault(&self, key: &str, what: impl std::fmt::Display) -> Error {
        match self.offsets.get(key) {
            Some(&offset) => Error::malformed(&self.file, offset, key, what),
            None => Error::setting(&self.file, &format!("{}{key}", self.path), what),
        }
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| {
            let found = quote_safely(&value.to_string());
            self.fault(key, format!("found {found}, must be {wanted}"))
        })
    }

    pub(crate) fn string(&self, key: &str) -> Result<Option<&str>, Error> {
        self.typed(key, "a string", Value::as_str)
    }

    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "true or false", Value::as_bool)
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, "a number", Value::as_f64)
    }

    /// Replaces the value of a key.
    pub(crate) fn replace(&mut self, key: &str, value: Value) {
        self.values.insert(key.to_owned(), value);
    }

    /// Reads a list of flags, which may be 0 and 1.
    pub(crate) fn bools(&self, key: &str) -> Result<Option<Vec<bool>>, Error> {
        self.typed(key, "a list of flags", |value| {
            let flag = |value: &Value| match value.as_u64() {
                Some(number @ (0 | 1)) => Some(number == 1),
                _ => value.as_bool(),
            };
            value.as_array()?.iter().map(flag).collect()
        })
    }

    /// Reads a list of strings.
    pub(crate) fn strings(&self, key: &str) -> Result<Option<Vec<&str>>, Error> {
        self.typed(key, "a list of strings", |value| {
            value.as_array()?.iter().map(Value::as_str).collect()
        })
    }

    /// Reads a list of numbers.
    pub(crate) fn floats(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        self.typed(key, "a list of numbers", |value| {
            let numbers = value.as_array()?.iter();
            numbers.map(|number| number.as_f64().map(|number| number as f32)).collect()
        })
    }

    pub(crate) fn optional_size(&self, key: &str) -> Result<Option<usize>, Error> {
        self.typed(key, "a non-negative integer", |value| usize::try_from(value.as_u64()?).ok())
    }

    pub(crate) fn size(&self, key: &str) -> Result<usize, Error> {
        self.optional_size(key)?.ok_or_else(|| self.fault(key, "missing"))
    }

    pub(crate) fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        self.typed(key, "an integer from 0 to 2^32-1", token_id)
    }

    /// Reads a token id or a list of them.
    pub(crate) fn tokens(&self, key: &str) -> Result<Vec<u32>, Error> {
        let tokens = self.typed(key, "a token id or a list of them", |value| match value {
            Value::Array(ids) => ids.iter().map(token_id).collect::<Option<Vec<u32>>>(),
            other => token_id(other).map(|id| vec![id]),
        })?;
        Ok(tokens.unwrap_or_default())
    }

    pub(crate) fn object(&self, key: &str) -> Result<Option<Self>, Error> {
        let values = self.typed(key, "an object", |value| value.as_object().cloned())?;
        let path = format!("{}{key}", self.path);
        Ok(values.map(|values| Self::part_of(&self.file, &path, values)))
    }
}

fn token_id(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}
