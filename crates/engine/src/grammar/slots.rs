//! Slots of threads that compile grammars, whose number is limited.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A number of slots, each held by one thread at a time.
pub(super) struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A slot, which is free again when this is dropped.
pub(super) struct Slot(Arc<Slots>);

impl Slots {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(count), freed: Condvar::new() })
    }

    /// Waits for a free slot, up to a time limit.
    pub(super) fn take(self: &Arc<Self>, timeout: Duration) -> Option<Slot> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_timeout_while(free, timeout, |free| *free == 0);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(1)?;
        Some(Slot(Arc::clone(self)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_waited_for_and_free_again_when_dropped() {
        let slots = Slots::new(1);
        let first = slots.take(Duration::ZERO).unwrap();
        assert!(slots.take(Duration::ZERO).is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| slots.take(Duration::from_secs(600)).is_some());
            drop(first);
            assert!(waits.join().unwrap());
        });
        assert!(slots.take(Duration::ZERO).is_some());
    }
}
