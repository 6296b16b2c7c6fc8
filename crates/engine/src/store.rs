//! The pages of the K/V cache: free, held by a sequence, or cached for later prompts.

use wf_model::{PAGE_LEN, PageId, TokenId};

use crate::prefix::{PrefixCache, PrefixLock, Tree};

/// Pages of one sequence, in order of positions. The leading ones are shared and belong to the prefix cache.
#[derive(Debug)]
pub(crate) struct Held {
    pages: Vec<PageId>,
    shared: usize,
    lock: PrefixLock,
}

impl Held {
    /// Holds no pages of `tree`.
    pub(crate) fn nothing(tree: Tree) -> Self {
        Self { pages: Vec::new(), shared: 0, lock: PrefixCache::root(tree) }
    }

    pub(crate) fn pages(&self) -> &[PageId] {
        &self.pages
    }
}

pub(crate) struct PageStore {
    /// Free pages, which are taken from the back: low ids first.
    free: Vec<PageId>,
    cache: PrefixCache,
    total: usize,
}

impl PageStore {
    pub(crate) fn new(total: usize) -> Self {
        let ids = PageId::try_from(total).expect("fewer than 2^32 pages");
        Self { free: (0..ids).rev().collect(), cache: PrefixCache::default(), total }
    }

    /// Returns the number of pages that are free or can be evicted.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.cache.unlocked_pages()
    }

    /// Returns the number of pages that sequences hold.
    pub(crate) fn in_use(&self) -> usize {
        self.total - self.available()
    }

    /// Returns the number of cached pages that no sequence holds.
    pub(crate) fn cached(&self) -> usize {
        self.cache.unlocked_pages()
    }

    /// Returns the number of cached pages that hold a prefix of `tokens`.
    pub(crate) fn matching(&self, tree: Tree, tokens: &[TokenId]) -> usize {
        self.cache.matching(tree, tokens)
    }

    /// Takes the cached pages that hold a prefix of `tokens`.
    pub(crate) fn find(&mut self, tree: Tree, tokens: &[TokenId]) -> Held {
        let (pages, lock) = self.cache.lookup(tree, tokens);
        Held { shared: pages.len(), pages, lock }
    }

    /// Allocates `pages` more pages, all or nothing. Returns `true` on success.
    pub(crate) fn grow(&mut self, held: &mut Held, pages: usize) -> bool {
        if pages > self.available() {
            return false;
        }
        while self.free.len() < pages {
            self.free.push(self.cache.evict().expect("unlocked pages can be evicted"));
        }
        held.pages.extend(self.free.drain(self.free.len() - pages..).rev());
        true
    }

    /// Adds the pages that `tokens` fill completely to the prefix cache. Their K/V must be final.
    pub(crate) fn share(&mut self, held: &mut Held, tokens: &[TokenId]) {
        let whole = tokens.as_chunks::<PAGE_LEN>().0;
        for (tokens, page) in whole.iter().zip(&mut held.pages).skip(held.shared) {
            let cached = self.cache.extend(&mut held.lock, tokens, *page);
            self.free.extend((cached != *page).then_some(*page));
            *page = cached;
            held.shared += 1;
        }
    }

    /// Releases the pages. Shared ones stay cached until they are evicted.
    pub(crate) fn release(&mut self, held: Held) {
        self.free.extend(held.pages.into_iter().skip(held.shared));
        debug_assert!(self.free.len() <= self.total, "a page was returned twice");
        self.cache.release(held.lock);
    }

    /// Evicts every cached page that no sequence holds. Returns their number.
    pub(crate) fn flush(&mut self) -> usize {
        let free = self.free.len();
        self.free.extend(std::iter::from_fn(|| self.cache.evict()));
        self.free.len() - free
    }
}

#[cfg(test)]
mod tests {
    use wf_model::Visibility;

    use super::*;

    const TREE: Tree = Tree { salt: 0, visibility: Visibility::Causal };

    fn tokens(len: usize) -> Vec<TokenId> {
        (0..len as TokenId).collect()
    }

    #[test]
    fn pages_are_taken_all_or_nothing_and_never_twice() {
        let mut store = PageStore::new(5);
        let (mut a, mut b) = (Held::nothing(TREE), Held::nothing(TREE));
        assert!(store.grow(&mut a, 3));
        assert!(!store.grow(&mut b, 3));
        assert!(b.pages().is_empty());
        assert!(store.grow(&mut b, 2));
        assert_eq!(store.free.len(), 0);
        let mut all: Vec<_> = a.pages().iter().chain(b.pages()).copied().collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        store.release(a);
        assert_eq!(store.free.len(), 3);
    }

    #[test]
    fn pages_move_from_free_to_held_to_cached_and_back() {
        let mut store = PageStore::new(4);
        let tokens = tokens(2 * PAGE_LEN + 5);
        let mut held = store.find(TREE, &tokens);
        assert!(held.pages().is_empty());
        assert!(store.grow(&mut held, 3) && !store.grow(&mut held, 2));
        store.share(&mut held, &tokens);
        assert_eq!((store.in_use(), store.cached(), store.available()), (3, 0, 1));
        store.release(held);
        assert_eq!((store.in_use(), store.cached(), store.available()), (0, 2, 4));

        let again = store.find(TREE, &tokens);
        assert_eq!(again.pages().len(), 2);
        assert_eq!((store.in_use(), store.available()), (2, 2));
        store.release(again);
        let mut all = Held::nothing(TREE);
        assert!(store.grow(&mut all, 4), "cached pages are evicted");
        store.release(all);
        assert_eq!((store.cached(), store.flush(), store.available()), (0, 0, 4));
    }

    #[test]
    fn sequences_that_compute_the_same_page_share_one() {
        let mut store = PageStore::new(4);
        let tokens = tokens(PAGE_LEN + 1);
        let (mut a, mut b) = (Held::nothing(TREE), Held::nothing(TREE));
        assert!(store.grow(&mut a, 2) && store.grow(&mut b, 2));
        store.share(&mut a, &tokens);
        store.share(&mut b, &tokens);
        assert_eq!(a.pages()[0], b.pages()[0]);
        assert_eq!((store.in_use(), store.available()), (3, 1));
        store.release(a);
        assert_eq!(store.in_use(), 2, "b still holds the shared page");
        store.release(b);
        assert_eq!((store.in_use(), store.flush()), (0, 1));
    }
}
