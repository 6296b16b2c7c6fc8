//! The prefix cache on disk: full K/V pages that outlive the process.
//!
//! The engine thread only looks keys up and hands bytes over. A thread of its own reads, checks and writes files.
//! A page that is damaged, missing, of another model, version, setting or caller has another name or another
//! checksum: it is a miss, and computed as if there were no cache. Writes that the disk cannot keep up with, or
//! has no room for, are dropped.

mod directory;
mod file;
mod key;
mod queue;
mod trail;

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use self::directory::Directory;
pub(crate) use self::key::PageKey;
use self::queue::{Job, Queue};
pub(crate) use self::trail::{BeforeStart, Trail};
use crate::options::DiskCacheOptions;

/// Counts of the prefix cache on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Pages that were read.
    pub hits: u64,
    /// Prompts of which a full page had to be computed, because it is neither in memory nor on disk.
    pub misses: u64,
    /// Pages that were written.
    pub written: u64,
    /// Pages that were not written, because the disk is too slow or full.
    pub dropped: u64,
    /// Size of all pages in bytes.
    pub bytes: u64,
}

/// The engine's side of the cache.
pub(crate) struct DiskCache {
    root: PageKey,
    page_len: usize,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Counters, which any thread may read.
#[derive(Default)]
pub(crate) struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    bytes: AtomicU64,
}

struct Shared {
    queue: Queue,
    /// Pages that are on disk, as far as this process knows.
    known: Mutex<HashSet<PageKey>>,
    counters: Arc<Counters>,
    report: fn(&str),
    /// True since a write failed and until one succeeds.
    failing: AtomicBool,
}

impl DiskCache {
    /// Opens the directory and starts the thread. `root` is the key of the model, `page_len` the size of a page.
    pub(crate) fn open(
        options: &DiskCacheOptions,
        root: PageKey,
        page_len: usize,
    ) -> io::Result<Self> {
        options.create_dir()?;
        let directory = Directory::open(&options.dir, options.max_bytes)?;
        let shared = Arc::new(Shared {
            queue: Queue::new(page_len),
            known: Mutex::new(directory.keys().collect()),
            counters: Arc::default(),
            report: options.report,
            failing: AtomicBool::new(false),
        });
        shared.counters.bytes.store(directory.bytes(), Relaxed);
        let (of_thread, builder) = (Arc::clone(&shared), thread::Builder::new());
        let thread = builder
            .name("wf-disk-cache".into())
            .spawn(move || of_thread.run(directory, page_len))?;
        Ok(Self { root, page_len, shared, thread: Some(thread) })
    }

    /// Returns the key of a model's pages before any token.
    pub(crate) fn root(&self) -> PageKey {
        self.root
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.shared.counters)
    }

    /// Returns how many of `keys`, from the first, are on disk.
    pub(crate) fn matching(&self, keys: &[PageKey]) -> usize {
        let known = self.shared.known();
        keys.iter().take_while(|key| known.contains(key)).count()
    }

    /// Counts a prompt of which a page has to be computed.
    pub(crate) fn count_miss(&self) {
        self.shared.counters.misses.fetch_add(1, Relaxed);
    }

    /// Reads pages, from the first to the first miss, and calls `done` with them on the thread of the cache.
    pub(crate) fn fetch(
        &self,
        keys: Vec<PageKey>,
        done: impl FnOnce(Vec<Vec<u8>>) + Send + 'static,
    ) {
        self.shared.queue.push(Job::Fetch(keys, Box::new(done)));
    }

    /// Notes that pages were found in memory, so that they do not grow old on disk.
    pub(crate) fn touch(&self, keys: Vec<PageKey>) {
        if !keys.is_empty() {
            self.shared.queue.push(Job::Touch(keys));
        }
    }

    /// Writes a page later. `read` returns its bytes, and is not called if there is no room in the queue, or if
    /// the page is on disk already.
    pub(crate) fn write(&self, key: PageKey, read: impl FnOnce(&mut Vec<u8>)) {
        if self.shared.known().contains(&key) {
            return;
        }
        if !self.shared.queue.has_room() {
            self.shared.counters.dropped.fetch_add(1, Relaxed);
            return;
        }
        let mut page = Vec::with_capacity(self.page_len);
        read(&mut page);
        self.shared.queue.push(Job::Write(key, page));
    }

    /// Removes all pages, after those that wait to be written.
    pub(crate) fn clear(&self) {
        self.shared.queue.push(Job::Clear);
    }
}

impl Drop for DiskCache {
    /// Waits for the pages that are to be written.
    fn drop(&mut self) {
        self.shared.queue.close();
        // A panic of the thread has been reported when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn run(&self, mut directory: Directory, page_len: usize) {
        while let Some(job) = self.queue.pop() {
            match job {
                Job::Fetch(keys, done) => {
                    let pages = self.fetch(&mut directory, &keys, page_len);
                    self.counters.bytes.store(directory.bytes(), Relaxed);
                    done(pages);
                }
                Job::Touch(keys) => keys.into_iter().for_each(|key| directory.touch(key)),
                Job::Write(key, page) => self.write(&mut directory, key, &page),
                Job::Clear => self.clear(&mut directory),
            }
            self.counters.bytes.store(directory.bytes(), Relaxed);
        }
    }

