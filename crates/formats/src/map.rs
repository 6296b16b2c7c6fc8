//! The bytes of a file, memory-mapped; or bytes that are already in the program.
//!
//! This is the only module of the crate with unsafe code.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

use crate::error::Error;

/// Read-only bytes of one file.
#[derive(Debug)]
pub(crate) enum FileBytes {
    Mapped(Mmap),
    BuiltIn(&'static [u8]),
}

impl FileBytes {
    /// Maps a whole regular file.
    pub(crate) fn map(path: &Path) -> Result<Self, Error> {
        let file = open_regular(path)?;
        let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
        if metadata.len() == 0 {
            // Mapping zero bytes is an error on some systems; an empty file is an empty slice.
            return Ok(Self::BuiltIn(&[]));
        }
        map_read_only(&file).map(Self::Mapped).map_err(|e| Error::io(path, e))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::BuiltIn(bytes) => bytes,
        }
    }
}

/// Opens a file that has an end. Asked before it is opened: to open a pipe is to wait for a writer.
pub(crate) fn open_regular(path: &Path) -> Result<File, Error> {
    let metadata = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if !metadata.is_file() {
        return Err(Error::unsupported(&path.display().to_string(), "not a regular file"));
    }
    File::open(path).map_err(|e| Error::io(path, e))
}

#[expect(unsafe_code, reason = "a memory map can only be made by an unsafe call")]
fn map_read_only(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is read-only and private to this process. Bytes may still change if another
    // process writes the file; we read them as plain integers that are checked again after each
    // read, so a change can give wrong numbers or an error, never a broken type. A model is copied
    // into its compute layout at load, so the map is read for seconds only. Truncation while it is
    // read ends the process with a signal, as for every mapped file; SECURITY.md says so.
    unsafe { Mmap::map(file) }
}
