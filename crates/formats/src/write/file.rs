//! Files that are either whole or not there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

#[cfg(unix)]
use crate::companions::directory_of;
use crate::error::Error;

/// Writes a file under a name of its own, and gives it its real name only when all of it is on disk. A
/// file that is there (and may be mapped by someone) is replaced, never written over.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Error>,
) -> Result<(), Error> {
    let partial = partial_path(path);
    let result = fill(&partial, write).and_then(|()| {
        fs::rename(&partial, path).map_err(|e| Error::io(path, e))?;
        sync_directory(path).map_err(|e| Error::io(path, e))
    });
    if result.is_err() {
        // The first error is the one to report; a leftover may not even exist.
        let _ = fs::remove_file(&partial);
    }
    result
}

/// The same for bytes that are already there.
pub(super) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_whole(path, |out| out.write_all(bytes).map_err(|e| Error::io(path, e)))
}

fn fill(
    partial: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Error>,
) -> Result<(), Error> {
    let at = |e| Error::io(partial, e);
    let mut out = BufWriter::with_capacity(1 << 20, File::create_new(partial).map_err(at)?);
    write(&mut out)?;
    out.flush().map_err(at)?;
    out.get_ref().sync_all().map_err(at)
}

/// Beside the real name, so that a rename does not cross file systems.
fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_path: &Path) -> io::Result<()> {
    // Directories cannot be opened for syncing here; the rename itself is journaled.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        fs::write(&path, "old").unwrap();
        let result = write_whole(&path, |out| {
            out.write_all(b"half of a new").unwrap();
            Err(Error::unsupported("x", "stop"))
        });
        assert!(result.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        write_bytes(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
