//! Files and directories that are either whole or not there.
//!
//! What is written has a name of its own until all of it is on disk. Its writer holds a lock on it as
//! long as it lives, so that whoever comes later can tell what a killed process left behind from what
//! is still being written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::companions::directory_of;
use crate::error::Error;

/// What becomes of a file that is already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It is an error, and the old file stays.
    #[default]
    Keep,
    /// It is replaced when the new one is whole.
    Replace,
}

/// A model that is written and on disk, but not yet under its name. Dropped, it is gone.
#[derive(Debug)]
#[must_use = "what is not settled is removed"]
pub struct Staged {
    out: PathBuf,
    existing: Existing,
    content: Content,
    /// Files of its own beside it, already under their names.
    beside: Vec<PathBuf>,
}

#[derive(Debug)]
enum Content {
    File(Partial),
    Directory { partial: PartialDirectory, known: Vec<&'static str> },
}

impl Staged {
    /// Writes a file.
    pub(super) fn file(
        out: &Path,
        existing: Existing,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let partial = Partial::create(out)?;
        let at = |e| Error::io(out, e);
        let mut buffered = BufWriter::with_capacity(1 << 20, partial.file.try_clone().map_err(at)?);
        write(&mut buffered)?;
        buffered.flush().map_err(at)?;
        partial.file.sync_all().map_err(at)?;
        let content = Content::File(partial);
        Ok(Self { out: out.to_owned(), existing, content, beside: Vec::new() })
    }

    /// Fills a directory. Of one that is there, only one that holds nothing but `known` names is
    /// replaced.
    pub(super) fn directory(
        out: &Path,
        existing: Existing,
        known: Vec<&'static str>,
        fill: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        // `models/` and `models` are one directory; only the second has a file name to add to.
        let out: PathBuf = out.components().collect();
        check_replaceable(&out, existing, &known)?;
        clear_leftovers(&out);
        let partial = PartialDirectory::create(&out).map_err(|e| Error::io(&out, e))?;
        fill(&partial.path)?;
        let content = Content::Directory { partial, known };
        Ok(Self { out, existing, content, beside: Vec::new() })
    }

    /// The same, to be removed together with these files unless it is settled.
    pub(super) fn with(mut self, beside: Vec<PathBuf>) -> Self {
        self.beside = beside;
        self
    }

    /// Where it can be read.
    pub fn path(&self) -> &Path {
        match &self.content {
            Content::File(partial) => &partial.path,
            Content::Directory { partial, .. } => &partial.path,
        }
    }

    /// Gives it its name.
    pub fn settle(mut self) -> Result<(), Error> {
        let at = |e| Error::io(&self.out, e);
        match &self.content {
            Content::File(partial) => partial.settle(&self.out, self.existing).map_err(at)?,
            Content::Directory { partial, known } => {
                check_replaceable(&self.out, self.existing, known)?;
                partial.settle(&self.out).map_err(at)?;
            }
        }
        self.beside.clear();
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for path in &self.beside {
            // The first error is the one to report.
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes a small file whole.
pub(super) fn write_bytes(path: &Path, existing: Existing, bytes: &[u8]) -> Result<(), Error> {
    Staged::file(path, existing, |out| out.write_all(bytes).map_err(|e| Error::io(path, e)))?
        .settle()
}

/// A file that is being written; it is removed unless it is settled.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    /// Locked as long as it is open.
    file: File,
}

impl Partial {
    fn create(path: &Path) -> Result<Self, Error> {
        clear_leftovers(path);
        let at = |e| Error::io(path, e);
        for number in 0..u32::MAX {
            let partial = partial_path(path, number);
            let file = match File::create_new(&partial) {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(at(e)),
            };
            // Between being made and being locked it looks like a leftover to others.
            if lock(&file).map_err(at)? && partial.exists() {
                return Ok(Self { path: partial, file });
            }
        }
        Err(at(ErrorKind::AlreadyExists.into()))
    }

    /// Gives the file its real name.
    fn settle(&self, path: &Path, existing: Existing) -> io::Result<()> {
        match existing {
            Existing::Replace => fs::rename(&self.path, path)?,
            // A link is refused where a name is taken; a rename would replace it without a word.
            Existing::Keep => match fs::hard_link(&self.path, path) {
                Ok(()) => fs::remove_file(&self.path)?,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(e),
                // Not every file system has links.
                Err(_) if path.exists() => return Err(ErrorKind::AlreadyExists.into()),
                Err(_) => fs::rename(&self.path, path)?,
            },
        }
        sync_directory(directory_of(path))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // The first error is the one to report; what was settled is no longer there.
        let _ = fs::remove_file(&self.path);
    }
}

/// The file by which the writer of a directory holds its lock.
const LOCK_NAME: &str = ".lock";

/// A directory that is being filled; it is removed unless it is settled.
#[derive(Debug)]
struct PartialDirectory {
    path: PathBuf,
    /// Held while the directory is filled.
    _lock: File,
}

impl PartialDirectory {
    fn create(path: &Path) -> io::Result<Self> {
        for number in 0..u32::MAX {
            let partial = partial_path(path, number);
            match fs::create_dir(&partial) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            }
            let Ok(file) = File::create_new(partial.join(LOCK_NAME)) else { continue };
            if lock(&file)? && partial.join(LOCK_NAME).exists() {
                return Ok(Self { path: partial, _lock: file });
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn settle(&self, path: &Path) -> io::Result<()> {
        sync_directory(&self.path)?;
        let old = self.path.with_extension("old");
        let had_old = fs::remove_dir(path).is_err() && path.exists();
        if had_old {
            fs::rename(path, &old)?;
        }
        fs::rename(&self.path, path)?;
        if had_old {
            fs::remove_dir_all(&old)?;
        }
        // Not before: without it, the directory would look like what a killed writer left.
        fs::remove_file(path.join(LOCK_NAME))?;
        sync_directory(directory_of(path))
    }
}

impl Drop for PartialDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Whether a directory may become `path`.
fn check_replaceable(path: &Path, existing: Existing, known: &[&str]) -> Result<(), Error> {
    let names = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io(path, e)),
    };
    for entry in names {
        let name = entry.map_err(|e| Error::io(path, e))?.file_name();
        if existing == Existing::Keep {
            return Err(Error::io(path, ErrorKind::AlreadyExists.into()));
        }
        if name != LOCK_NAME && !known.iter().any(|known| name == **known) {
            let name = crate::error::quote_safely(&name.to_string_lossy());
            let what = format!("a directory with \"{name}\" in it is not replaced as a whole");
            return Err(Error::unsupported(&path.display().to_string(), what));
        }
    }
    Ok(())
}

/// Takes the lock of a new file; false if someone else has it.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        // Some network file systems have no locks: then leftovers are not told apart, nor removed.
        Err(fs::TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => Ok(true),
        Err(fs::TryLockError::Error(e)) => Err(e),
    }
}

/// Beside the real name, so that a rename does not cross file systems.
fn partial_path(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{number}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Removes what killed writers of this path have left. Failing at it is no reason not to write.
fn clear_leftovers(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let entries = fs::read_dir(directory_of(path)).into_iter().flatten().flatten();
    for entry in entries {
        let found = entry.file_name();
        let Some(rest) = found.to_str().and_then(|found| found.strip_prefix(name)) else {
            continue;
        };
        let Some(numbers) = rest.strip_prefix('.').and_then(|r| r.strip_suffix(".partial")) else {
            continue;
        };
        if !numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            continue;
        }
        let left = entry.path();
        if left.is_dir() {
            let _ = match OpenOptions::new().write(true).open(left.join(LOCK_NAME)) {
                Ok(held) if held.try_lock().is_ok() => fs::remove_dir_all(&left),
                Ok(_) => Ok(()),
                // Its writer may be about to make the lock: only if it is empty.
                Err(_) => fs::remove_dir(&left),
            };
        } else if OpenOptions::new().write(true).open(&left).is_ok_and(|f| f.try_lock().is_ok()) {
            let _ = fs::remove_file(&left);
        }
    }
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_directory: &Path) -> io::Result<()> {
    // Directories cannot be opened for syncing here; the rename itself is journaled.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        fs::write(&path, "old").unwrap();
        let result = Staged::file(&path, Existing::Replace, |out| {
            out.write_all(b"half of a new").unwrap();
            Err(Error::unsupported("x", "stop"))
        });
        assert!(result.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["model.gguf"]);
        write_bytes(&path, Existing::Replace, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(directory.path()), ["model.gguf"]);
    }

