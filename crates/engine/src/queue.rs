//! Places in the queue of waiting sequences. No caller can fill it for the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Waiting sequences, counted by caller.
#[derive(Debug)]
pub(crate) struct Queue {
    max_waiting: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_caller: BTreeMap<u64, usize>,
}

impl Counts {
    /// A full queue still has room for callers with less than an equal part of it, up to twice its size.
    fn have_room(&self, caller: u64, count: usize, max: usize) -> bool {
        let own = self.by_caller.get(&caller).copied().unwrap_or(0);
        let callers = self.by_caller.len() + usize::from(own == 0);
        let is_owed_room = own + count <= (max / callers).max(1);
        self.total + count <= max || (is_owed_room && self.total + count <= 2 * max)
    }
}

/// Place of a sequence in the queue, which it leaves on drop.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    caller: u64,
}

impl Queue {
    pub(crate) fn new(max_waiting: usize) -> Self {
        Self { max_waiting, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // No operation on the counts can panic halfway.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of waiting sequences.
    pub(crate) fn len(&self) -> usize {
        self.counts().total
    }

    /// Returns the number of sequences that an empty queue has room for.
    pub(crate) fn max_waiting(&self) -> usize {
        self.max_waiting
    }

    /// Returns `true` if there are places for `count` more sequences of `caller`.
    pub(crate) fn has_room(&self, caller: u64, count: usize) -> bool {
        self.counts().have_room(caller, count, self.max_waiting)
    }

    /// Takes a place for a sequence of `caller`, or returns `None` if there is none.
    pub(crate) fn enter(self: &Arc<Self>, caller: u64) -> Option<Place> {
        let mut counts = self.counts();
        if !counts.have_room(caller, 1, self.max_waiting) {
            return None;
        }
        counts.total += 1;
        *counts.by_caller.entry(caller).or_default() += 1;
        Some(Place { queue: Arc::clone(self), caller })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.queue.counts();
        counts.total -= 1;
        let own = counts.by_caller.entry(self.caller).or_default();
        *own -= 1;
        if *own == 0 {
            counts.by_caller.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_does_not_exceed_its_limit() {
        let queue = Arc::new(Queue::new(2));
        let places = [queue.enter(1), queue.enter(1)];
        assert!(places.iter().all(Option::is_some) && queue.enter(1).is_none());
        drop(places);
        assert_eq!(queue.len(), 0);
        assert!(queue.enter(1).is_some());
    }

    #[test]
    fn a_caller_that_fills_the_queue_leaves_room_for_others() {
        let queue = Arc::new(Queue::new(8));
        let mut places: Vec<_> = (0..9).map(|_| queue.enter(1)).collect();
        assert!(places[8].is_none());
        places.extend((0..5).map(|_| queue.enter(2)));
        let taken = places.iter().flatten().count();
        assert_eq!(taken, 8 + 4, "the second caller has half of the queue");
        let more: Vec<_> = (10..40).map(|caller| queue.enter(caller)).collect();
        assert_eq!((more.iter().flatten().count(), queue.len()), (4, 16), "there is an end to it");
    }
}
