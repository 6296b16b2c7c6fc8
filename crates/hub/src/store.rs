//! The local cache of the hub, in the layout of `huggingface_hub`.
//!
//! ```text
//! models--owner--repo/
//!   refs/main                     the commit of a branch
//!   blobs/<digest>                the content of a file
//!   blobs/<digest>.incomplete     a partial download
//!   snapshots/<commit>/<file>     a link to the content (a copy on systems without links)
//! .locks/models--owner--repo/<digest>.lock
//! ```

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::error::HubError;
use crate::reference::Reference;

/// The part of the cache for one repository.
pub(crate) struct RepoStore {
    root: PathBuf,
    locks: PathBuf,
}

impl RepoStore {
    pub(crate) fn new(cache: &Path, repo: &str) -> Self {
        let name = format!("models--{}", repo.replace('/', "--"));
        Self { root: cache.join(&name), locks: cache.join(".locks").join(name) }
    }

    /// Returns the directory of a commit.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.root.join("snapshots").join(commit)
    }

    /// Returns the commit that a revision had when it was last fetched.
    pub(crate) fn known_commit(&self, reference: &Reference) -> Option<String> {
        if self.snapshot(&reference.revision).is_dir() {
            return Some(reference.revision.clone());
        }
        let commit = fs::read_to_string(self.root.join("refs").join(&reference.revision)).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| self.snapshot(commit).is_dir())
    }

    /// Stores the commit of a revision.
    pub(crate) fn remember(&self, reference: &Reference, commit: &str) -> Result<(), HubError> {
        let path = self.root.join("refs").join(&reference.revision);
        create_parent(&path)?;
        fs::write(&path, commit).map_err(HubError::io(&path))
    }

    /// Returns the path of content, and that of a partial download of it.
    pub(crate) fn blob(&self, digest: &Digest) -> (PathBuf, PathBuf) {
        let blob = self.root.join("blobs").join(digest.name());
        (blob.clone(), blob.with_extension("incomplete"))
    }

    /// Waits until no other process downloads this content. The lock is released when dropped.
    pub(crate) fn lock(&self, digest: &Digest) -> Result<File, HubError> {
        let path = self.locks.join(format!("{}.lock", digest.name()));
        create_parent(&path)?;
        lock(&path)
    }

    pub(crate) fn link(&self, commit: &str, name: &str, digest: &Digest) -> Result<(), HubError> {
        let path = self.snapshot(commit).join(name);
        create_parent(&path)?;
        if path.exists() {
            return Ok(());
        }
        let depth = name.matches('/').count() + 2;
        let target = format!("{}blobs/{}", "../".repeat(depth), digest.name());
        // Created under a temporary name and renamed, because other processes may do the same.
        let own = (0..).map(|number| own_name(&path, number)).find_map(|own| {
            match symlink(Path::new(&target), &own) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => None,
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    Some(fs::copy(self.blob(digest).0, &own).map(|_| own))
                }
                made => Some(made.map(|()| own)),
            }
        });
        let own = own.expect("numbers do not run out").map_err(HubError::io(&path))?;
        fs::rename(&own, &path).map_err(HubError::io(&path))
    }
}

fn own_name(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!(".{name}.{}-{number}", std::process::id()))
}

#[cfg(unix)]
fn symlink(target: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn symlink(_target: &Path, _path: &Path) -> std::io::Result<()> {
    // Links require a privilege on Windows, so the content is copied.
    Err(ErrorKind::Unsupported.into())
}

/// Waits until no other process holds the lock of this file, and holds it until dropped.
pub(crate) fn lock(path: &Path) -> Result<File, HubError> {
    let file = open_lock(path)?;
    file.lock().map_err(HubError::io(path))?;
    Ok(file)
}

pub(crate) fn open_lock(path: &Path) -> Result<File, HubError> {
    let file = File::options().create(true).write(true).truncate(false).open(path);
    file.map_err(HubError::io(path))
}

/// Creates the parent directory of a file.
pub(crate) fn create_parent(path: &Path) -> Result<(), HubError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(HubError::io(parent))
}
