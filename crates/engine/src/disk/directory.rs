//! The directory of pages: one file each, named by its key, the least recently used removed first.
//!
//! A file appears under its name when it is complete. Several processes may use one directory: a file that
//! another one removed is a miss, and files are counted again before any is removed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::file;
use super::key::PageKey;

/// Name endings of pages, and of files that are being written.
const PAGE: &str = ".page";
const PART: &str = ".part";

/// Age from which on a partial file belongs to a process that is gone.
const ABANDONED: Duration = Duration::from_secs(60);

/// Use within this time does not make a page younger: its file is not touched with every request.
const RECENT: Duration = Duration::from_secs(60);

pub(super) struct Directory {
    path: PathBuf,
    max_bytes: u64,
    pages: HashMap<PageKey, Entry>,
    bytes: u64,
    /// Bytes written since the files were counted.
    uncounted: u64,
    /// Number of files that this process wrote, for names of partial ones.
    writes: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    size: u64,
    last_use: SystemTime,
}

impl Directory {
    /// Opens an existing directory.
    pub(super) fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let mut directory = Self {
            path: path.to_owned(),
            max_bytes,
            pages: HashMap::new(),
            bytes: 0,
            uncounted: 0,
            writes: 0,
        };
        directory.count()?;
        directory.evict()?;
        Ok(directory)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = PageKey> {
        self.pages.keys().copied()
    }

    pub(super) fn contains(&self, key: PageKey) -> bool {
        self.pages.contains_key(&key)
    }

    /// Returns a page of `page_len` bytes. A file that cannot be read or is damaged is removed.
    pub(super) fn read(&mut self, key: PageKey, page_len: usize) -> Option<Vec<u8>> {
        let path = self.page_path(key);
        let Some(page) = file::read(&path, key, page_len).ok().flatten() else {
            self.remove(key);
            return None;
        };
        self.touch(key);
        Some(page)
    }

