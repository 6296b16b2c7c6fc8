//! Which pages are free. Lends them out by number; knows nothing of what they hold.

use wf_model::PageId;

/// The free pages of the K/V pool.
#[derive(Debug)]
pub(crate) struct PagePool {
    free: Vec<PageId>,
    total: usize,
}

impl PagePool {
    /// All of `total` pages, free.
    pub(crate) fn new(total: usize) -> Self {
        let total_ids = PageId::try_from(total).expect("fewer than 2^32 pages");
        // Taken from the back: low numbers first.
        Self { free: (0..total_ids).rev().collect(), total }
    }

    /// Appends `pages` free pages to `taken`, all or nothing.
    pub(crate) fn take(&mut self, pages: usize, taken: &mut Vec<PageId>) -> bool {
        let Some(left) = self.free.len().checked_sub(pages) else { return false };
        taken.extend(self.free.drain(left..).rev());
        true
    }

    /// Takes pages back.
    pub(crate) fn give(&mut self, pages: impl IntoIterator<Item = PageId>) {
        self.free.extend(pages);
        debug_assert!(self.free.len() <= self.total, "a page was given back twice");
    }

    /// How many pages nobody holds.
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
