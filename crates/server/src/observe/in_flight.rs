//! The sequences in flight, for `/slots`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// All sequences in flight. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next_id: u64,
    entries: BTreeMap<u64, Arc<Entry>>,
}

/// One sequence in flight.
pub(crate) struct Entry {
    pub(crate) request_id: String,
    pub(crate) prompt_tokens: usize,
    pub(crate) since: Instant,
    completion_tokens: AtomicUsize,
    is_started: AtomicBool,
}

impl Entry {
    /// Returns the number of tokens generated so far.
    pub(crate) fn completion_tokens(&self) -> usize {
        self.completion_tokens.load(Ordering::Relaxed)
    }

    /// Returns `true` once the engine has begun to compute it.
    pub(crate) fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Relaxed)
    }
}

/// Keeps a sequence in the list until it is dropped.
pub(crate) struct InFlightGuard {
    list: InFlight,
    id: u64,
    entry: Arc<Entry>,
}

impl InFlightGuard {
    pub(crate) fn start(&self) {
        self.entry.is_started.store(true, Ordering::Relaxed);
    }

    pub(crate) fn count_token(&self) {
        self.entry.completion_tokens.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.list.table().entries.remove(&self.id);
    }
}

impl InFlight {
    fn table(&self) -> MutexGuard<'_, Table> {
        // No operation on the table can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists all sequences, oldest first.
    pub(crate) fn list(&self) -> Vec<(u64, Arc<Entry>)> {
        self.table().entries.iter().map(|(id, entry)| (*id, Arc::clone(entry))).collect()
    }

    /// Adds a sequence.
    pub(crate) fn enter(&self, request_id: &str, prompt_tokens: usize) -> InFlightGuard {
        let entry = Arc::new(Entry {
            request_id: request_id.to_owned(),
            prompt_tokens,
            since: Instant::now(),
            completion_tokens: AtomicUsize::new(0),
            is_started: AtomicBool::new(false),
        });
        let mut table = self.table();
        let id = table.next_id;
        table.next_id += 1;
        table.entries.insert(id, Arc::clone(&entry));
        InFlightGuard { list: self.clone(), id, entry }
    }
}
