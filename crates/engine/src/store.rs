//! The pages of the K/V cache: free, held by a sequence, or cached for later prompts.
//!
//! In a network with recurrent layers, a running sequence also holds a state, and the others hold snapshots of
//! states at some page borders: after 1, 2, 3, 4, 6, 8, 12, … pages, so that at least two thirds of a shared prefix
//! are of use, and after the last page of a prompt. Snapshots give way to states of sequences, and to each
//! other, least recently used first.

use wf_model::{PAGE_LEN, PageId, TokenId, Window};

use crate::prefix::{OUT_OF_SIGHT, PrefixCache, PrefixLock, StateId, Tree, out_of_sight};

/// Pages of one sequence, in order of positions. The leading ones are shared and belong to the prefix cache.
#[derive(Debug)]
pub(crate) struct Held {
    pages: Vec<PageId>,
    shared: usize,
    lock: PrefixLock,
    /// State of the sequence, if it needs one.
    state: Option<StateId>,
    /// Number of pages from the first on, without the sinks of a window, that are out of sight.
    out: usize,
}

impl Held {
    /// Holds no pages of `tree`.
    pub(crate) fn nothing(tree: Tree) -> Self {
        Self { pages: Vec::new(), shared: 0, lock: PrefixCache::root(tree), state: None, out: 0 }
    }

    /// Returns the number of pages in sight.
    pub(crate) fn pages_in_sight(&self) -> usize {
        self.pages.len() - self.out
    }

    /// Returns the state of the sequence; any number if it needs none.
    pub(crate) fn state(&self) -> StateId {
        self.state.unwrap_or_default()
    }

    /// Returns the pages of all positions. Those out of sight are [`OUT_OF_SIGHT`].
    pub(crate) fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Returns the leading pages, which belong to the prefix cache.
    pub(crate) fn shared_pages(&self) -> &[PageId] {
        &self.pages[..self.shared]
    }
}

pub(crate) struct PageStore {
    /// Free pages, which are taken from the back: low ids first.
    free: Vec<PageId>,
    cache: PrefixCache,
    total: usize,
    /// States that are neither held nor snapshots.
    free_states: Vec<StateId>,
    has_states: bool,
    /// Positions that sequences keep in sight, if not all.
    window: Option<Window>,
}

/// Returns `true` if the state after so many pages is worth a snapshot, whatever the prompt.
fn is_border(pages: usize) -> bool {
    pages.is_power_of_two() || (pages.is_multiple_of(3) && (pages / 3).is_power_of_two())
}

/// Returns the next position after `len` at which a snapshot is taken, for a prompt of `prompt_len` tokens.
fn next_border(len: usize, prompt_len: usize) -> usize {
    let next = (len / PAGE_LEN + 1..).find(|&pages| is_border(pages)).unwrap_or(usize::MAX);
    // The last token of a prompt has to run for its logits.
    let of_prompt = prompt_len.saturating_sub(1) / PAGE_LEN;
    let pages = if of_prompt * PAGE_LEN > len { next.min(of_prompt) } else { next };
    pages.saturating_mul(PAGE_LEN)
}

