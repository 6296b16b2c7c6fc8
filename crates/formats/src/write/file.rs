//! Atomic creation of files and directories.
//!
//! Output has a temporary name until it is complete and synced to disk. Its writer holds a lock on it,
//! so that leftovers of a killed process can be told apart from output that is still being written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::companions::directory_of;
use crate::error::Error;

/// Handling of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// It is an error, and the existing file stays.
    #[default]
    Fail,
    /// It is replaced when the new file is complete.
    Replace,
}

/// A model that is on disk under a temporary name. It is removed when dropped.
#[derive(Debug)]
#[must_use = "a model that is not committed is removed"]
pub struct Staged {
    out: PathBuf,
    if_exists: IfExists,
    partial: Partial,
    /// The only names that a directory to be replaced may contain; `None` for a file.
    known: Option<Vec<&'static str>>,
    beside: Beside,
}

/// Other files of a model, which have their names already. They are removed when dropped, unless the model is
/// committed.
#[derive(Debug, Default)]
pub(super) struct Beside(Vec<PathBuf>);

impl Beside {
    pub(super) fn add(&mut self, path: PathBuf) {
        self.0.push(path);
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        for path in &self.0 {
            // An earlier error is the one to report.
            let _ = fs::remove_file(path);
        }
    }
}

impl Staged {
    pub(super) fn file(
        out: &Path,
        if_exists: IfExists,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let at = |e| Error::io(out, e);
        let partial = Partial::create(out, false).map_err(at)?;
        let mut buffered = BufWriter::with_capacity(1 << 20, partial.lock.try_clone().map_err(at)?);
        write(&mut buffered)?;
        buffered.flush().map_err(at)?;
        partial.lock.sync_all().map_err(at)?;
        Ok(Self { out: out.to_owned(), if_exists, partial, known: None, beside: Beside::default() })
    }

    /// Writes a directory. An existing one is replaced only if it contains nothing but `known` names.
    pub(super) fn directory(
        out: &Path,
        if_exists: IfExists,
        known: Vec<&'static str>,
        fill: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        // Without a trailing slash, so that there is a file name to extend.
        let out: PathBuf = out.components().collect();
        check_replaceable(&out, if_exists, &known)?;
        let partial = Partial::create(&out, true).map_err(|e| Error::io(&out, e))?;
        fill(&partial.path)?;
        Ok(Self { out, if_exists, partial, known: Some(known), beside: Beside::default() })
    }

    /// Adds files that are removed, too, unless the model is committed.
    pub(super) fn with(mut self, beside: Beside) -> Self {
        self.beside = beside;
        self
    }

    /// Returns the temporary path.
    pub fn path(&self) -> &Path {
        &self.partial.path
    }

    /// Renames it to its final name.
    pub fn commit(mut self) -> Result<(), Error> {
        let committed = match &self.known {
            None => self.partial.commit_file(&self.out, self.if_exists),
            Some(known) => {
                check_replaceable(&self.out, self.if_exists, known)?;
                self.partial.commit_directory(&self.out)
            }
        };
        committed.map_err(|e| Error::io(&self.out, e))?;
        self.beside.0.clear();
        Ok(())
    }
}

/// Writes a small file atomically.
pub(super) fn write_bytes(path: &Path, if_exists: IfExists, bytes: &[u8]) -> Result<(), Error> {
    Staged::file(path, if_exists, |out| out.write_all(bytes).map_err(|e| Error::io(path, e)))?
        .commit()
}

/// The file that the writer of a directory locks.
const LOCK_NAME: &str = ".lock";
/// Extensions of temporary paths: of one that is being written, and of one that is being replaced.
const PARTIAL_EXTENSION: &str = "partial";
const OLD_EXTENSION: &str = "old";

/// A file or directory that is being written. It is removed unless it is committed.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    /// The file itself, or the lock file of a directory. Locked while it is open.
    lock: File,
}