    #[test]
    fn a_file_that_came_while_we_wrote_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        let staged = Staged::file(&path, Existing::Keep, |out| {
            out.write_all(b"ours").map_err(|e| Error::io(&path, e))
        });
        fs::write(&path, "theirs").unwrap();
        let error = staged.unwrap().settle().unwrap_err();
        assert!(error.to_string().contains("exists"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(directory.path()), ["model.gguf"]);
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_and_what_is_written_now_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("m.gguf.1-0.partial"), "left").unwrap();
        fs::create_dir(at("m.gguf.2-0.partial")).unwrap();
        fs::write(at("m.gguf.notes.partial"), "the user's").unwrap();
        let running = File::create_new(at("m.gguf.3-0.partial")).unwrap();
        running.lock().unwrap();
        write_bytes(&at("m.gguf"), Existing::Keep, b"new").unwrap();
        let expected = ["m.gguf", "m.gguf.3-0.partial", "m.gguf.notes.partial"];
        assert_eq!(names(directory.path()), expected);
    }

    #[test]
    fn a_directory_is_replaced_only_if_all_in_it_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        let write = |existing, text: &str| {
            Staged::directory(&path, existing, vec!["a", "b"], |partial| {
                write_bytes(&partial.join("a"), Existing::Keep, text.as_bytes())
            })
            .and_then(Staged::settle)
        };
        write(Existing::Keep, "one").unwrap();
        assert!(write(Existing::Keep, "two").unwrap_err().to_string().contains("exists"));
        write(Existing::Replace, "three").unwrap();
        assert_eq!(fs::read(path.join("a")).unwrap(), b"three");
        assert_eq!(names(&path), ["a"]);
        fs::write(path.join("diary"), "mine").unwrap();
        let refusal = write(Existing::Replace, "four").unwrap_err().to_string();
        assert!(refusal.contains("\"diary\""), "{refusal}");
        assert_eq!(names(directory.path()), ["model"]);
        assert_eq!(names(&path), ["a", "diary"]);
    }

    #[test]
    fn what_is_not_settled_is_gone_with_all_that_belongs_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("beside"), "b").unwrap();
        let staged = Staged::file(&at("m.bin"), Existing::Keep, |_| Ok(())).unwrap();
        let staged = staged.with(vec![at("beside")]);
        assert!(staged.path().exists());
        drop(staged);
        let filled = Staged::directory(&at("d"), Existing::Keep, Vec::new(), |_| Ok(())).unwrap();
        drop(filled);
        assert_eq!(names(directory.path()), [""; 0]);
    }
}
