//! The bytes of a file, memory-mapped; or bytes that are already in the program.
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
        /// The same file, for reads that give an error where a map would give a signal.
        file: File,
        /// When it was last written, as far as the system tells.
        modified: Option<SystemTime>,
    },
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
        let map = map_read_only(&file).map_err(|e| Error::io(path, e))?;
        Ok(Self::Mapped { map, file, modified: metadata.modified().ok() })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped { map, .. } => map,
            Self::BuiltIn(bytes) => bytes,
        }
    }

    /// Copies bytes out of the file. Unlike a look at the map, this survives a file that was cut short
    /// meanwhile: it is an error then.
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

    /// Whether someone has written to the file, or cut it, since it was opened.
    pub(crate) fn has_changed(&self) -> io::Result<bool> {
        let Self::Mapped { map, file, modified } = self else { return Ok(false) };
        let now = file.metadata()?;
        Ok(now.len() != size::widen(map.len()) || now.modified().ok() != *modified)
    }

    /// Tells the system that the mapped pages are not needed now: they no longer count as memory of
    /// this process, and come back from the file when they are looked at again.
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
#[expect(unsafe_code, reason = "giving pages back can only be asked for by an unsafe call")]
fn drop_pages(map: &Mmap) {
    // SAFETY: the map is read-only and file-backed, so a dropped page is read again from the file when
    // it is next touched: nobody can see a difference. A refusal does no harm.
    let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
}

#[cfg(not(unix))]
fn drop_pages(_map: &Mmap) {
    // The system takes pages of a read-only map back by itself when memory runs short.
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
fn map_read_only(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only and private to this process. Bytes may still change if another
    // process writes the file; we read them as plain integers that are checked again after each
    // read, so a change can give wrong numbers or an error, never a broken type. A model is copied
    // into its compute layout at load, so the map is read for seconds only. Truncation while it is
    // read ends the process with a signal, as for every mapped file; SECURITY.md says so.
    unsafe { Mmap::map(file) }
}
