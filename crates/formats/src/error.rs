//! The one error type of this crate.
//!
//! Every message names the file, the place in it, what was found and what is allowed, because the
//! reader of the message has the file and wants to know what to do about it.

use std::fmt::Display;
use std::path::Path;

/// Why a model file was refused, or could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to open, read or write the file.
    #[error("{file}: {source}")]
    Io {
        /// Path of the file.
        file: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The container is broken: a length, count or offset that cannot be.
    #[error("{file}: byte {offset}: {field}: {what}")]
    Malformed {
        /// Path of the file.
        file: String,
        /// Where in the file the field starts.
        offset: u64,
        /// The field that is wrong.
        field: String,
        /// What was found, and what is allowed.
        what: String,
    },
    /// A tensor does not fit the network, its encoding, or the file.
    #[error("{file}: tensor \"{tensor}\" at byte {offset}: {what}")]
    Tensor {
        /// Path of the file.
        file: String,
        /// The tensor's name as the file spells it.
        tensor: String,
        /// Where in the file the fault lies.
        offset: u64,
        /// What was found, and what is allowed.
        what: String,
    },
    /// A configuration value is missing, of the wrong type, or one we cannot honour.
    #[error("{file}: {key}: {what}")]
    Setting {
        /// Path of the file.
        file: String,
        /// The key of the value.
        key: String,
        /// What was found, and what is allowed.
        what: String,
    },
    /// The file is sound as far as we can tell, but not one we can run.
    #[error("{file}: {what}")]
    Unsupported {
        /// Path of the file.
        file: String,
        /// What is not supported, and what is.
        what: String,
    },
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
            what: bounded(what),
        }
    }

    pub(crate) fn tensor(file: &str, tensor: &str, offset: u64, what: impl Display) -> Self {
        Self::Tensor {
            file: file.to_owned(),
            tensor: quote_safely(tensor),
            offset,
            what: bounded(what),
        }
    }

    pub(crate) fn setting(file: &str, key: &str, what: impl Display) -> Self {
        Self::Setting { file: file.to_owned(), key: quote_safely(key), what: bounded(what) }
    }

    pub(crate) fn unsupported(file: &str, what: impl Display) -> Self {
        Self::Unsupported { file: file.to_owned(), what: bounded(what) }
    }
}

/// What was wrong, at most a few lines of it: a JSON parser repeats a string of any length.
fn bounded(what: impl Display) -> String {
    const SHOWN_CHARS: usize = 400;
    let what = what.to_string();
    match what.char_indices().nth(SHOWN_CHARS) {
        None => what,
        Some((end, _)) => format!("{}…", what.get(..end).unwrap_or_default()),
    }
}

/// A name out of a file, made fit for a terminal: control characters escaped, length bounded.
pub(crate) fn quote_safely(name: &str) -> String {
    const SHOWN_CHARS: usize = 128;
    let mut shown = String::new();
    for character in name.chars().take(SHOWN_CHARS) {
        match character {
            // Harmless, and clearer as they are.
            '"' | '\'' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    if name.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// The error of a writer that was told something the format cannot hold.
pub(crate) fn invalid(what: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, what)
}
