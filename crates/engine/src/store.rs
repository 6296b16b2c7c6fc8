//! Where every page is: free, held by a sequence, or kept because it may be asked for again.

use wf_model::{PAGE_LEN, PageId, TokenId};

use crate::pages::PagePool;
use crate::prefix::{PrefixCache, PrefixLock, Tree};

/// The pages of one sequence, in the order of positions. The first of them are shared: they belong
/// to the prefix cache, which keeps them for us.
#[derive(Debug)]
pub(crate) struct Held {
    pages: Vec<PageId>,
    shared: usize,
    lock: PrefixLock,
}

impl Held {
    /// No pages, for tokens that share with others of the same tree.
    pub(crate) fn nothing(tree: Tree) -> Self {
        Self { pages: Vec::new(), shared: 0, lock: PrefixCache::root(tree) }
    }

    pub(crate) fn pages(&self) -> &[PageId] {
        &self.pages
    }
}

/// All pages.
pub(crate) struct PageStore {
    pool: PagePool,
    cache: PrefixCache,
    total: usize,
}

impl PageStore {
    pub(crate) fn new(total: usize) -> Self {
        Self { pool: PagePool::new(total), cache: PrefixCache::default(), total }
    }

    /// Pages that are free, or become so when needed.
    pub(crate) fn available(&self) -> usize {
        self.pool.free() + self.cache.unlocked_pages()
    }

    /// Pages that some sequence holds.
    pub(crate) fn in_use(&self) -> usize {
        self.total - self.available()
    }

    /// Pages that nobody holds and that are kept for the tokens in them.
    pub(crate) fn kept(&self) -> usize {
        self.cache.unlocked_pages()
    }

    /// How many pages hold the start of `tokens` already.
    pub(crate) fn matching(&self, tree: Tree, tokens: &[TokenId]) -> usize {
        self.cache.matching(tree, tokens)
    }

    /// The pages that hold the start of `tokens` already.
    pub(crate) fn find(&mut self, tree: Tree, tokens: &[TokenId]) -> Held {
        let (pages, lock) = self.cache.lookup(tree, tokens);
        Held { shared: pages.len(), pages, lock }
    }

    /// Adds `pages` pages, all or nothing.
    pub(crate) fn grow(&mut self, held: &mut Held, pages: usize) -> bool {
        if pages > self.available() {
            return false;
        }
        while self.pool.free() < pages {
            let page = self.cache.evict().expect("unlocked pages can be evicted");
            self.pool.give([page]);
        }
        self.pool.take(pages, &mut held.pages)
    }

    /// Lets others find the pages that `tokens` fill to the last place. What they hold is final.
    pub(crate) fn share(&mut self, held: &mut Held, tokens: &[TokenId]) {
        let whole = tokens.as_chunks::<PAGE_LEN>().0;
        for (tokens, page) in whole.iter().zip(&mut held.pages).skip(held.shared) {
            let (kept, back) = self.cache.extend(&mut held.lock, tokens, *page);
            *page = kept;
            self.pool.give(back);
            held.shared += 1;
        }
    }

    /// Takes the pages back. Shared ones can still be found until they are needed.
    pub(crate) fn release(&mut self, held: Held) {
        self.pool.give(held.pages.into_iter().skip(held.shared));
        self.cache.release(held.lock);
    }

    /// Forgets every page that nobody holds. Returns how many there were.
    pub(crate) fn flush(&mut self) -> usize {
        let mut flushed = 0;
        while let Some(page) = self.cache.evict() {
            self.pool.give([page]);
            flushed += 1;
        }
        flushed
    }
}

#[cfg(test)]
mod tests {
    use wf_model::Sees;

    use super::*;

    const TREE: Tree = Tree { salt: 0, sees: Sees::Causal };

    fn tokens(len: usize) -> Vec<TokenId> {
        (0..len as TokenId).collect()
    }

    #[test]
    fn pages_move_from_free_to_held_to_kept_and_back() {
        let mut store = PageStore::new(4);
        let tokens = tokens(2 * PAGE_LEN + 5);
        let mut held = store.find(TREE, &tokens);
        assert!(held.pages().is_empty());
        assert!(store.grow(&mut held, 3) && !store.grow(&mut held, 2));
        store.share(&mut held, &tokens);
        assert_eq!((store.in_use(), store.kept(), store.available()), (3, 0, 1));
        store.release(held);
        assert_eq!((store.in_use(), store.kept(), store.available()), (0, 2, 4));

        let again = store.find(TREE, &tokens);
        assert_eq!(again.pages().len(), 2);
        assert_eq!((store.in_use(), store.available()), (2, 2));
        store.release(again);
        let mut all = Held::nothing(TREE);
        assert!(store.grow(&mut all, 4), "kept pages make room");
        store.release(all);
        assert_eq!((store.kept(), store.flush(), store.available()), (0, 0, 4));
    }

    #[test]
    fn two_that_compute_the_same_end_up_with_one_page() {
        let mut store = PageStore::new(4);
        let tokens = tokens(PAGE_LEN + 1);
        let (mut a, mut b) = (Held::nothing(TREE), Held::nothing(TREE));
        assert!(store.grow(&mut a, 2) && store.grow(&mut b, 2));
        store.share(&mut a, &tokens);
        store.share(&mut b, &tokens);
        assert_eq!(a.pages()[0], b.pages()[0]);
        assert_eq!((store.in_use(), store.available()), (3, 1));
        store.release(a);
        assert_eq!(store.in_use(), 2, "b holds the shared page still");
        store.release(b);
        assert_eq!((store.in_use(), store.flush()), (0, 1));
    }
}