impl PageStore {
    /// Creates a store of `total` pages and, for networks with recurrent layers, of `states` states. Sequences
    /// keep their pages, or those that they see through a `window`.
    pub(crate) fn new(total: usize, states: usize, window: Option<Window>) -> Self {
        let ids = PageId::try_from(total).expect("fewer than 2^32 pages");
        let has_states = states > 0;
        let cache = if has_states { PrefixCache::with_snapshots() } else { PrefixCache::default() };
        let cache = cache.with_window(window);
        let free_states = (0..states).rev().collect();
        Self { free: (0..ids).rev().collect(), cache, total, free_states, has_states, window }
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

    /// Returns the number of pages in sight after a prefix of `pages` pages.
    pub(crate) fn in_sight(&self, pages: usize) -> usize {
        let out = self.window.map_or(0, |window| out_of_sight(window, pages * PAGE_LEN).len());
        pages - out
    }

    /// Returns the length of the next longer prefix of `tokens` that another sequence may leave.
    pub(crate) fn next_prefix(&self, tree: Tree, tokens: &[TokenId]) -> usize {
        let cached = self.matching(tree, tokens) * PAGE_LEN;
        if self.has_states { next_border(cached, 0) } else { cached + PAGE_LEN }
    }

    /// Takes the cached pages that hold a prefix of `tokens`.
    pub(crate) fn find(&mut self, tree: Tree, tokens: &[TokenId]) -> Held {
        // Before the pages: it may take the place of a snapshot.
        let state = self
            .has_states
            .then(|| self.take_state().expect("a sequence starts if there is a state"));
        let (pages, lock) = self.cache.lookup(tree, tokens);
        let out = pages.iter().filter(|page| **page == OUT_OF_SIGHT).count();
        Held { shared: pages.len(), pages, lock, state, out }
    }

    /// Gives back the pages that no token after the first `len` sees: shared ones to the prefix cache, from which
    /// they can be evicted.
    pub(crate) fn slide(&mut self, held: &mut Held, len: usize) {
        let Some(window) = self.window else { return };
        let out = out_of_sight(window, len);
        let out = out.start..out.end.min(held.pages.len());
        if out.len() <= held.out {
            return;
        }
        self.cache.slide(&mut held.lock, &out);
        for at in out.start + held.out..out.end {
            let page = std::mem::replace(&mut held.pages[at], OUT_OF_SIGHT);
            self.free.extend((at >= held.shared).then_some(page));
        }
        held.out = out.len();
    }

    /// Returns `true` if another sequence can start: it needs a state if the network has recurrent layers.
    pub(crate) fn has_state(&self) -> bool {
        !self.has_states || !self.free_states.is_empty() || self.cache.has_snapshots()
    }

    fn take_state(&mut self) -> Option<StateId> {
        self.free_states.pop().or_else(|| self.cache.evict_snapshot())
    }

    /// Returns the snapshot that the state of a sequence starts from, and that state.
    pub(crate) fn restored(&mut self, held: &Held) -> Option<(StateId, StateId)> {
        Some((self.cache.snapshot(&held.lock)?, held.state?))
    }

    /// Returns the maximum number of tokens that a sequence may run before its next snapshot, if it needs a
    /// state.
    pub(crate) fn run_limit(held: &Held, len: usize, prompt_len: usize) -> Option<usize> {
        held.state.map(|_| next_border(len, prompt_len) - len)
    }

    /// Decides whether the state of a sequence after `len` tokens is kept, all of whose whole pages are shared.
    /// Returns the state, and the number of its copy.
    pub(crate) fn keep_state(
        &mut self,
        held: &Held,
        len: usize,
        prompt_len: usize,
    ) -> Option<(StateId, StateId)> {
        let state = held.state?;
        let pages = len / PAGE_LEN;
        let wanted = is_border(pages) || pages == prompt_len.saturating_sub(1) / PAGE_LEN;
        if !len.is_multiple_of(PAGE_LEN) || pages == 0 || pages != held.shared || !wanted {
            return None;
        }
        if !self.cache.lacks_snapshot(&held.lock) {
            return None;
        }
        let copy = self.take_state()?;
        self.cache.set_snapshot(&held.lock, copy);
        Some((state, copy))
    }

    /// Allocates `pages` more pages, all or nothing. Returns `true` on success.
    pub(crate) fn grow(&mut self, held: &mut Held, pages: usize) -> bool {
        if pages > self.available() {
            return false;
        }
        while self.free.len() < pages {
            assert!(self.evict(), "unlocked pages can be evicted");
        }
        held.pages.extend(self.free.drain(self.free.len() - pages..).rev());
        true
    }

    /// Adds the pages that `tokens` fill completely to the prefix cache. Their K/V must be final.
    pub(crate) fn share(&mut self, held: &mut Held, tokens: &[TokenId]) {
        let whole = tokens.as_chunks::<PAGE_LEN>().0;
        for (tokens, page) in whole.iter().zip(&mut held.pages).skip(held.shared) {
            debug_assert!(*page != OUT_OF_SIGHT, "pages are shared before they are out of sight");
            let cached = self.cache.extend(&mut held.lock, tokens, *page);
            self.free.extend((cached != *page).then_some(*page));
            *page = cached;
            held.shared += 1;
        }
    }

    /// Releases the pages. Shared ones stay cached until they are evicted.
    pub(crate) fn release(&mut self, held: Held) {
        let own = held.pages.into_iter().skip(held.shared);
        self.free.extend(own.filter(|page| *page != OUT_OF_SIGHT));
        self.free_states.extend(held.state);
        debug_assert!(self.free.len() <= self.total, "a page was returned twice");
        self.cache.release(held.lock);
    }

    /// Evicts every cached page that no sequence holds. Returns their number.
    pub(crate) fn flush(&mut self) -> usize {
        let free = self.free.len();
        while self.evict() {}
        self.free.len() - free
    }

    /// Evicts a cached page and its snapshot. Returns `false` if there is none.
    fn evict(&mut self) -> bool {
        let Some((page, snapshot)) = self.cache.evict() else { return false };
        self.free.push(page);
        self.free_states.extend(snapshot);
        true
    }
}

#[cfg(test)]
mod tests {
    use wf_model::Visibility;

