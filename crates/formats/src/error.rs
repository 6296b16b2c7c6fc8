//! The error type of this crate.
//!
//! Every message names the file, the position in it, the value found and the values allowed.

use std::fmt::Display;
use std::path::Path;

/// An error from opening, reading or writing a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Error {
    /// The operating system could not open, read or write the file.
    #[error("{file}: {source}")]
    Io { file: String, source: std::io::Error },
    /// The container is invalid, such as a length, count or offset outside of the file.
    #[error("{file}: byte {offset}: {field}: {what}")]
    Malformed { file: String, offset: u64, field: String, what: String },
    /// A tensor does not match the network, its encoding, or the file.
    #[error("{file}: tensor \"{tensor}\" at byte {offset}: {what}")]
    Tensor { file: String, tensor: String, offset: u64, what: String },
    /// A configuration value is missing, of the wrong type, or not supported.
    #[error("{file}: {key}: {what}")]
    Setting { file: String, key: String, what: String },
    /// The model or file is valid, but not supported.
    #[error("{file}: {what}")]
    Unsupported { file: String, what: String },
}

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { file: path.display().to_string(), source }
    }

    pub(crate) fn malformed(file: &str, offset: u64, field: &str, what: impl Display) -> Self {
        Self::Malformed {
            file: file.to_owned(),
            offset,
            field: quote_safely(field),
            what: printable(what),
        }
    }

    pub(crate) fn tensor(file: &str, tensor: &str, offset: u64, what: impl Display) -> Self {
        Self::Tensor {
            file: file.to_owned(),
            tensor: quote_safely(tensor),
            offset,
            what: printable(what),
        }
    }

    pub(crate) fn setting(file: &str, key: &str, what: impl Display) -> Self {
        Self::Setting { file: file.to_owned(), key: quote_safely(key), what: printable(what) }
    }

    pub(crate) fn unsupported(file: impl Display, what: impl Display) -> Self {
        Self::Unsupported { file: file.to_string(), what: printable(what) }
    }
}

/// Makes a message safe to print: errors of JSON quote names of a file as they are.
fn printable(what: impl Display) -> String {
    const SHOWN_CHARS: usize = 400;
    let what = what.to_string();
    let mut shown = String::with_capacity(what.len().min(SHOWN_CHARS));
    for character in what.chars().take(SHOWN_CHARS) {
        match character.is_control() {
            true => shown.extend(character.escape_debug()),
            false => shown.push(character),
        }
    }
    if what.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// Makes a name from a file safe to print: escapes control characters and limits the length.
pub(crate) fn quote_safely(name: &str) -> String {
    const SHOWN_CHARS: usize = 128;
    let mut shown = String::new();
    for character in name.chars().take(SHOWN_CHARS) {
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    if name.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// Creates the error of a writer for content that its format cannot hold.
pub(crate) fn invalid(what: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unknown_fields_are_safe_to_print() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Header {}
        for name in ["ro\u{7f}s", "\\u001b[2J", "\u{9b}"] {
            let json = format!("{{\"{name}\": 1}}");
            let error = serde_json::from_str::<Header>(&json).unwrap_err();
            let message = Error::malformed("model.wf", 64, "header", error).to_string();
            assert!(message.contains("unknown field"), "{message}");
            assert!(!message.chars().any(char::is_control), "{message:?}");
        }
    }
}
