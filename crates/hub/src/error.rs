//! The error type of this crate.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// An error from fetching or caching a model.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct HubError {
    message: String,
    /// Set if a file could not be read or written.
    pub(crate) source: Option<io::Error>,
}

impl HubError {
    /// Creates an error about a reference, a URL, a repository or a file.
    pub fn new(subject: impl Display, what: impl Display) -> Self {
        Self { message: format!("{subject}: {what}"), source: None }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self { message: format!("{path}: {source}"), source: Some(source) }
    }
}
