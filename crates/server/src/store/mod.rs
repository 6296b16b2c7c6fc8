//! Files of callers and their batches, in a directory that survives the process.
//!
//! Every file and batch has a record, a JSON file that is replaced as a whole, and belongs to the caller that
//! created it; for others it does not exist. What a batch does is not known here.

mod disk;
mod owner;
mod upload;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use uuid::Uuid;
use wf_api::wire::{Batch, BatchStatus, FileObject, RequestCounts};

use disk::{create_private_dir, read_json, remove, write_json};
pub(crate) use owner::Owner;
pub(crate) use upload::{NewFile, Upload};

/// Limits on what is stored.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    /// Maximum length of an uploaded file in bytes.
    pub file_len: u64,
    /// Maximum length of all files together. Results that exceed it end their batch.
    pub stored_len: u64,
    /// Maximum number of files of a caller. Those with results count, and are never refused.
    pub files: usize,
    /// Maximum number of batches of a caller that are not over.
    pub open_batches: usize,
    /// Number of batches of a caller that are kept. Beyond it, the oldest that are over are forgotten.
    pub kept_batches: usize,
    /// Maximum number of requests of a batch.
    pub requests: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            file_len: 200 << 20,
            stored_len: 4 << 30,
            files: 1000,
            open_batches: 100,
            kept_batches: 1000,
            requests: 50_000,
        }
    }
}

/// The reason why something cannot be stored or found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("not found")]
    NotFound,
    #[error("the file is used by {batch}, which is not over")]
    InUse { batch: String },
    #[error("your limit of {max} {what} is reached")]
    TooMany { what: &'static str, max: usize },
    #[error("the file is larger than the limit of {max} bytes")]
    TooLarge { max: u64 },
    #[error("the limit of {max} bytes of all stored files is reached")]
    Full { max: u64 },
    #[error("storing failed: {0}")]
    Io(#[from] io::Error),
}

/// Files and batches in a directory. Cheap to clone.
#[derive(Clone)]
pub struct FileStore(Arc<Inner>);

struct Inner {
    dir: PathBuf,
    limits: StoreLimits,
    state: Mutex<State>,
    /// Changes whenever a batch is created or cancelled.
    changes: watch::Sender<()>,
    /// Keeps other processes away.
    _lock: File,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Stored<FileObject>>,
    batches: BTreeMap<String, Stored<BatchRecord>>,
    /// Length of all files and results in bytes.
    stored_len: u64,
}

/// Something with its owner.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Stored<T> {
    pub(crate) owner: Owner,
    pub(crate) item: T,
}

/// A batch, and what only the server needs to know about it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct BatchRecord {
    pub(crate) batch: Batch,
    /// Seconds after which the files of its results are deleted.
    pub(crate) output_lifetime: Option<u64>,
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "files in {}", self.0.dir.display())
    }
}

impl FileStore {
    /// Opens a directory, or creates it, and removes what an interrupted process left unfinished.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used, or another process uses it.
    pub fn open(dir: &Path, limits: StoreLimits) -> io::Result<Self> {
        for folder in ["files", "batches"] {
            create_private_dir(&dir.join(folder))?;
        }
        let lock = File::create(dir.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another server uses this directory"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut state = State {
            files: read_records(&dir.join("files"))?,
            batches: read_records(&dir.join("batches"))?,
            stored_len: 0,
        };
        remove_leftovers(&dir.join("files"), "data", |id| state.files.contains_key(id))?;
        let batches = &state.batches;
        let is_open = |id: &str| batches.get(id).is_some_and(|one| !one.item.is_final());
        remove_leftovers(&dir.join("batches"), "results", is_open)?;
        state.stored_len = stored_len(dir)?;
        let (state, changes) = (Mutex::new(state), watch::Sender::new(()));
        Ok(Self(Arc::new(Inner { dir: dir.to_owned(), limits, state, changes, _lock: lock })))
    }

    pub(crate) fn limits(&self) -> &StoreLimits {
        &self.0.limits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file_path(&self, id: &str, extension: &str) -> PathBuf {
        self.0.dir.join("files").join(format!("{id}.{extension}"))
    }

    fn batch_path(&self, id: &str, extension: &str) -> PathBuf {
        self.0.dir.join("batches").join(format!("{id}.{extension}"))
    }

    /// Counts bytes that are about to be stored.
    pub(crate) fn grow(&self, len: u64) -> Result<(), StoreError> {
        let (mut state, max) = (self.state(), self.0.limits.stored_len);
        if state.stored_len.saturating_add(len) > max {
            return Err(StoreError::Full { max });
        }
        state.stored_len += len;
        Ok(())
    }

    /// Counts bytes that must be stored, whatever the limit.
    pub(crate) fn grow_anyway(&self, len: u64) {
        self.state().stored_len += len;
    }

    fn shrink(&self, len: u64) {
        let mut state = self.state();
        state.stored_len = state.stored_len.saturating_sub(len);
    }
}

/// Files.
impl FileStore {
    /// Begins a file of a caller.
    pub(crate) fn upload(&self, owner: &Owner, now: u64) -> Result<Upload, StoreError> {
        let limits = &self.0.limits;
        if self.files(owner, now).len() >= limits.files {
            return Err(StoreError::TooMany { what: "files", max: limits.files });
        }
        Upload::begin(
            self,
            owner,
            format!("file-{}", Uuid::new_v4().simple()),
            Some(limits.file_len),
        )
    }

