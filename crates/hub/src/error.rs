//! The error type of this crate.

use std::path::Path;

/// An error from fetching or caching a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum HubError {
    /// The reference is invalid.
    #[error("{text:?}: {what}")]
    Reference { text: String, what: String },
    /// A request failed.
    #[error("{url}: {what}")]
    Network { url: String, what: String },
    /// The repository does not contain the requested file or a model.
    #[error("{repo}: {what}")]
    Repo { repo: String, what: String },
    /// A download does not have the announced digest or length.
    #[error("{file}: {what}; the download was discarded")]
    Damaged { file: String, what: String },
    /// The model is not in the cache, and downloads are disabled.
    #[error("{repo}: not in the cache {looked}, and HF_HUB_OFFLINE disables downloads")]
    Offline { repo: String, looked: String },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
}

impl HubError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, source }
    }
}