    use super::*;

    const TREE: Tree = Tree { salt: 0, visibility: Visibility::Causal, predicts: false };

    fn tokens(len: usize) -> Vec<TokenId> {
        (0..len as TokenId).collect()
    }

    #[test]
    fn pages_are_taken_all_or_nothing_and_never_twice() {
        let mut store = PageStore::new(5, 0, None);
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
        let mut store = PageStore::new(4, 0, None);
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
        let mut store = PageStore::new(4, 0, None);
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

    #[test]
    fn the_next_prefix_ends_one_page_or_one_border_after_the_cached_one() {
        let page = PAGE_LEN;
        let mut store = PageStore::new(8, 0, None);
        let tokens = tokens(8 * page);
        assert_eq!(store.next_prefix(TREE, &tokens), page);
        let mut held = Held::nothing(TREE);
        assert!(store.grow(&mut held, 4));
        store.share(&mut held, &tokens[..4 * page]);
        assert_eq!(store.next_prefix(TREE, &tokens), 5 * page);
        assert_eq!(store.next_prefix(TREE, &tokens[1..]), page, "other tokens");
        store.release(held);

        let mut store = PageStore::new(8, 8, None);
        run(&mut store, &tokens[..4 * page + 1]);
        assert_eq!(store.next_prefix(TREE, &tokens), 6 * page, "a state is kept after 6 pages");
    }

    #[test]
    fn borders_are_dense_at_the_start_and_reach_two_thirds_of_any_prefix() {
        let borders: Vec<_> = (1..=50).filter(|&pages| is_border(pages)).collect();
        assert_eq!(borders, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]);
        for pages in 1..=50 {
            let last = borders.iter().rfind(|&&border| border <= pages).unwrap();
            assert!(3 * last >= 2 * pages, "{pages} pages");
        }
        let page = PAGE_LEN;
        assert_eq!(next_border(0, 10), page);
        assert_eq!(next_border(4 * page, 5 * page), 6 * page);
        assert_eq!(next_border(4 * page + 1, 5 * page + 1), 5 * page, "the end of the prompt");
        assert_eq!(next_border(5 * page, 5 * page + 1), 6 * page);
    }

