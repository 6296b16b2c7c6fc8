//! Models that were made from others, kept for the next time.
//!
//! ```text
//! <key>/manifest.json     what it was made from, and the digest of what was made
//! <key>/<file>            the model
//! <key>.lock              held by whoever makes it, and by nobody else
//! ```
//!
//! The key is a digest of the source's content, the target and the version of the converter. An entry is
//! filled under another name and renamed when it is on disk: it is whole or not there. However many
//! processes ask at once, one makes it and the others wait for its lock.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::digest::{sha256, sha256_of};
use crate::error::HubError;

const MANIFEST: &str = "manifest.json";
/// Characters of a key: far more than would ever collide.
const KEY_LEN: usize = 32;

/// A folder of conversions.
#[derive(Debug, Clone)]
pub struct Conversions {
    root: PathBuf,
    version: String,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    source: String,
    target: String,
    /// Version of the converter.
    version: String,
    /// The model's file in the entry.
    file: String,
    size_bytes: u64,
    sha256: String,
}

/// A conversion that is kept.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it was made from.
    pub source: String,
    /// What it was made into.
    pub target: String,
    /// The model.
    pub path: PathBuf,
    /// Its length.
    pub size_bytes: u64,
    /// How long ago it was made.
    pub age: Duration,
    /// Whether this version of the converter made it.
    pub is_current: bool,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Conversions and leftovers.
    pub entries: usize,
    /// Bytes of all of them.
    pub size_bytes: u64,
}

impl Conversions {
    /// Conversions in a folder, made by this version of the converter.
    pub fn new(root: PathBuf, version: &str) -> Self {
        Self { root, version: version.to_owned() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The model made from content with this digest, if it is kept; else `make` makes it, given the
    /// path of a file that is not there yet.
    ///
    /// # Errors
    ///
    /// Those of `make`, and those of the file system as `E` can hold them.
    pub fn get_or_make<E: From<HubError>>(
        &self,
        source: &str,
        digest: &str,
        target: &str,
        file: &str,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let mut key = sha256_of(&format!("{digest}\n{target}\n{}\n", self.version));
        key.truncate(KEY_LEN);
        if let Some(path) = self.whole(&key) {
            return Ok(path);
        }
        fs::create_dir_all(&self.root).map_err(HubError::io(&self.root))?;
        let _lock = self.lock(&key)?;
        // Another process may have made it while we waited.
        if let Some(path) = self.whole(&key) {
            return Ok(path);
        }
        let partial = self.root.join(format!("{key}.partial"));
        remove(&self.root.join(&key))?;
        // Whoever left it is gone: we have the lock.
        remove(&partial)?;
        fs::create_dir(&partial).map_err(HubError::io(&partial))?;
        let made = make(&partial.join(file)).and_then(|()| {
            let (target, file) = (target.to_owned(), file.to_owned());
            self.finish(&key, &partial, source, target, file).map_err(E::from)
        });
        if made.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_dir_all(&partial);
        }
        made
    }

    fn finish(
        &self,
        key: &str,
        partial: &Path,
        source: &str,
        target: String,
        file: String,
    ) -> Result<PathBuf, HubError> {
        let path = partial.join(&file);
        let mut model = File::open(&path).map_err(HubError::io(&path))?;
        let size_bytes = model.metadata().map_err(HubError::io(&path))?.len();
        let sha256 = sha256(&mut model).map_err(HubError::io(&path))?;
        let (source, version) = (source.to_owned(), self.version.clone());
        let manifest = Manifest { source, target, version, file, size_bytes, sha256 };
        let json = serde_json::to_vec_pretty(&manifest).expect("plain fields can be written");
        let place = partial.join(MANIFEST);
        let mut out = File::create_new(&place).map_err(HubError::io(&place))?;
        out.write_all(&json).and_then(|()| out.sync_all()).map_err(HubError::io(&place))?;
        sync(partial).map_err(HubError::io(partial))?;
        let entry = self.root.join(key);
        fs::rename(partial, &entry).map_err(HubError::io(&entry))?;
        sync(&self.root).map_err(HubError::io(&self.root))?;
        Ok(entry.join(manifest.file))
    }

    fn lock(&self, key: &str) -> Result<File, HubError> {
        let path = self.root.join(format!("{key}.lock"));
        let file = File::options().create(true).write(true).truncate(false).open(&path);
        let file = file.map_err(HubError::io(&path))?;
        file.lock().map_err(HubError::io(&path))?;
        Ok(file)
    }

    /// The model of an entry that has the length its manifest says.
    fn whole(&self, key: &str) -> Option<PathBuf> {
        let folder = self.root.join(key);
        let manifest = read_manifest(&folder)?;
        let path = folder.join(&manifest.file);
        let len = fs::metadata(&path).ok()?.len();
        (len == manifest.size_bytes).then_some(path)
    }

    /// Every conversion that is kept, the newest first.
    pub fn list(&self) -> Vec<Entry> {
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut entries: Vec<Entry> =
            folders.filter_map(|folder| self.entry(&folder.path())).collect();
        entries.sort_by_key(|entry| entry.age);
        entries
    }

    fn entry(&self, folder: &Path) -> Option<Entry> {
        let manifest = read_manifest(folder)?;
        let made = fs::metadata(folder.join(MANIFEST)).ok()?.modified().ok();
        let age = made.and_then(|made| SystemTime::now().duration_since(made).ok());
        Some(Entry {
            source: manifest.source,
            target: manifest.target,
            path: folder.join(manifest.file),
            size_bytes: manifest.size_bytes,
            age: age.unwrap_or_default(),
            is_current: manifest.version == self.version,
        })
    }

    /// Whether a kept model still has the bytes it was made with. Reads all of them.
    pub fn is_sound(&self, entry: &Entry) -> bool {
        let manifest = entry.path.parent().and_then(read_manifest);
        let found = File::open(&entry.path).and_then(|mut file| sha256(&mut file)).ok();
        manifest.is_some_and(|manifest| Some(manifest.sha256) == found)
    }

    /// Removes what other versions of the converter made and what killed processes left; or all of it.
    /// What is being made at this moment stays.
    pub fn prune(&self, all: bool) -> Result<Pruned, HubError> {
        let mut pruned = Pruned::default();
        for folder in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let path = folder.path();
            let Some(name) = folder.file_name().to_str().map(str::to_owned) else { continue };
            let key = name.split('.').next().unwrap_or_default();
            if !path.is_dir() || key.len() != KEY_LEN {
                continue;
            }
            let keep = !all && self.entry(&path).is_some_and(|entry| entry.is_current);
            if keep {
                continue;
            }
            // Held by its maker, if it has one.
            let lock_path = self.root.join(format!("{key}.lock"));
            let lock = File::options().create(true).write(true).truncate(false).open(&lock_path);
            let lock = lock.map_err(HubError::io(&lock_path))?;
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
    // Folders cannot be opened for syncing here; the rename itself is journaled.
    Ok(())
}