/// A directory that was replaced and has to be removed.
struct Replaced {
    path: PathBuf,
    /// Held until then, so that other writers do not take it for a leftover.
    _lock: File,
}

impl Partial {
    fn create(path: &Path, is_directory: bool) -> io::Result<Self> {
        clear_leftovers(path);
        for number in 0..u32::MAX {
            let partial = partial_path(path, number);
            let mut locked = partial.clone();
            if is_directory {
                locked.push(LOCK_NAME);
                match fs::create_dir(&partial) {
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                    created => created?,
                }
            }
            let file = match File::create_new(&locked) {
                Ok(file) => file,
                Err(e) if is_directory || e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            };
            // Between creation and locking, others take it for a leftover and may remove it.
            if lock(&file)? && locked.exists() {
                return Ok(Self { path: partial, lock: file });
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Renames the file to its final name.
    fn commit_file(&self, path: &Path, if_exists: IfExists) -> io::Result<()> {
        match if_exists {
            IfExists::Replace => fs::rename(&self.path, path)?,
            // Unlike a rename, a link does not replace an existing file.
            IfExists::Fail => match fs::hard_link(&self.path, path) {
                Ok(()) => fs::remove_file(&self.path)?,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(e),
                // Some file systems have no links.
                Err(_) if path.exists() => return Err(ErrorKind::AlreadyExists.into()),
                Err(_) => fs::rename(&self.path, path)?,
            },
        }
        sync_directory(directory_of(path))
    }

    /// Renames the directory to its final name.
    fn commit_directory(&self, path: &Path) -> io::Result<()> {
        sync_directory(&self.path)?;
        let had_old = fs::remove_dir(path).is_err() && path.exists();
        let old = match had_old {
            true => Some(self.replace_directory(path)?),
            false => fs::rename(&self.path, path).map(|()| None)?,
        };
        // Only now, because a temporary directory without it is taken for a leftover; and before the old one is
        // removed, which takes long enough to be killed in.
        fs::remove_file(path.join(LOCK_NAME))?;
        if let Some(old) = old {
            remove_locked(&old.path)?;
        }
        sync_directory(directory_of(path))
    }

    /// Puts the directory in the place of another one, at once where the system can, and returns the other one
    /// under its temporary name: a process that is killed meanwhile leaves the old or the new one. Elsewhere, the next
    /// writer puts the old one back.
    fn replace_directory(&self, path: &Path) -> io::Result<Replaced> {
        // The old one is a leftover from now on, and this process is its writer.
        let old_lock = File::create(path.join(LOCK_NAME))?;
        lock(&old_lock)?;
        if exchange(&self.path, path).is_ok() {
            return Ok(Replaced { path: self.path.clone(), _lock: old_lock });
        }
        let old = self.path.with_extension(OLD_EXTENSION);
        fs::rename(path, &old)?;
        if let Err(error) = fs::rename(&self.path, path) {
            fs::rename(&old, path)?;
            return Err(error);
        }
        Ok(Replaced { path: old, _lock: old_lock })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It no longer exists if it was committed.
        let _ = fs::remove_file(&self.path).or_else(|_| remove_locked(&self.path));
    }
}

/// Checks that a directory may be written to `path`.
fn check_replaceable(path: &Path, if_exists: IfExists, known: &[&str]) -> Result<(), Error> {
    let names = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io(path, e)),
    };
    for entry in names {
        let name = entry.map_err(|e| Error::io(path, e))?.file_name();
        if if_exists == IfExists::Fail {
            return Err(Error::io(path, ErrorKind::AlreadyExists.into()));
        }
        if name != LOCK_NAME && !known.iter().any(|known| name == **known) {
            let name = crate::error::quote_safely(&name.to_string_lossy());
            let what = format!("directory contains \"{name}\", so it is not replaced");
            return Err(Error::unsupported(path.display(), what));
        }
    }
    Ok(())
}

/// Locks a new file; returns `false` if another process holds the lock.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        // Some network file systems have no locks: there, leftovers are not removed.
        Err(fs::TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => Ok(true),
        Err(fs::TryLockError::Error(e)) => Err(e),
    }
}

