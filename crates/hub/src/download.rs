//! Download of one file: resumed if interrupted, and verified before it is renamed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use crate::api::{Api, RemoteFile};
use crate::error::HubError;
use crate::store::{RepoStore, create_parent};

const BUFFER_LEN: usize = 1 << 18;
/// Maximum number of consecutive connections without a byte.
const MAX_FAILURES: u32 = 5;

/// Progress of the download of a file.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Name in the repository.
    pub file: &'a str,
    /// Bytes received so far.
    pub done: u64,
    /// Size of the file.
    pub total: u64,
}

/// A file to download.
pub(crate) struct Request<'a> {
    pub(crate) api: &'a Api,
    pub(crate) repo: &'a str,
    pub(crate) commit: &'a str,
    pub(crate) file: &'a RemoteFile,
}

impl Request<'_> {
    /// Downloads the file unless it is in the cache.
    pub(crate) fn download(
        &self,
        store: &RepoStore,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), HubError> {
        let RemoteFile { name, size, digest } = self.file;
        let (blob, partial) = store.blob(digest);
        if blob.exists() {
            return Ok(());
        }
        let _lock = store.lock(digest)?;
        // Another process may have downloaded it meanwhile.
        if blob.exists() {
            return Ok(());
        }
        create_parent(&partial)?;
        self.fill(&partial, &mut |done| progress(Progress { file: name, done, total: *size }))?;
        let found = digest.of(&partial).map_err(HubError::io(&partial))?;
        if found != digest.name() {
            // It cannot be resumed: the next attempt starts over.
            fs::remove_file(&partial).map_err(HubError::io(&partial))?;
            return Err(self.discarded(&format!("digest {found}, expected {}", digest.name())));
        }
        fs::rename(&partial, &blob).map_err(HubError::io(&blob))
    }

    fn discarded(&self, what: &str) -> HubError {
        HubError::new(&self.file.name, format!("{what}; the download was discarded"))
    }

    /// Appends to a partial file until it is complete.
    fn fill(&self, partial: &Path, report: &mut dyn FnMut(u64)) -> Result<(), HubError> {
        let size = self.file.size;
        let opened = File::options().create(true).append(true).open(partial);
        let out = &mut opened.map_err(HubError::io(partial))?;
        let mut failures = 0;
        loop {
            let mut have = out.metadata().map_err(HubError::io(partial))?.len();
            if have > size {
                out.set_len(0).map_err(HubError::io(partial))?;
                have = 0;
            }
            report(have);
            if have == size {
                return out.sync_all().map_err(HubError::io(partial));
            }
            let outcome = self.append(have, out, partial, report);
            let now = out.metadata().map_err(HubError::io(partial))?.len();
            failures = if now > have { 0 } else { failures + 1 };
            match outcome {
                Err(error) if error.source.is_some() || failures >= MAX_FAILURES => {
                    return Err(error);
                }
                Ok(()) if failures >= MAX_FAILURES => {
                    let what = format!("download ended after {now} of {size} bytes");
                    return Err(self.discarded(&what));
                }
                _ => {}
            }
        }
    }

    /// Appends the bytes of one connection.
    fn append(
        &self,
        start: u64,
        out: &mut File,
        partial: &Path,
        report: &mut dyn FnMut(u64),
    ) -> Result<(), HubError> {
        let Self { repo, file, .. } = self;
        let response = self.api.file(repo, self.commit, &file.name, start)?;
        let mut have = start;
        if start > 0 && response.status().as_u16() != 206 {
            // The server does not support ranges, and starts over.
            out.set_len(0).map_err(HubError::io(partial))?;
            have = 0;
        }
        let mut body = response.into_body().into_reader().take(file.size - have);
        let mut buffer = vec![0; BUFFER_LEN];
        loop {
            let read = body.read(&mut buffer);
            let len = read.map_err(|e| HubError::new(format!("{repo}/{}", file.name), e))?;
            if len == 0 {
                return Ok(());
            }
            out.write_all(&buffer[..len]).map_err(HubError::io(partial))?;
            have += len as u64;
            report(have);
        }
    }
}
