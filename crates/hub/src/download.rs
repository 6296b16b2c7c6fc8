//! One file, fetched whole: going on where it was cut off, and checked before it gets its name.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use crate::api::{Api, RemoteFile};
use crate::error::HubError;
use crate::fetch::Progress;
use crate::store::{RepoStore, make_parent};

/// Bytes that are taken from the connection at a time.
const CHUNK: usize = 1 << 18;
/// How often a connection may break without a single byte in between.
const FRUITLESS_TRIES: u32 = 5;

/// Where a file comes from.
pub(crate) struct Origin<'a> {
    pub(crate) api: &'a Api,
    pub(crate) repo: &'a str,
    pub(crate) commit: &'a str,
}

/// Fetches the content of a file unless it is there.
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
    // Another process may have fetched it while we waited.
    if blob.exists() {
        return Ok(());
    }
    make_parent(&partial)?;
    let mut told = |done| progress(Progress { file: &file.name, done, total: file.size });
    fill(origin, file, &partial, &mut told)?;
    let found = file.digest.of(&partial).map_err(HubError::io(&partial))?;
    if found != file.digest.name() {
        // What is wrong cannot be completed: the next try starts from nothing.
        fs::remove_file(&partial).map_err(HubError::io(&partial))?;
        let what = format!("digest {found}, the hub says {}", file.digest.name());
        return Err(HubError::Damaged { file: file.name.clone(), what });
    }
    fs::rename(&partial, &blob).map_err(HubError::io(&blob))
}

/// Appends to what is there until the file has its length.
fn fill(
    origin: &Origin<'_>,
    file: &RemoteFile,
    partial: &Path,
    told: &mut dyn FnMut(u64),
) -> Result<(), HubError> {
    let opened = File::options().create(true).append(true).open(partial);
    let out = &mut opened.map_err(HubError::io(partial))?;
    let mut fruitless = 0;
    loop {
        let mut have = out.metadata().map_err(HubError::io(partial))?.len();
        if have > file.size {
            out.set_len(0).map_err(HubError::io(partial))?;
            have = 0;
        }
        told(have);
        if have == file.size {
            return out.sync_all().map_err(HubError::io(partial));
        }
        let before = have;
        let outcome = append(origin, file, have, out, partial, told);
        let now = out.metadata().map_err(HubError::io(partial))?.len();
        fruitless = if now > before { 0 } else { fruitless + 1 };
        match outcome {
            Err(error @ HubError::Io { .. }) => return Err(error),
            Err(error) if fruitless >= FRUITLESS_TRIES => return Err(error),
            Ok(()) if fruitless >= FRUITLESS_TRIES => {
                let what = format!("ends after {now} of {} bytes", file.size);
                return Err(HubError::Damaged { file: file.name.clone(), what });
            }
            _ => {}
        }
    }
}

/// One connection: as many bytes as it gives.
fn append(
    origin: &Origin<'_>,
    file: &RemoteFile,
    start: u64,
    out: &mut File,
    partial: &Path,
    told: &mut dyn FnMut(u64),
) -> Result<(), HubError> {
    let Origin { api, repo, commit } = *origin;
    let response = api.file(repo, commit, &file.name, start)?;
    let mut have = start;
    if start > 0 && response.status().as_u16() != 206 {
        // The server does not go on in the middle: it starts again, and so do we.
        out.set_len(0).map_err(HubError::io(partial))?;
        have = 0;
    }
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; CHUNK];
    while have < file.size {
        let most = usize::try_from(file.size - have).unwrap_or(CHUNK).min(CHUNK);
        let len = match body.read(&mut buffer[..most]) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(e) => {
                let url = format!("{repo}/{}", file.name);
                return Err(HubError::Network { url, what: e.to_string() });
            }
        };
        out.write_all(&buffer[..len]).map_err(HubError::io(partial))?;
        have += len as u64;
        told(have);
    }
    Ok(())
}