/// Returns a temporary path in the same directory, so that a rename does not cross file systems.
fn partial_path(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{number}.{PARTIAL_EXTENSION}", std::process::id()));
    path.with_file_name(name)
}

/// Exchanges two directories.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Returns `true` if no process writes or replaces a directory any more.
fn is_abandoned(directory: &Path) -> bool {
    let held = OpenOptions::new().write(true).open(directory.join(LOCK_NAME));
    held.is_ok_and(|held| held.try_lock().is_ok())
}

/// Removes a directory, its lock last: without it, the next writer would not know what a killed one leaves.
fn remove_locked(directory: &Path) -> io::Result<()> {
    remove_contents(directory)?;
    fs::remove_dir_all(directory)
}

/// Removes everything in a directory but its lock.
fn remove_contents(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_name() == LOCK_NAME {
            true => (),
            false if entry.file_type()?.is_dir() => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Removes leftovers of killed writers of this path, and puts back what one was replacing. Errors are ignored.
fn clear_leftovers(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let entries = fs::read_dir(directory_of(path)).into_iter().flatten().flatten();
    for entry in entries {
        let found = entry.file_name();
        let Some(rest) = found.to_str().and_then(|found| found.strip_prefix(name)) else {
            continue;
        };
        let Some((numbers, extension)) = rest.strip_prefix('.').and_then(|r| r.rsplit_once('.'))
        else {
            continue;
        };
        if ![PARTIAL_EXTENSION, OLD_EXTENSION].contains(&extension)
            || !numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        {
            continue;
        }
        let left = entry.path();
        if extension == OLD_EXTENSION && is_abandoned(&left) && !path.exists() {
            // Its writer was killed between two renames. The lock file in it does no harm.
            let _ = fs::rename(&left, path);
            continue;
        }
        if left.is_dir() {
            let _ = match OpenOptions::new().write(true).open(left.join(LOCK_NAME)) {
                Ok(held) if held.try_lock().is_ok() => remove_locked(&left),
                Ok(_) => Ok(()),
                // Its writer may be about to create the lock, so it is removed only if empty.
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
    #[cfg_attr(miri, ignore = "uses locks and links of the file system")]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        fs::write(&path, "old").unwrap();
        let result = Staged::file(&path, IfExists::Replace, |out| {
            out.write_all(b"half of a new").unwrap();
            Err(Error::unsupported("x", "stop"))
        });
        assert!(result.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["model.gguf"]);
        write_bytes(&path, IfExists::Replace, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(directory.path()), ["model.gguf"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses locks and links of the file system")]
    fn a_file_created_meanwhile_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        let staged = Staged::file(&path, IfExists::Fail, |out| {
            out.write_all(b"ours").map_err(|e| Error::io(&path, e))
        });
        fs::write(&path, "theirs").unwrap();
        let error = staged.unwrap().commit().unwrap_err();
        assert!(error.to_string().contains("exists"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(directory.path()), ["model.gguf"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses locks and links of the file system")]
    fn removes_leftovers_but_not_files_being_written() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("m.gguf.1-0.partial"), "left").unwrap();
        fs::create_dir(at("m.gguf.2-0.partial")).unwrap();
        fs::write(at("m.gguf.notes.partial"), "the user's").unwrap();
        let running = File::create_new(at("m.gguf.3-0.partial")).unwrap();
        running.lock().unwrap();
        write_bytes(&at("m.gguf"), IfExists::Fail, b"new").unwrap();
        let expected = ["m.gguf", "m.gguf.3-0.partial", "m.gguf.notes.partial"];
        assert_eq!(names(directory.path()), expected);
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses locks and links of the file system")]
    fn what_a_killed_writer_replaced_is_put_back_or_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let leave = |name: &str| {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("a"), name).unwrap();
            fs::write(at(name).join(LOCK_NAME), "").unwrap();
        };
        leave("m.1-0.old");
        leave("m.1-0.partial");
        clear_leftovers(&at("m"));
        assert_eq!(names(directory.path()), ["m"]);
        assert_eq!(fs::read(at("m").join("a")).unwrap(), b"m.1-0.old");
        leave("m.2-0.old");
        clear_leftovers(&at("m"));
        assert_eq!(names(directory.path()), ["m"]);
        assert_eq!(fs::read(at("m").join("a")).unwrap(), b"m.1-0.old", "the new one stays");
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses locks and links of the file system")]
    fn a_writer_killed_while_it_removes_a_directory_leaves_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join("m.1-0.partial");
        fs::create_dir_all(left.join("folder/inner")).unwrap();
        for name in [LOCK_NAME, "-first", "last"] {
            fs::write(left.join(name), "").unwrap();
        }
        // Where the removal of a killed writer ends in the worst case.
        remove_contents(&left).unwrap();
        assert_eq!(names(&left), [LOCK_NAME]);
        clear_leftovers(&directory.path().join("m"));
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses locks and links of the file system")]
    #[cfg(target_os = "linux")]
    fn a_directory_is_there_while_it_is_replaced() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        let write = |text: &str| {
            Staged::directory(&path, IfExists::Replace, vec!["a"], |partial| {
                write_bytes(&partial.join("a"), IfExists::Fail, text.as_bytes())
            })
            .and_then(Staged::commit)
            .unwrap();
        };
        write("0");
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let missing = scope.spawn(|| {
                let mut missing = 0;
                while !is_done.load(Ordering::Relaxed) {
                    missing += usize::from(fs::read(path.join("a")).is_err());
                }
                missing
            });
            (0..200).for_each(|number| write(&number.to_string()));
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(missing.join().unwrap(), 0, "reads found no directory");
        });
        assert_eq!(names(directory.path()), ["model"]);
        assert_eq!(names(&path), ["a"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses locks and links of the file system")]
    fn replaces_only_directories_with_known_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model");
        let write = |if_exists, text: &str| {
            Staged::directory(&path, if_exists, vec!["a", "b"], |partial| {
                write_bytes(&partial.join("a"), IfExists::Fail, text.as_bytes())
            })
            .and_then(Staged::commit)
        };
        write(IfExists::Fail, "one").unwrap();
        assert!(write(IfExists::Fail, "two").unwrap_err().to_string().contains("exists"));
        write(IfExists::Replace, "three").unwrap();
        assert_eq!(fs::read(path.join("a")).unwrap(), b"three");
        assert_eq!(names(&path), ["a"]);
        fs::write(path.join("diary"), "mine").unwrap();
        let refusal = write(IfExists::Replace, "four").unwrap_err().to_string();
        assert!(refusal.contains("\"diary\""), "{refusal}");
        assert_eq!(names(directory.path()), ["model"]);
        assert_eq!(names(&path), ["a", "diary"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses locks and links of the file system")]
    fn removes_all_files_unless_committed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("beside"), "b").unwrap();
        let staged = Staged::file(&at("m.bin"), IfExists::Fail, |_| Ok(())).unwrap();
        let staged = staged.with(Beside(vec![at("beside")]));
        assert!(staged.path().exists());
        drop(staged);
        let filled = Staged::directory(&at("d"), IfExists::Fail, Vec::new(), |_| Ok(())).unwrap();
        drop(filled);
        fs::write(at("beside"), "b").unwrap();
        let beside = Beside(vec![at("beside")]);
        let full = |_: &mut _| Err(Error::io(&at("m.bin"), ErrorKind::StorageFull.into()));
        let staged = Staged::file(&at("m.bin"), IfExists::Fail, full);
        assert!(staged.map(|staged| staged.with(beside)).is_err());
        assert_eq!(names(directory.path()), [""; 0]);
    }
}
