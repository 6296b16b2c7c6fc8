//! A cache of converted models.
//!
//! ```text
//! <key>/manifest.json     source, target, and digest of the model
//! <key>/<file>            the model
//! <key>.lock              held by the process that creates the entry
//! ```
//!
//! The key is a digest of the content of the source, the target and the version of the converter. An
//! entry is created atomically: it is renamed when it is on disk. Of several processes that need the same
//! entry, one creates it and the others wait for its lock.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::digest::{sha256, sha256_of};
use crate::error::HubError;
use crate::store::{lock, open_lock};

const MANIFEST: &str = "manifest.json";
/// Characters of a key, enough to avoid collisions.
const KEY_LEN: usize = 32;

/// A directory of converted models.
#[derive(Debug, Clone)]
pub struct ConversionCache {
    root: PathBuf,
    version: String,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    source: String,
    target: String,
    /// Version of the converter.
    version: String,
    /// Name of the model's file.
    file: String,
    size_bytes: u64,
    sha256: String,
}

/// An entry of a [`ConversionCache`].
#[derive(Debug, Clone)]
pub struct CachedModel {
    /// Description of the source.
    pub source: String,
    /// Description of the target.
    pub target: String,
    /// Path of the model.
    pub path: PathBuf,
    /// Size of the model.
    pub size_bytes: u64,
    /// Time since its creation.
    pub age: Duration,
    /// `true` if this version of the converter created it.
    pub is_current: bool,
}

/// The result of [`ConversionCache::prune`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneSummary {
    /// Number of removed entries and leftovers.
    pub entries: usize,
    /// Their total size.
    pub size_bytes: u64,
}