    fn fetch(&self, directory: &mut Directory, keys: &[PageKey], page_len: usize) -> Vec<Vec<u8>> {
        let mut pages = Vec::new();
        for (at, &key) in keys.iter().enumerate() {
            let Some(page) = directory.read(key, page_len) else {
                // Without this page, later ones are of no use. They are computed now, and written again.
                for &key in &keys[at..] {
                    directory.remove(key);
                    self.known().remove(&key);
                }
                break;
            };
            pages.push(page);
        }
        self.counters.hits.fetch_add(pages.len() as u64, Relaxed);
        pages
    }

    fn write(&self, directory: &mut Directory, key: PageKey, page: &[u8]) {
        let written = directory.write(key, page);
        match &written {
            Ok(0) if directory.contains(key) => {
                self.known().insert(key);
            }
            // Others left for it.
            Ok(_) => *self.known() = directory.keys().collect(),
            Err(_) => {}
        }
        let is_kept = written.is_ok() && directory.contains(key);
        let counter = if is_kept { &self.counters.written } else { &self.counters.dropped };
        counter.fetch_add(1, Relaxed);
        self.note(written.map(drop).map_err(|error| format!("cannot write a page: {error}")));
    }

    fn clear(&self, directory: &mut Directory) {
        let cleared = directory.clear();
        self.note(cleared.map_err(|error| format!("cannot remove pages: {error}")));
        *self.known() = directory.keys().collect();
    }

    /// Reports a fault once, and its end.
    fn note(&self, result: Result<(), String>) {
        let was_failing = self.failing.swap(result.is_err(), Relaxed);
        match (result, was_failing) {
            (Err(fault), false) => (self.report)(&format!(
                "prefix cache on disk: {fault}; prompts are computed, and pages are not kept until this ends"
            )),
            (Ok(()), true) => (self.report)("prefix cache on disk: pages are kept again"),
            _ => {}
        }
    }

    fn known(&self) -> MutexGuard<'_, HashSet<PageKey>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counters {
    pub(crate) fn snapshot(&self) -> DiskStats {
        DiskStats {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            written: self.written.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

impl DiskStats {
    /// Adds the counts of another engine. The size of a directory that both use is not added.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            written: self.written + other.written,
            dropped: self.dropped + other.dropped,
            bytes: self.bytes.max(other.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;

    const PAGE: usize = 100;

    fn key(number: u8) -> PageKey {
        PageKey([number; 32])
    }

    fn open(dir: &Path, report: fn(&str)) -> DiskCache {
        let options = DiskCacheOptions { dir: dir.to_owned(), max_bytes: 10_000, report };
        DiskCache::open(&options, key(0), PAGE).unwrap()
    }

    fn fetch(cache: &DiskCache, keys: &[PageKey]) -> Vec<Vec<u8>> {
        let (sender, receiver) = mpsc::channel();
        cache.fetch(keys.to_vec(), move |pages| sender.send(pages).unwrap());
        receiver.recv().unwrap()
    }

    fn write(cache: &DiskCache, number: u8) {
        cache.write(key(number), |page| page.extend([number; PAGE]));
    }

    #[test]
    fn pages_are_read_up_to_the_first_miss() {
        let dir = tempfile::tempdir().unwrap();
        let cache = open(dir.path(), |message| panic!("{message}"));
        [1, 2, 4].into_iter().for_each(|number| write(&cache, number));
        drop(cache);
        let cache = open(dir.path(), |message| panic!("{message}"));
        let keys = [1, 2, 3, 4].map(key);
        assert_eq!(cache.matching(&keys), 2);
        cache.write(key(4), |_| panic!("it is on disk already"));
        assert_eq!(fetch(&cache, &keys), [vec![1; PAGE], vec![2; PAGE]]);
        assert_eq!(cache.matching(&keys[3..]), 0, "pages behind a miss are written again");
        // A page that is damaged is a miss from then on.
        let path = dir.path().join(format!("{}.page", key(1)));
        let mut bytes = fs::read(&path).unwrap();
        bytes[80] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(fetch(&cache, &keys[..2]).is_empty());
        assert_eq!(
            (cache.matching(&keys), cache.matching(&keys[1..])),
            (0, 0),
            "and those after it"
        );
        let stats = cache.counters().snapshot();
        assert_eq!((stats.hits, stats.written, stats.bytes), (2, 0, 0));
        write(&cache, 5);
        cache.clear();
        drop(cache);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// Waits for the thread of the cache. Reads come before writes, so none can tell when these are done.
    fn wait_for(cache: &DiskCache, is_reached: impl Fn(DiskStats) -> bool) {
        while !is_reached(cache.counters().snapshot()) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_fault_of_the_disk_is_reported_once_and_ends_by_itself() {
        static REPORTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        let cache = open(&path, |message| REPORTS.lock().unwrap().push(message.to_owned()));
        fs::remove_dir_all(&path).unwrap();
        [1, 2, 3].into_iter().for_each(|number| write(&cache, number));
        wait_for(&cache, |stats| stats.dropped == 3);
        fs::create_dir(&path).unwrap();
        write(&cache, 4);
        drop(cache);
        let reports = REPORTS.lock().unwrap();
        assert_eq!(reports.len(), 2, "{reports:?}");
        assert!(reports[0].contains("cannot write a page"), "{reports:?}");
        assert!(reports[1].contains("kept again"), "{reports:?}");
    }
}