    /// Begins a file with results of a batch. Its id follows from that of the batch, so that there is one after
    /// an interruption, too.
    pub(crate) fn begin_results(
        &self,
        batch: &Stored<BatchRecord>,
        kind: &str,
    ) -> Result<Upload, StoreError> {
        let id = batch.item.batch.id.replacen("batch_", "file-", 1);
        Upload::begin(self, &batch.owner, format!("{id}-{kind}"), None)
    }

    fn add_file(&self, file: &Stored<FileObject>) -> Result<(), StoreError> {
        let id = &file.item.id;
        write_json(&self.file_path(id, "json"), file)?;
        let old = self.state().files.insert(id.clone(), file.clone());
        self.shrink(old.map_or(0, |old| old.item.bytes));
        Ok(())
    }

    /// Returns the files of a caller, newest first.
    pub(crate) fn files(&self, owner: &Owner, now: u64) -> Vec<FileObject> {
        let state = self.state();
        let own = state.files.values().filter(|file| file.owner == *owner && !file.is_over(now));
        let mut files: Vec<_> = own.map(|file| file.item.clone()).collect();
        files.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        files
    }

    /// Returns a file of a caller.
    pub(crate) fn file(&self, owner: &Owner, id: &str, now: u64) -> Result<FileObject, StoreError> {
        let state = self.state();
        let file = state.files.get(id).filter(|file| file.owner == *owner && !file.is_over(now));
        file.map(|file| file.item.clone()).ok_or(StoreError::NotFound)
    }

    /// Returns the path of the content of a file.
    pub(crate) fn content(&self, id: &str) -> PathBuf {
        self.file_path(id, "data")
    }

    /// Deletes a file of a caller, unless a batch needs it. Blocks.
    pub(crate) fn delete(&self, owner: &Owner, id: &str, now: u64) -> Result<(), StoreError> {
        self.file(owner, id, now)?;
        self.remove_file(id)
    }

    fn remove_file(&self, id: &str) -> Result<(), StoreError> {
        let mut state = self.state();
        let open = state.batches.values().filter(|batch| !batch.item.is_final());
        let mut users = open.filter(|batch| batch.item.batch.input_file_id == id);
        if let Some(user) = users.next() {
            return Err(StoreError::InUse { batch: user.item.batch.id.clone() });
        }
        // Without its record, the next start removes the rest.
        remove(&self.file_path(id, "json"))?;
        let removed = state.files.remove(id);
        state.stored_len =
            state.stored_len.saturating_sub(removed.map_or(0, |file| file.item.bytes));
        Ok(remove(&self.file_path(id, "data"))?)
    }

    /// Deletes the files whose time is over. Blocks.
    pub(crate) fn purge(&self, now: u64) {
        let over: Vec<String> = {
            let state = self.state();
            let over = state.files.values().filter(|file| file.is_over(now));
            over.map(|file| file.item.id.clone()).collect()
        };
        for id in over {
            // One that is in use goes next time.
            let _ = self.remove_file(&id);
        }
    }
}

/// Batches.
impl FileStore {
    /// Adds a batch of a caller. Blocks.
    pub(crate) fn create(&self, owner: &Owner, record: BatchRecord) -> Result<Batch, StoreError> {
        let limits = self.0.limits;
        let mut state = self.state();
        let own = || state.batches.values().filter(|batch| batch.owner == *owner);
        if own().filter(|batch| !batch.item.is_final()).count() >= limits.open_batches {
            let (what, max) = ("batches that are not over", limits.open_batches);
            return Err(StoreError::TooMany { what, max });
        }
        let mut over: Vec<_> = own().filter(|batch| batch.item.is_final()).collect();
        over.sort_by_key(|batch| batch.item.batch.created_at);
        let surplus = (own().count() + 1).saturating_sub(limits.kept_batches);
        let forgotten = over.into_iter().take(surplus).map(|batch| batch.item.batch.id.clone());
        for id in forgotten.collect::<Vec<_>>() {
            remove(&self.batch_path(&id, "json"))?;
            state.batches.remove(&id);
        }
        let (id, batch) = (record.batch.id.clone(), record.batch.clone());
        let stored = Stored { owner: owner.clone(), item: record };
        write_json(&self.batch_path(&id, "json"), &stored)?;
        state.batches.insert(id, stored);
        drop(state);
        self.0.changes.send_replace(());
        Ok(batch)
    }

