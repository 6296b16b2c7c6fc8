//! Files that are complete or absent, whenever the process ends.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Extension of files that are not complete.
pub(super) const PART: &str = "part";

/// Creates a directory that other users cannot read, unless it exists.
pub(super) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Replaces a file by one with the JSON of a value.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let part = path.with_extension(PART);
    let mut file = File::create(&part)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    publish(&file, &part, path)
}

/// Gives a file that was written completely its name.
pub(super) fn publish(file: &File, part: &Path, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(part, path)?;
    sync_parent(path)
}

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Removes a file, if it exists.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Waits until the names in the directory of a file are on disk. Windows has no such operation.
fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if cfg!(unix) => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}
