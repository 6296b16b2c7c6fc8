//! Settings of decoding modes: their declaration, and the values given in a request or on the command line.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Declaration of a setting. API fields, command-line flags and type checks derive from it.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Object of an API request that holds the setting.
    pub object: &'static str,
    /// Name of the setting inside that object.
    pub name: &'static str,
    /// Type of its value.
    pub kind: SettingKind,
    /// Long name of its command-line flag, without dashes, and the help text.
    pub flag: Option<(&'static str, &'static str)>,
}

/// Type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A non-negative integer.
    Count,
    /// A number.
    Number,
    /// A boolean.
    Bool,
    /// A name.
    Name,
}

impl SettingKind {
    /// Returns a description if the value does not have this type.
    pub(super) fn mismatch(self, value: &Value) -> Option<&'static str> {
        let (matches, expected) = match self {
            Self::Count => (value.is_u64(), "a whole number"),
            Self::Number => (value.is_number(), "a number"),
            Self::Bool => (value.is_boolean(), "true or false"),
            Self::Name => (value.is_string(), "a string"),
        };
        (!matches).then_some(expected)
    }
}

/// Returns the value of a setting of the type `Count`.
pub(super) fn count(value: &Value) -> usize {
    value.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX)
}

/// Returns the value of a setting of the type `Number`.
pub(super) fn number(value: &Value) -> f32 {
    value.as_f64().unwrap_or(f64::NAN) as f32
}

/// Decoding settings of a request or of the command line. Absent ones keep their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodeSettings {
    /// Name of a mode.
    pub mode: Option<String>,
    /// Settings by object and name.
    pub objects: BTreeMap<String, Map<String, Value>>,
}

impl DecodeSettings {
    /// Returns settings that select a mode by name.
    pub fn of_mode(name: &str) -> Self {
        Self { mode: Some(name.to_owned()), ..Self::default() }
    }

    /// Returns `self` with one more setting.
    #[must_use]
    pub fn with(mut self, object: &str, name: &str, value: impl Into<Value>) -> Self {
        self.objects.entry(object.to_owned()).or_default().insert(name.to_owned(), value.into());
        self
    }
}