    /// Returns the batches of a caller, newest first.
    pub(crate) fn batches(&self, owner: &Owner) -> Vec<Batch> {
        let state = self.state();
        let own = state.batches.values().filter(|batch| batch.owner == *owner);
        let mut batches: Vec<_> = own.map(|batch| batch.item.batch.clone()).collect();
        batches.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        batches
    }

    /// Returns a batch of a caller.
    pub(crate) fn batch(&self, owner: &Owner, id: &str) -> Result<Batch, StoreError> {
        let found = self.find_batch(id).filter(|batch| batch.owner == *owner);
        found.map(|batch| batch.item.batch).ok_or(StoreError::NotFound)
    }

    /// Returns a batch of any caller.
    pub(crate) fn find_batch(&self, id: &str) -> Option<Stored<BatchRecord>> {
        self.state().batches.get(id).cloned()
    }

    /// Returns the batches that are not over, oldest first.
    pub(crate) fn open_batches(&self) -> Vec<Stored<BatchRecord>> {
        let state = self.state();
        let open = state.batches.values().filter(|batch| !batch.item.is_final());
        let mut open: Vec<_> = open.cloned().collect();
        open.sort_by_key(|batch| (batch.item.batch.created_at, batch.item.batch.id.clone()));
        open
    }

    /// Changes a batch, unless it is over, and returns it. Blocks until the change is on disk.
    pub(crate) fn update(
        &self,
        id: &str,
        change: impl FnOnce(&mut Batch),
    ) -> Result<Batch, StoreError> {
        let mut state = self.state();
        let stored = state.batches.get_mut(id).ok_or(StoreError::NotFound)?;
        if !stored.item.is_final() {
            let mut changed = stored.clone();
            change(&mut changed.item.batch);
            write_json(&self.batch_path(id, "json"), &changed)?;
            *stored = changed;
        }
        Ok(stored.item.batch.clone())
    }

    /// Notes the numbers of requests, which the results on disk tell again after an interruption.
    pub(crate) fn count(&self, id: &str, counts: RequestCounts) {
        if let Some(stored) = self.state().batches.get_mut(id) {
            stored.item.batch.request_counts = counts;
        }
    }

    /// Asks a batch of a caller to end, and returns it as it was then: it may have ended since. Blocks.
    pub(crate) fn cancel(&self, owner: &Owner, id: &str, now: u64) -> Result<Batch, StoreError> {
        self.batch(owner, id)?;
        let cancelled = self.update(id, |batch| {
            batch.status = BatchStatus::Cancelling;
            batch.cancelling_at.get_or_insert(now);
        })?;
        self.0.changes.send_replace(());
        Ok(cancelled)
    }

    /// Returns the path of the results of a batch that is not over.
    pub(crate) fn results(&self, id: &str) -> PathBuf {
        self.batch_path(id, "results")
    }

    /// Removes the results of a batch that is over. Blocks.
    pub(crate) fn remove_results(&self, id: &str) -> Result<(), StoreError> {
        let path = self.results(id);
        self.shrink(fs::metadata(&path).map_or(0, |found| found.len()));
        Ok(remove(&path)?)
    }

    /// Returns a signal of batches that are created or cancelled.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }
}

impl Stored<FileObject> {
    fn is_over(&self, now: u64) -> bool {
        self.item.expires_at.is_some_and(|end| end <= now)
    }
}

impl BatchRecord {
    fn is_final(&self) -> bool {
        self.batch.status.is_final()
    }
}

/// Reads the records in a directory by their ids.
fn read_records<T: DeserializeOwned>(dir: &Path) -> io::Result<BTreeMap<String, T>> {
    let mut records = BTreeMap::new();
    for (id, extension, path) in entries(dir)? {
        if extension == "json" {
            let at = |error: io::Error| io::Error::other(format!("{}: {error}", path.display()));
            records.insert(id, read_json(&path).map_err(at)?);
        }
    }
    Ok(records)
}

/// Removes unfinished files, and contents that belong to nothing.
fn remove_leftovers(dir: &Path, content: &str, is_known: impl Fn(&str) -> bool) -> io::Result<()> {
    for (id, extension, path) in entries(dir)? {
        if extension == disk::PART || (extension == content && !is_known(&id)) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Returns the length of all contents.
fn stored_len(dir: &Path) -> io::Result<u64> {
    let mut len = 0;
    for folder in ["files", "batches"] {
        for (_, extension, path) in entries(&dir.join(folder))? {
            if extension != "json" {
                len += fs::metadata(path)?.len();
            }
        }
    }
    Ok(len)
}

/// Returns stem, extension and path of all files in a directory.
fn entries(dir: &Path) -> io::Result<Vec<(String, String, PathBuf)>> {
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let entries = fs::read_dir(dir)?.map(|entry| {
        let path = entry?.path();
        Ok((text(path.file_stem()), text(path.extension()), path))
    });
    entries.collect()
}

#[cfg(test)]
mod tests;