    /// Runs a sequence to its end and returns the copies of its state that it left.
    fn run(store: &mut PageStore, tokens: &[TokenId]) -> (usize, Vec<StateId>) {
        let mut held = store.find(TREE, &tokens[..tokens.len() - 1]);
        let start = held.pages().len();
        assert_eq!(store.restored(&held).is_some(), start > 0);
        let (mut len, mut copies) = (start * PAGE_LEN, Vec::new());
        while len < tokens.len() {
            let limit = PageStore::run_limit(&held, len, tokens.len()).unwrap();
            len = (len + limit).min(tokens.len());
            let missing = len.div_ceil(PAGE_LEN) - held.pages().len();
            assert!(store.grow(&mut held, missing));
            store.share(&mut held, &tokens[..len]);
            copies.extend(store.keep_state(&held, len, tokens.len()).map(|(_, copy)| copy));
        }
        store.release(held);
        (start, copies)
    }

    #[test]
    fn prefixes_end_at_snapshots_which_are_evicted_and_return() {
        let mut store = PageStore::new(16, 4, None);
        let tokens = tokens(5 * PAGE_LEN + 5);
        let (start, copies) = run(&mut store, &tokens);
        assert_eq!(start, 0);
        assert_eq!(copies.len(), 5, "after 1, 2, 3, 4 and 5 pages; three are left");
        assert_eq!(run(&mut store, &tokens).0, 5);
        assert_eq!(run(&mut store, &tokens[..4 * PAGE_LEN + 9]).0, 4);
        assert_eq!(run(&mut store, &tokens[..PAGE_LEN + 9]).0, 0, "its snapshot is gone");
        let all = store.flush();
        assert_eq!((all, store.free_states.len()), (5, 4));
        let held: Vec<_> = (0..4).map(|_| store.find(TREE, &tokens)).collect();
        assert!(held.iter().all(|held| held.pages().is_empty()));
        let mut states: Vec<_> = held.iter().map(Held::state).collect();
        states.sort_unstable();
        assert_eq!(states, [0, 1, 2, 3]);
    }

    #[test]
    fn pages_out_of_a_window_are_cached_or_free() {
        let window = Window { len: 2 * PAGE_LEN, sinks: 4 };
        let mut store = PageStore::new(4, 0, Some(window));
        let tokens = tokens(40 * PAGE_LEN + 1);
        for is_shared in [true, false] {
            let mut held = Held::nothing(TREE);
            for end in (1..=40).map(|page| page * PAGE_LEN) {
                store.slide(&mut held, end - PAGE_LEN);
                assert!(store.grow(&mut held, 1), "four pages are enough for {end} tokens");
                if is_shared {
                    store.share(&mut held, &tokens[..end]);
                }
            }
            assert_eq!((held.pages().len(), held.pages_in_sight()), (40, 4));
            store.slide(&mut held, 40 * PAGE_LEN);
            assert_eq!((held.pages_in_sight(), store.in_use(), store.available()), (3, 3, 1));
            store.release(held);
            assert_eq!((store.in_use(), store.available()), (0, 4));
        }
        let again = store.find(TREE, &tokens);
        assert_eq!((again.pages().len(), again.pages_in_sight()), (0, 0), "all were evicted");
        store.release(again);
    }

    #[test]
    fn a_prefix_is_found_whose_middle_is_out_of_sight() {
        let window = Window { len: 2 * PAGE_LEN, sinks: 4 };
        let mut store = PageStore::new(4, 0, Some(window));
        let tokens = tokens(40 * PAGE_LEN + 1);
        let mut held = Held::nothing(TREE);
        for end in (1..=40).map(|page| page * PAGE_LEN) {
            store.slide(&mut held, end - PAGE_LEN);
            assert!(store.grow(&mut held, 1));
            store.share(&mut held, &tokens[..end]);
        }
        store.release(held);
        let again = store.find(TREE, &tokens);
        assert_eq!((again.pages().len(), again.pages_in_sight()), (40, 3));
        store.release(again);
        assert_eq!(store.matching(TREE, &tokens[..39 * PAGE_LEN]), 39);
        assert_eq!(store.matching(TREE, &tokens[..38 * PAGE_LEN]), 1, "its window is gone");
        assert_eq!(store.flush(), 4);
    }
}