    /// Notes that a page is in use.
    pub(super) fn touch(&mut self, key: PageKey) {
        let (path, now) = (self.page_path(key), SystemTime::now());
        let Some(entry) = self.pages.get_mut(&key) else { return };
        if now.duration_since(entry.last_use).is_ok_and(|age| age >= RECENT) {
            entry.last_use = now;
            // Other processes and the next one see the time of the file. Failing to set it only makes it older.
            let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(now));
        }
    }

    /// Writes a page, and removes the oldest if there are too many. Returns the number of removed ones.
    pub(super) fn write(&mut self, key: PageKey, page: &[u8]) -> io::Result<usize> {
        let size = file::file_len(page.len());
        if self.contains(key) || size > self.max_bytes {
            return Ok(0);
        }
        self.writes += 1;
        let part = format!("{}-{}{PART}", std::process::id(), self.writes);
        let (part, path) = (self.path.join(part), self.page_path(key));
        let written = file::write(&part, key, page).and_then(|()| fs::rename(&part, &path));
        if let Err(error) = written {
            // The error above matters more than a leftover file.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        self.add(key, Entry { size, last_use: SystemTime::now() });
        self.uncounted += size;
        if self.uncounted > self.max_bytes / 16 {
            self.count()?;
        }
        self.evict()
    }

    /// Removes all pages.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.count()?;
        self.keys().collect::<Vec<_>>().into_iter().for_each(|key| self.remove(key));
        Ok(())
    }

    /// Removes pages that were not used for the longest time until there is room for some more.
    fn evict(&mut self) -> io::Result<usize> {
        if self.bytes <= self.max_bytes {
            return Ok(0);
        }
        self.count()?;
        let mut oldest: Vec<_> =
            self.pages.iter().map(|(key, entry)| (entry.last_use, *key)).collect();
        oldest.sort_unstable_by_key(|(last_use, key)| (*last_use, key.0));
        let before = self.pages.len();
        for (_, key) in oldest {
            if self.bytes <= self.max_bytes - self.max_bytes / 16 {
                break;
            }
            self.remove(key);
        }
        Ok(before - self.pages.len())
    }

    /// Reads which pages there are, and removes partial files that nobody writes.
    fn count(&mut self) -> io::Result<()> {
        (self.bytes, self.uncounted) = (0, 0);
        self.pages.clear();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // A file that disappears meanwhile was removed by another process.
            let Ok(metadata) = entry.metadata() else { continue };
            let last_use = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if let Some(key) = name.strip_suffix(PAGE).and_then(PageKey::from_hex) {
                self.add(key, Entry { size: metadata.len(), last_use });
            } else if name.ends_with(PART) && last_use.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    fn add(&mut self, key: PageKey, entry: Entry) {
        self.bytes += entry.size;
        if let Some(replaced) = self.pages.insert(key, entry) {
            self.bytes -= replaced.size;
        }
    }

    /// Removes a page, if it is there.
    pub(super) fn remove(&mut self, key: PageKey) {
        // It is no longer known here, whether or not another process was faster.
        let _ = fs::remove_file(self.page_path(key));
        if let Some(entry) = self.pages.remove(&key) {
            self.bytes -= entry.size;
        }
    }

    fn page_path(&self, key: PageKey) -> PathBuf {
        self.path.join(format!("{key}{PAGE}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> PageKey {
        PageKey([number; 32])
    }

    fn open(dir: &Path, pages: u64) -> Directory {
        Directory::open(dir, pages * file::file_len(100)).unwrap()
    }

    /// Sets the age of a page, as if it had been written that long ago.
    fn age(dir: &Directory, key: PageKey, seconds: u64) {
        let file = File::options().append(true).open(dir.page_path(key)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn pages_are_found_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = open(dir.path(), 8);
        assert_eq!(first.write(key(1), &[1; 100]).unwrap(), 0);
        assert_eq!(first.read(key(1), 100), Some(vec![1; 100]));
        assert_eq!(first.read(key(2), 100), None);
        let mut next = open(dir.path(), 8);
        assert_eq!(
            (next.bytes(), next.read(key(1), 100)),
            (file::file_len(100), Some(vec![1; 100]))
        );
        // A page of another size is no page of this model, and goes.
        assert_eq!(next.read(key(1), 99), None);
        assert_eq!((next.bytes(), next.contains(key(1))), (0, false));
        assert_eq!(first.read(key(1), 100), None, "removed by the other process");
    }

    #[test]
    fn the_least_recently_used_pages_leave_first() {
        let dir = tempfile::tempdir().unwrap();
        let mut pages = open(dir.path(), 4);
        for number in 1..=4 {
            pages.write(key(number), &[number; 100]).unwrap();
            age(&pages, key(number), 1000 - u64::from(number));
        }
        let mut pages = open(dir.path(), 4);
        assert!(pages.read(key(1), 100).is_some(), "the oldest is in use again");
        assert_eq!(pages.write(key(5), &[5; 100]).unwrap(), 2, "the limit, and some room");
        let left = [1, 2, 3, 4, 5].map(|number| pages.contains(key(number)));
        assert_eq!(left, [true, false, false, true, true]);
        assert!(pages.bytes() <= pages.max_bytes);
        // A smaller limit takes effect at once.
        assert_eq!(open(dir.path(), 1).pages.len(), 0, "one page leaves no room for another");
    }

    #[test]
    fn other_files_stay_and_abandoned_parts_go() {
        let dir = tempfile::tempdir().unwrap();
        let (young, old, other) =
            (dir.path().join("1-1.part"), dir.path().join("2-9.part"), dir.path().join("notes"));
        [&young, &old, &other].iter().for_each(|path| fs::write(path, "x").unwrap());
        let long_ago = SystemTime::now() - Duration::from_secs(1000);
        File::options().append(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        let mut pages = open(dir.path(), 4);
        pages.write(key(1), &[1; 100]).unwrap();
        assert_eq!([&young, &old, &other].map(|path| path.exists()), [true, false, true]);
        pages.clear().unwrap();
        assert_eq!((pages.bytes(), other.exists()), (0, true));
    }

    #[test]
    fn a_page_that_does_not_fit_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut pages = open(dir.path(), 1);
        assert_eq!(pages.write(key(1), &[1; 101]).unwrap(), 0);
        assert!(!pages.contains(key(1)));
        fs::remove_dir_all(dir.path()).unwrap();
        assert!(pages.write(key(1), &[1; 50]).is_err(), "the directory is gone");
    }
}