impl ConversionCache {
    /// Opens the cache in a directory, for this version of the converter.
    pub fn new(root: PathBuf, version: &str) -> Self {
        Self { root, version: version.to_owned() }
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the model converted from content with this digest. If it is not cached, `create` writes it
    /// to the path that it is called with.
    ///
    /// # Errors
    ///
    /// Those of `create`, and those of the file system.
    pub fn get_or_create<E: From<HubError>>(
        &self,
        source: &str,
        digest: &str,
        target: &str,
        file: &str,
        create: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let mut key = sha256_of(&format!("{digest}\n{target}\n{}\n", self.version));
        key.truncate(KEY_LEN);
        if let Some(path) = self.complete(&key) {
            return Ok(path);
        }
        fs::create_dir_all(&self.root).map_err(HubError::io(&self.root))?;
        let _lock = lock(&self.root.join(format!("{key}.lock")))?;
        // Another process may have created it meanwhile.
        if let Some(path) = self.complete(&key) {
            return Ok(path);
        }
        let partial = self.root.join(format!("{key}.partial"));
        remove(&self.root.join(&key))?;
        // A leftover, because this process holds the lock.
        remove(&partial)?;
        fs::create_dir(&partial).map_err(HubError::io(&partial))?;
        let created = create(&partial.join(file))
            .and_then(|()| Ok(self.finish(&key, &partial, source, target, file)?));
        if created.is_err() {
            // An earlier error is the one to report.
            let _ = fs::remove_dir_all(&partial);
        }
        created
    }

    fn finish(
        &self,
        key: &str,
        partial: &Path,
        source: &str,
        target: &str,
        file: &str,
    ) -> Result<PathBuf, HubError> {
        let path = partial.join(file);
        let mut model = File::open(&path).map_err(HubError::io(&path))?;
        let manifest = Manifest {
            source: source.to_owned(),
            target: target.to_owned(),
            version: self.version.clone(),
            file: file.to_owned(),
            size_bytes: model.metadata().map_err(HubError::io(&path))?.len(),
            sha256: sha256(&mut model).map_err(HubError::io(&path))?,
        };
        let json = serde_json::to_vec_pretty(&manifest).expect("plain fields can be serialized");
        let manifest_path = partial.join(MANIFEST);
        let mut out = File::create_new(&manifest_path).map_err(HubError::io(&manifest_path))?;
        out.write_all(&json).and_then(|()| out.sync_all()).map_err(HubError::io(&manifest_path))?;
        sync(partial).map_err(HubError::io(partial))?;
        let entry = self.root.join(key);
        fs::rename(partial, &entry).map_err(HubError::io(&entry))?;
        sync(&self.root).map_err(HubError::io(&self.root))?;
        Ok(entry.join(manifest.file))
    }

    /// Returns the model of an entry if it has the size in its manifest.
    fn complete(&self, key: &str) -> Option<PathBuf> {
        let folder = self.root.join(key);
        let manifest = read_manifest(&folder)?;
        let path = folder.join(&manifest.file);
        let len = fs::metadata(&path).ok()?.len();
        (len == manifest.size_bytes).then_some(path)
    }

    /// Returns all entries, the newest first.
    pub fn list(&self) -> Vec<CachedModel> {
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut entries: Vec<CachedModel> =
            folders.filter_map(|folder| self.entry(&folder.path())).collect();
        entries.sort_by_key(|entry| entry.age);
        entries
    }

    fn entry(&self, folder: &Path) -> Option<CachedModel> {
        let manifest = read_manifest(folder)?;
        let made = fs::metadata(folder.join(MANIFEST)).ok()?.modified().ok();
        let age = made.and_then(|made| SystemTime::now().duration_since(made).ok());
        Some(CachedModel {
            source: manifest.source,
            target: manifest.target,
            path: folder.join(manifest.file),
            size_bytes: manifest.size_bytes,
            age: age.unwrap_or_default(),
            is_current: manifest.version == self.version,
        })
    }

    /// Removes the conversions of a source other than the one at `path`. An entry that cannot be removed, because it
    /// is being created or used, stays.
    pub fn remove_others(&self, source: &str, path: &Path) {
        let is_other = |entry: &CachedModel| entry.source == source && entry.path != path;
        for folder in self.list().iter().filter(|entry| is_other(entry)).map(|e| e.path.parent()) {
            let _ = folder.map(fs::remove_dir_all);
        }
    }

    /// Returns `true` if a model has the digest in its manifest. Reads every byte.
    pub fn is_intact(&self, entry: &CachedModel) -> bool {
        let manifest = entry.path.parent().and_then(read_manifest);
        let found = File::open(&entry.path).and_then(|mut file| sha256(&mut file)).ok();
        manifest.is_some_and(|manifest| Some(manifest.sha256) == found)
    }

    /// Removes entries of other versions of the converter and leftovers of killed processes, or all
    /// entries. Entries that are being created are kept.
    pub fn prune(&self, all: bool) -> Result<PruneSummary, HubError> {
        let mut pruned = PruneSummary::default();
        for folder in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let path = folder.path();
            let Some(name) = folder.file_name().to_str().map(str::to_owned) else { continue };
            let key = name.split('.').next().unwrap_or_default();
            if !path.is_dir() || key.len() != KEY_LEN {
                continue;
            }
            if !all && self.entry(&path).is_some_and(|entry| entry.is_current) {
                continue;
            }
            // Held by the process that creates the entry, if there is one.
            let lock = open_lock(&self.root.join(format!("{key}.lock")))?;
            if lock.try_lock().is_err() {
                continue;
            }
            pruned.entries += 1;
            pruned.size_bytes += size_of_folder(&path);
            remove(&path)?;
        }
        Ok(pruned)
    }
}

fn read_manifest(folder: &Path) -> Option<Manifest> {
    if folder.extension().is_some() {
        return None;
    }
    let manifest = fs::read(folder.join(MANIFEST)).ok()?;
    let manifest: Manifest = serde_json::from_slice(&manifest).ok()?;
    crate::reference::is_file(&manifest.file).then_some(manifest)
}

fn remove(folder: &Path) -> Result<(), HubError> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(HubError::io(folder)(e)),
        _ => Ok(()),
    }
}

fn size_of_folder(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

#[cfg(unix)]
fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync(_folder: &Path) -> std::io::Result<()> {
    // Directories cannot be synced here; the rename itself is journaled.
    Ok(())
}
