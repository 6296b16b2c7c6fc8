//! The bytes of a memory-mapped file, or of a model built into the program.
//!
//! This is the only module of the crate with unsafe code.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use memmap2::Mmap;

use crate::error::Error;
use crate::size;

/// Read-only bytes of one file.
#[derive(Debug)]
pub(crate) enum FileBytes {
    Mapped {
        map: Mmap,
        /// For reads that fail with an error where an access to the map would raise a signal.
        file: File,
        /// Time of the last modification, if the system provides it.
        modified: Option<SystemTime>,
    },
    BuiltIn(&'static [u8]),
}

impl FileBytes {
    /// Maps a regular file.
    pub(crate) fn map(path: &Path) -> Result<Self, Error> {
        let file = open_regular(path)?;
        let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
        if metadata.len() == 0 {
            // Mapping zero bytes is an error on some systems.
            return Ok(Self::BuiltIn(&[]));
        }
        let map = map_read_only(&file).map_err(|e| Error::io(path, e))?;
        Ok(Self::Mapped { map, file, modified: metadata.modified().ok() })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped { map, .. } => map,
            Self::BuiltIn(bytes) => bytes,
        }
    }

    /// Copies bytes out of the file. Unlike an access to the map, this returns an error if the file was
    /// truncated.
    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Mapped { file, .. } => read_exact_at(file, offset, out),
            Self::BuiltIn(bytes) => {
                let found = size::slice(bytes, offset, size::widen(out.len()));
                out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// Returns `true` if the file was modified or truncated since it was opened.
    pub(crate) fn has_changed(&self) -> io::Result<bool> {
        let Self::Mapped { map, file, modified } = self else { return Ok(false) };
        let now = file.metadata()?;
        Ok(now.len() != size::widen(map.len()) || now.modified().ok() != *modified)
    }

    /// Releases the mapped pages: they no longer count as memory of this process, and are read from
    /// the file again when accessed.
    pub(crate) fn release(&self) {
        if let Self::Mapped { map, .. } = self {
            drop_pages(map);
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.read_exact_at(out, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !out.is_empty() {
        let read = file.seek_read(out, offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset = offset.saturating_add(size::widen(read));
        out = out.split_at_mut(read).1;
    }
    Ok(())
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "madvise is unsafe")]
fn drop_pages(map: &Mmap) {
    // SAFETY: the map is read-only and file-backed, so a dropped page is read from the file again when
    // it is next accessed, with the same content. Failure is harmless.
    let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
}

#[cfg(not(unix))]
fn drop_pages(_map: &Mmap) {
    // The system reclaims pages of a read-only map when memory is short.
}

/// Opens a regular file. Its type is checked before it is opened, because opening a pipe blocks.
pub(crate) fn open_regular(path: &Path) -> Result<File, Error> {
    let metadata = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if !metadata.is_file() {
        return Err(Error::unsupported(&path.display().to_string(), "not a regular file"));
    }
    File::open(path).map_err(|e| Error::io(path, e))
}

#[expect(unsafe_code, reason = "mapping a file is unsafe")]
fn map_read_only(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only and private to this process. Bytes may still change if another
    // process writes the file; they are read as plain integers that are validated after each read, so
    // a change can give wrong numbers or an error, never an invalid value of a type. A model is
    // copied into its compute layout at load, so the map is read for seconds only. Truncation while it
    // is read ends the process with a signal, as for every mapped file; SECURITY.md documents this.
    unsafe { Mmap::map(file) }
}
