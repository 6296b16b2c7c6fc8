//! Download of one file: resumed if interrupted, and verified before it is renamed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use crate::api::{Api, RemoteFile};
use crate::error::HubError;
use crate::fetch::Progress;
use crate::store::{RepoStore, create_parent};

/// Size of the read buffer.
const BUFFER_LEN: usize = 1 << 18;
/// Maximum number of consecutive connections without a byte.
const MAX_FAILURES: u32 = 5;

/// The source of a file.
pub(crate) struct Origin<'a> {
    pub(crate) api: &'a Api,
    pub(crate) repo: &'a str,
    pub(crate) commit: &'a str,
}

/// Downloads a file unless it is in the cache.
pub(crate) fn download(
    origin: &Origin<'_>,
    store: &RepoStore,
    file: &RemoteFile,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), HubError> {
    let (blob, partial) = store.blob(&file.digest);
    if blob.exists() {
        return Ok(());
    }
    let _lock = store.lock(&file.digest)?;
    // Another process may have downloaded it meanwhile.
    if blob.exists() {
        return Ok(());
    }
    create_parent(&partial)?;
    let mut report = |done| progress(Progress { file: &file.name, done, total: file.size });
    fill(origin, file, &partial, &mut report)?;
    let found = file.digest.of(&partial).map_err(HubError::io(&partial))?;
    if found != file.digest.name() {
        // It cannot be resumed: the next attempt starts over.
        fs::remove_file(&partial).map_err(HubError::io(&partial))?;
        let what = format!("digest {found}, expected {}", file.digest.name());
        return Err(HubError::Damaged { file: file.name.clone(), what });
    }
    fs::rename(&partial, &blob).map_err(HubError::io(&blob))
}

/// Appends to a partial file until it is complete.
fn fill(
    origin: &Origin<'_>,
    file: &RemoteFile,
    partial: &Path,
    report: &mut dyn FnMut(u64),
) -> Result<(), HubError> {
    let opened = File::options().create(true).append(true).open(partial);
    let out = &mut opened.map_err(HubError::io(partial))?;
    let mut failures = 0;
    loop {
        let mut have = out.metadata().map_err(HubError::io(partial))?.len();
        if have > file.size {
            out.set_len(0).map_err(HubError::io(partial))?;
            have = 0;
        }
        report(have);
        if have == file.size {
            return out.sync_all().map_err(HubError::io(partial));
        }
        let before = have;
        let outcome = append(origin, file, have, out, partial, report);
        let now = out.metadata().map_err(HubError::io(partial))?.len();
        failures = if now > before { 0 } else { failures + 1 };
        match outcome {
            Err(error @ HubError::Io { .. }) => return Err(error),
            Err(error) if failures >= MAX_FAILURES => return Err(error),
            Ok(()) if failures >= MAX_FAILURES => {
                let what = format!("download ended after {now} of {} bytes", file.size);
                return Err(HubError::Damaged { file: file.name.clone(), what });
            }
            _ => {}
        }
    }
}

/// Appends the bytes of one connection.
fn append(
    origin: &Origin<'_>,
    file: &RemoteFile,
    start: u64,
    out: &mut File,
    partial: &Path,
    report: &mut dyn FnMut(u64),
) -> Result<(), HubError> {
    let Origin { api, repo, commit } = *origin;
    let response = api.file(repo, commit, &file.name, start)?;
    let mut have = start;
    if start > 0 && response.status().as_u16() != 206 {
        // The server does not support ranges, and starts over.
        out.set_len(0).map_err(HubError::io(partial))?;
        have = 0;
    }
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; BUFFER_LEN];
    while have < file.size {
        let max = usize::try_from(file.size - have).unwrap_or(BUFFER_LEN).min(BUFFER_LEN);
        let len = match body.read(&mut buffer[..max]) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(e) => {
                let url = format!("{repo}/{}", file.name);
                return Err(HubError::Network { url, what: e.to_string() });
            }
        };
        out.write_all(&buffer[..len]).map_err(HubError::io(partial))?;
        have += len as u64;
        report(have);
    }
    Ok(())
}
