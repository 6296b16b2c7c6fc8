//! The one error type of this crate.

use std::path::Path;

/// Why a model could not be fetched or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The reference is not one.
    #[error("{text:?}: {what}")]
    Reference {
        /// What was given.
        text: String,
        /// What is wrong with it, and what is allowed.
        what: String,
    },
    /// The network, or the server at the other end.
    #[error("{url}: {what}")]
    Network {
        /// What was asked for.
        url: String,
        /// What went wrong.
        what: String,
    },
    /// The repository does not hold what was asked for.
    #[error("{repo}: {what}")]
    Repo {
        /// The repository.
        repo: String,
        /// What is missing, and what there is.
        what: String,
    },
    /// What arrived is not what was announced.
    #[error("{file}: {what}: it was not kept")]
    Damaged {
        /// The file.
        file: String,
        /// The two digests or lengths.
        what: String,
    },
    /// Nothing may be fetched, and it is not here.
    #[error(
        "{repo}: not on this machine, and HF_HUB_OFFLINE forbids to fetch it; looked in {looked}"
    )]
    Offline {
        /// The repository, and the file if it is one file that is missing.
        repo: String,
        /// The folder.
        looked: String,
    },
    /// The file system.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl HubError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, source }
    }
}
