//! A file that is being written.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use wf_api::wire::FileObject;

use super::disk::{PART, publish, remove};
use super::{FileStore, Owner, StoreError, Stored};

/// Name, purpose and lifetime of a new file.
pub(crate) struct NewFile {
    pub(crate) filename: String,
    pub(crate) purpose: &'static str,
    pub(crate) created_at: u64,
    pub(crate) expires_at: Option<u64>,
}

/// A file that is being written. Nothing of it stays unless it is finished.
pub(crate) struct Upload {
    store: FileStore,
    owner: Owner,
    id: String,
    /// Maximum length in bytes. Results have none: they were counted when they were computed.
    max_len: Option<u64>,
    file: Option<File>,
    len: u64,
}

impl Upload {
    /// Begins a file. The caller has checked that the owner may have one more.
    pub(super) fn begin(
        store: &FileStore,
        owner: &Owner,
        id: String,
        max_len: Option<u64>,
    ) -> Result<Self, StoreError> {
        let mut upload =
            Self { store: store.clone(), owner: owner.clone(), id, max_len, file: None, len: 0 };
        upload.file = Some(File::create(upload.part())?);
        Ok(upload)
    }

    fn part(&self) -> PathBuf {
        self.store.file_path(&self.id, PART)
    }

    /// Appends bytes. Blocks.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let len = bytes.len() as u64;
        match self.max_len {
            Some(max) if self.len + len > max => return Err(StoreError::TooLarge { max }),
            Some(_) => self.store.grow(len)?,
            None => self.store.grow_anyway(len),
        }
        self.len += len;
        let Some(file) = &mut self.file else { return Err(StoreError::NotFound) };
        Ok(file.write_all(bytes)?)
    }

    /// True if nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes the file visible to its owner. Blocks until it is on disk.
    pub(crate) fn finish(mut self, new: NewFile) -> Result<FileObject, StoreError> {
        let Some(file) = self.file.take() else { return Err(StoreError::NotFound) };
        let published = publish(&file, &self.part(), &self.store.file_path(&self.id, "data"));
        let object = FileObject {
            id: self.id.clone(),
            object: "file".into(),
            bytes: self.len,
            created_at: new.created_at,
            expires_at: new.expires_at,
            filename: new.filename,
            purpose: new.purpose.into(),
            status: "processed".into(),
        };
        let stored = Stored { owner: self.owner.clone(), item: object };
        let added = published.map_err(StoreError::from).and_then(|()| self.store.add_file(&stored));
        match added {
            // The bytes belong to the file now.
            Ok(()) => self.len = 0,
            Err(error) => {
                self.store.shrink(self.len);
                self.len = 0;
                return Err(error);
            }
        }
        Ok(stored.item)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.store.shrink(self.len);
        if self.file.take().is_some() {
            // If this fails, the next start removes it.
            let _ = remove(&self.part());
        }
    }
}
