//! The free pages of the K/V cache.

use wf_model::PageId;

/// Pool of free pages.
#[derive(Debug)]
pub(crate) struct PagePool {
    free: Vec<PageId>,
    total: usize,
}

impl PagePool {
    /// Creates a pool of `total` free pages.
    pub(crate) fn new(total: usize) -> Self {
        let total_ids = PageId::try_from(total).expect("fewer than 2^32 pages");
        // Pages are taken from the back: low ids first.
        Self { free: (0..total_ids).rev().collect(), total }
    }

    /// Moves `pages` free pages to `taken`, all or nothing. Returns `true` on success.
    pub(crate) fn take(&mut self, pages: usize, taken: &mut Vec<PageId>) -> bool {
        let Some(left) = self.free.len().checked_sub(pages) else { return false };
        taken.extend(self.free.drain(left..).rev());
        true
    }

    /// Returns pages to the pool.
    pub(crate) fn give(&mut self, pages: impl IntoIterator<Item = PageId>) {
        self.free.extend(pages);
        debug_assert!(self.free.len() <= self.total, "a page was returned twice");
    }

    /// Returns the number of free pages.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_taken_all_or_nothing_and_never_twice() {
        let mut pool = PagePool::new(5);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        assert!(pool.take(3, &mut a));
        assert!(!pool.take(3, &mut b));
        assert!(b.is_empty());
        assert!(pool.take(2, &mut b));
        assert_eq!(pool.free(), 0);
        let mut all: Vec<_> = a.iter().chain(&b).copied().collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        pool.give(a);
        assert_eq!(pool.free(), 3);
    }
}
