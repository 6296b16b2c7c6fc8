//! The sequences in flight, for `/slots`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// All sequences in flight. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next_id: u64,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) request_id: String,
    /// Number that stands for the caller.
    pub(crate) caller: u64,
    /// Name of the model.
    pub(crate) model: String,
    pub(crate) prompt_tokens: usize,
    pub(crate) completion_tokens: usize,
    pub(crate) since: Instant,
    /// True once the engine has begun to compute it.
    pub(crate) is_started: bool,
}

/// Keeps a sequence in the list until it is dropped.
pub(crate) struct InFlightGuard {
    list: InFlight,
    id: u64,
}

impl InFlightGuard {
    pub(crate) fn start(&self) {
        self.list.table().entries.entry(self.id).and_modify(|entry| entry.is_started = true);
    }

    pub(crate) fn count_token(&self) {
        self.list.table().entries.entry(self.id).and_modify(|entry| entry.completion_tokens += 1);
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

    /// Lists all sequences with their ids, oldest first.
    pub(crate) fn list(&self) -> Vec<(u64, Entry)> {
        self.table().entries.iter().map(|(id, entry)| (*id, entry.clone())).collect()
    }

    pub(crate) fn enter(
        &self,
        request_id: &str,
        caller: u64,
        model: &str,
        prompt_tokens: usize,
    ) -> InFlightGuard {
        let entry = Entry {
            request_id: request_id.to_owned(),
            caller,
            model: model.to_owned(),
            prompt_tokens,
            completion_tokens: 0,
            since: Instant::now(),
            is_started: false,
        };
        let mut table = self.table();
        let id = table.next_id;
        table.next_id += 1;
        table.entries.insert(id, entry);
        InFlightGuard { list: self.clone(), id }
    }
}
