//! Work of the disk cache's thread: reads before writes, and no more writes than memory is set aside for.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::key::PageKey;

/// Maximum size of pages that wait to be written, in bytes; at least a few pages.
const MAX_WAITING: usize = 64 << 20;
const MIN_WAITING_PAGES: usize = 8;

pub(super) enum Job {
    /// Reads pages and calls back with them.
    Fetch(Vec<PageKey>, Box<dyn FnOnce(Vec<Vec<u8>>) + Send>),
    Touch(Vec<PageKey>),
    Write(PageKey, Vec<u8>),
    Clear,
}

pub(super) struct Queue {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
    max_writes: usize,
}

#[derive(Default)]
struct Jobs {
    fetches: VecDeque<Job>,
    others: VecDeque<Job>,
    /// Number of writes that wait.
    writes: usize,
    closed: bool,
}

impl Queue {
    pub(super) fn new(page_len: usize) -> Self {
        let max_writes = (MAX_WAITING / page_len.max(1)).max(MIN_WAITING_PAGES);
        Self { jobs: Mutex::default(), arrived: Condvar::new(), max_writes }
    }

    /// True if another page may wait to be written.
    pub(super) fn has_room(&self) -> bool {
        self.lock().writes < self.max_writes
    }

    pub(super) fn push(&self, job: Job) {
        let mut jobs = self.lock();
        match job {
            // A request waits for it.
            Job::Fetch(..) => jobs.fetches.push_back(job),
            Job::Write(..) => {
                jobs.writes += 1;
                jobs.others.push_back(job);
            }
            Job::Touch(_) | Job::Clear => jobs.others.push_back(job),
        }
        self.arrived.notify_one();
    }

    /// Waits for the next job. Returns `None` once the queue is closed and all are done.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut jobs = self.lock();
        loop {
            let next = jobs.fetches.pop_front();
            if let Some(job) = next.or_else(|| jobs.others.pop_front()) {
                jobs.writes -= usize::from(matches!(job, Job::Write(..)));
                return Some(job);
            }
            if jobs.closed {
                return None;
            }
            jobs = self.arrived.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread once all jobs are done.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_come_first_and_writes_are_limited() {
        let queue = Queue::new(MAX_WAITING);
        let key = PageKey([0; 32]);
        for _ in 0..MIN_WAITING_PAGES {
            assert!(queue.has_room());
            queue.push(Job::Write(key, Vec::new()));
        }
        assert!(!queue.has_room());
        queue.push(Job::Fetch(vec![key], Box::new(drop)));
        queue.close();
        assert!(matches!(queue.pop(), Some(Job::Fetch(..))));
        assert!(!queue.has_room());
        assert!(matches!(queue.pop(), Some(Job::Write(..))));
        assert!(queue.has_room());
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), MIN_WAITING_PAGES - 1);
    }
}
