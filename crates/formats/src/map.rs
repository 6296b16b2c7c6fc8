//! The files of a model: memory-mapped, or built into the program.
//!
//! This is the only module of the crate with unsafe code.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use memmap2::Mmap;

use crate::error::Error;
use crate::size;

/// One file of a model: its name and its read-only bytes.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) name: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Mapped {
        map: Mmap,
        /// For reads that fail with an error where an access to the map would raise a signal.
        file: File,
        /// Time of the last modification, if the system provides it.
        modified: Option<SystemTime>,
    },
    BuiltIn(&'static [u8]),
}

impl SourceFile {
    /// Maps a regular file.
    pub(crate) fn map(path: &Path) -> Result<Self, Error> {
        let file = open_regular(path)?;
        let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
        let name = path.display().to_string();
        if metadata.len() == 0 {
            // Mapping zero bytes is an error on some systems.
            return Ok(Self::built_in(&name, &[]));
        }
        let map = map_read_only(&file).map_err(|e| Error::io(path, e))?;
        let modified = metadata.modified().ok();
        Ok(Self { name, content: Content::Mapped { map, file, modified } })
    }

    pub(crate) fn built_in(name: &str, bytes: &'static [u8]) -> Self {
        Self { name: name.to_owned(), content: Content::BuiltIn(bytes) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Mapped { map, .. } => map,
            Content::BuiltIn(bytes) => bytes,
        }
    }

    /// Copies bytes out of the file. Unlike an access to the map, this returns an error if the file was
    /// truncated.
    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &self.content {
            Content::Mapped { file, .. } => read_exact_at(file, offset, out),
            Content::BuiltIn(bytes) => {
                let found = size::slice(bytes, offset, size::widen(out.len()));
                out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// Fails if the file was modified or truncated since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), Error> {
        let Content::Mapped { map, file, modified } = &self.content else { return Ok(()) };
        let now = file.metadata().map_err(|e| Error::io(Path::new(&self.name), e))?;
        if now.len() == size::widen(map.len()) && now.modified().ok() == *modified {
            return Ok(());
        }
        Err(Error::unsupported(&self.name, "file was modified while it was read"))
    }

    /// Releases the mapped pages: they no longer count as memory of this process, and are read from
    /// the file again when accessed.
    pub(crate) fn release(&self) {
        if let Content::Mapped { map, .. } = &self.content {
            drop_pages(map);
        }
    }
}

/// Returns the name of a model's file with this index.
pub(crate) fn name_of(files: &[SourceFile], at: usize) -> &str {
    files.get(at).map(|file| file.name.as_str()).unwrap_or_default()
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
        return Err(Error::unsupported(path.display(), "not a regular file"));
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
