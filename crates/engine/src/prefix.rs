//! The prefix cache: K/V pages found by the tokens they hold.
//!
//! Each node of a tree is one full page, identified by its tokens and the path above it. K/V of a position
//! depends only on the tokens up to it, so equal paths have equal K/V. Tokens themselves are compared, not
//! hashes. Each salt has its own tree: a client that does not know a salt cannot even measure whether a prompt
//! is cached under it.
//!
//! The tree owns its pages. A sequence holds a [`PrefixLock`] on the last page of its path; pages that are
//! locked or have children stay. The others are evicted when pages are needed, least recently used first.
//!
//! In a network with recurrent layers, a prefix is of use only up to a page after which a snapshot of the state
//! was kept. Nodes have the numbers of these snapshots; `store.rs` says when they are taken.
//!
//! With a window, pages in the middle of a path are of no use to it (`prefix/sliding.rs`).

mod sliding;

use std::collections::{BTreeSet, HashMap};

use wf_model::{PAGE_LEN, PageId, TokenId, Visibility, Window};

use sliding::Sight;
pub use sliding::window_pages;
pub(crate) use sliding::{OUT_OF_SIGHT, out_of_sight};

type PageTokens = [TokenId; PAGE_LEN];

type NodeId = usize;

/// Identity of a tree: sequences of equal salt and attention, with or without a prediction head, share pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    pub(crate) salt: u64,
    /// Attention of finished text, on which K/V depends.
    pub(crate) visibility: Visibility,
    /// True if pages have K/V of the prediction head, and states what it continues from.
    pub(crate) predicts: bool,
}

/// A path of pages, by its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Path {
    Empty(Tree),
    UpTo(NodeId),
}

/// Lock on a path of pages, to be released by [`PrefixCache::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a path that is never released is never evicted"]
pub(crate) struct PrefixLock {
    path: Path,
    sight: Sight,
}

struct Node {
    tokens: PageTokens,
    /// `None` if it was evicted and pages after it were not, as may be with a window.
    page: Option<PageId>,
    /// Path above the page.
    parent: Path,
    children: usize,
    /// Number of locks on the node and of held children.
    holds: usize,
    /// Number of locks that have the page in sight; with a window only.
    pins: usize,
    last_use: u64,
    /// Snapshot of the state after the page.
    snapshot: Option<StateId>,
}

/// Number of a state of the model.
pub(crate) type StateId = usize;

#[derive(Default)]
pub(crate) struct PrefixCache {
    nodes: Vec<Option<Node>>,
    vacant: Vec<NodeId>,
    /// All nodes, by the path above them and their tokens.
    children: HashMap<(Path, PageTokens), NodeId>,
    /// Evictable nodes by last use.
    evictable: BTreeSet<(u64, NodeId)>,
    now: u64,
    /// Number of nodes that have a page.
    resident: usize,
    /// Number of pages on locked paths; with a window, of those in sight.
    held: usize,
    /// Positions that a sequence keeps in sight, if not all.
    window: Option<Window>,
    /// True if a prefix ends where there is a snapshot.
    needs_snapshots: bool,
    /// Nodes with a snapshot, the least recently used first.
    snapshots: Vec<NodeId>,
}

impl PrefixCache {
    /// Creates a cache of a network with recurrent layers.
    pub(crate) fn with_snapshots() -> Self {
        Self { needs_snapshots: true, ..Self::default() }
    }

    /// Keeps pages for sequences that see them through a window.
    pub(crate) fn with_window(self, window: Option<Window>) -> Self {
        Self { window, ..self }
    }

    /// Returns a lock on the empty path of `tree`.
    pub(crate) fn root(tree: Tree) -> PrefixLock {
        PrefixLock { path: Path::Empty(tree), sight: Sight::default() }
    }

    /// Returns the pages that hold the longest cached prefix of `tokens`, and a lock on them. Pages out of sight
    /// are [`OUT_OF_SIGHT`].
    pub(crate) fn lookup(&mut self, tree: Tree, tokens: &[TokenId]) -> (Vec<PageId>, PrefixLock) {
        let nodes = self.usable(tree, tokens);
        let path = nodes.last().map_or(Path::Empty(tree), |&last| Path::UpTo(last));
        self.hold(path);
        if self.window.is_some() {
            return self.look(path, nodes);
        }
        let pages = nodes.iter().filter_map(|&node| self.node(node).page).collect();
        (pages, PrefixLock { path, sight: Sight::default() })
    }

    /// Returns the number of pages that [`lookup`](Self::lookup) would find.
    pub(crate) fn matching(&self, tree: Tree, tokens: &[TokenId]) -> usize {
        self.usable(tree, tokens).len()
    }

    /// Returns the nodes of the longest prefix that a sequence can start with.
    fn usable(&self, tree: Tree, tokens: &[TokenId]) -> Vec<NodeId> {
        let mut nodes: Vec<_> = self.find(tree, tokens).collect();
        let has_snapshot =
            |node: NodeId| !self.needs_snapshots || self.node(node).snapshot.is_some();
        let last = match self.window {
            None => nodes.iter().rposition(|&node| has_snapshot(node)),
            Some(window) => {
                let is_resident: Vec<_> =
                    nodes.iter().map(|&node| self.node(node).page.is_some()).collect();
                let reaches = sliding::prefixes_in_sight(window, &is_resident);
                (0..nodes.len()).rfind(|&last| reaches[last] && has_snapshot(nodes[last]))
            }
        };
        nodes.truncate(last.map_or(0, |last| last + 1));
        nodes
    }

    /// Returns the snapshot at the end of a path, and marks it as used.
    pub(crate) fn snapshot(&mut self, lock: &PrefixLock) -> Option<StateId> {
        let Path::UpTo(id) = lock.path else { return None };
        let snapshot = self.node(id).snapshot?;
        self.snapshots.retain(|&other| other != id);
        self.snapshots.push(id);
        Some(snapshot)
    }

    /// Returns `true` if the path has pages and no snapshot at its end.
    pub(crate) fn lacks_snapshot(&self, lock: &PrefixLock) -> bool {
        matches!(lock.path, Path::UpTo(id) if self.node(id).snapshot.is_none())
    }

    /// Gives the end of a path, which lacks one, a snapshot.
    pub(crate) fn set_snapshot(&mut self, lock: &PrefixLock, snapshot: StateId) {
        if let Path::UpTo(id) = lock.path {
            self.node_mut(id).snapshot = Some(snapshot);
            self.snapshots.push(id);
        }
    }

    /// Returns `true` if a page has a snapshot.
    pub(crate) fn has_snapshots(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Takes the least recently used snapshot away from its page.
    pub(crate) fn evict_snapshot(&mut self) -> Option<StateId> {
        if self.snapshots.is_empty() {
            return None;
        }
        let id = self.snapshots.remove(0);
        self.node_mut(id).snapshot.take()
    }

    fn find(&self, tree: Tree, tokens: &[TokenId]) -> impl Iterator<Item = NodeId> {
        tokens.as_chunks().0.iter().scan(Path::Empty(tree), |path, page_tokens| {
            let node = *self.children.get(&(*path, *page_tokens))?;
            *path = Path::UpTo(node);
            Some(node)
        })
    }

    /// Extends a locked path by a page and returns the page of the path. That is another one than `page` if the
    /// tree already has these tokens: both hold the same K/V, and `page` is free again.
    pub(crate) fn extend(
        &mut self,
        lock: &mut PrefixLock,
        tokens: &PageTokens,
        page: PageId,
    ) -> PageId {
        let known = self.children.get(&(lock.path, *tokens)).copied();
        let node = known.unwrap_or_else(|| self.insert(lock.path, *tokens));
        self.hold(Path::UpTo(node));
        self.let_go(lock.path);
        lock.path = Path::UpTo(node);
        if self.node(node).page.is_none() {
            self.node_mut(node).page = Some(page);
            self.resident += 1;
        }
        if self.window.is_some() {
            self.pin(node);
            lock.sight.nodes.push(node);
        }
        self.node(node).page.unwrap_or(page)
    }

    /// Releases a path. Its pages stay until they are evicted.
    #[expect(clippy::needless_pass_by_value, reason = "a lock is released once")]
    pub(crate) fn release(&mut self, lock: PrefixLock) {
        self.close(&lock);
        self.let_go(lock.path);
    }

    /// Evicts the least recently used page, if any is evictable, and returns it with its snapshot.
    pub(crate) fn evict(&mut self) -> Option<(PageId, Option<StateId>)> {
        let (_, id) = self.evictable.pop_first()?;
        let node = self.node_mut(id);
        let (page, snapshot) = (node.page.take(), node.snapshot.take());
        self.snapshots.retain(|&other| other != id);
        self.resident -= 1;
        self.remove_empty(id);
        page.map(|page| (page, snapshot))
    }

    /// Removes a node that has neither page nor locks nor children, and those above it of which that is true then.
    fn remove_empty(&mut self, mut id: NodeId) {
        loop {
            let node = self.node(id);
            if node.page.is_some() || node.holds > 0 || node.children > 0 {
                break;
            }
            let (parent, tokens) = (node.parent, node.tokens);
            self.nodes[id] = None;
            self.vacant.push(id);
            self.children.remove(&(parent, tokens));
            let Path::UpTo(above) = parent else { break };
            self.node_mut(above).children -= 1;
            self.settle(above);
            id = above;
        }
    }

    /// Returns the number of pages that no sequence holds.
    pub(crate) fn unlocked_pages(&self) -> usize {
        self.resident - self.held
    }

    fn insert(&mut self, parent: Path, tokens: PageTokens) -> NodeId {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() - 1
        });
        self.nodes[id] = Some(Node {
            tokens,
            page: None,
            parent,
            children: 0,
            holds: 0,
            pins: 0,
            last_use: 0,
            snapshot: None,
        });
        self.children.insert((parent, tokens), id);
        if let Path::UpTo(parent) = parent {
            self.node_mut(parent).children += 1;
        }
        id
    }

    fn hold(&mut self, mut path: Path) {
        while let Path::UpTo(id) = path {
            let node = self.node_mut(id);
            node.holds += 1;
            if node.holds > 1 {
                break;
            }
            let last_use = node.last_use;
            path = node.parent;
            if self.window.is_none() {
                self.held += 1;
                self.evictable.remove(&(last_use, id));
            }
        }
    }

    /// Undoes one [`hold`](Self::hold). Nodes that nothing else holds were last used now.
    fn let_go(&mut self, mut path: Path) {
        self.now += 1;
        let now = self.now;
        while let Path::UpTo(id) = path {
            let node = self.node_mut(id);
            node.holds -= 1;
            if node.holds > 0 {
                break;
            }
            path = node.parent;
            if self.window.is_none() {
                self.node_mut(id).last_use = now;
                self.held -= 1;
                self.settle(id);
            }
        }
    }

    /// Makes a node evictable if it has no locks and no children.
    fn settle(&mut self, id: NodeId) {
        let node = self.node(id);
        if self.window.is_none() && node.holds == 0 && node.children == 0 {
            self.evictable.insert((node.last_use, id));
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        self.nodes[id].as_ref().expect("a linked node exists")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id].as_mut().expect("a linked node exists")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::rng::noise_key;

    fn tree(salt: u64) -> Tree {
        Tree { salt, visibility: Visibility::Causal, predicts: false }
    }

    fn page_of(token: TokenId) -> PageTokens {
        [token; PAGE_LEN]
    }

    fn path(tokens: &[TokenId]) -> Vec<TokenId> {
        tokens.iter().flat_map(|&token| page_of(token)).collect()
    }

    fn evict(cache: &mut PrefixCache) -> Option<PageId> {
        cache.evict().map(|(page, _)| page)
    }

    /// Caches a path of the given pages.
    fn store(cache: &mut PrefixCache, tree: Tree, tokens: &[TokenId], pages: &[PageId]) {
        let mut lock = PrefixCache::root(tree);
        for (&token, &page) in tokens.iter().zip(pages) {
            assert_eq!(cache.extend(&mut lock, &page_of(token), page), page);
        }
        cache.release(lock);
    }

    #[test]
    fn the_longest_cached_prefix_is_found() {
        let mut cache = PrefixCache::default();
        store(&mut cache, tree(0), &[1, 2, 3], &[10, 11, 12]);
        let mut tokens = path(&[1, 2, 4]);
        tokens.push(1);
        assert_eq!(cache.matching(tree(0), &tokens), 2);
        let (pages, lock) = cache.lookup(tree(0), &tokens);
        assert_eq!(pages, [10, 11]);
        cache.release(lock);
        assert_eq!(cache.matching(tree(0), &path(&[1, 2, 3])[..95]), 2, "a partial page");
        assert_eq!(cache.matching(tree(1), &path(&[1, 2, 3])), 0, "another salt");
        let blocks = Tree { visibility: Visibility::Block(32), ..tree(0) };
        assert_eq!(cache.matching(blocks, &path(&[1, 2, 3])), 0, "another attention");
    }

    #[test]
    fn a_page_that_is_already_cached_is_not_stored_twice() {
        let mut cache = PrefixCache::default();
        store(&mut cache, tree(0), &[1], &[10]);
        let mut lock = PrefixCache::root(tree(0));
        assert_eq!(cache.extend(&mut lock, &page_of(1), 20), 10);
        assert_eq!(cache.extend(&mut lock, &page_of(2), 21), 21);
        assert_eq!((cache.children.len(), cache.unlocked_pages()), (2, 0));
        assert_eq!(evict(&mut cache), None, "both are on a locked path");
        cache.release(lock);
        assert_eq!(
            (evict(&mut cache), evict(&mut cache), evict(&mut cache)),
            (Some(21), Some(10), None)
        );
    }

    #[test]
    fn the_least_recently_used_page_is_evicted_first_and_leaves_before_parents() {
        let mut cache = PrefixCache::default();
        store(&mut cache, tree(0), &[1, 2], &[10, 11]);
        store(&mut cache, tree(0), &[1, 3], &[10, 12]);
        store(&mut cache, tree(0), &[4], &[13]);
        let (_, lock) = cache.lookup(tree(0), &path(&[1, 2]));
        cache.release(lock);
        let order: Vec<_> = std::iter::from_fn(|| evict(&mut cache)).collect();
        assert_eq!(order, [12, 13, 11, 10]);
    }

    /// Compares random use with a plain list of the expected pages.
    #[test]
    fn no_page_is_lost_or_shared_wrongly_in_random_use() {
        let mut cache = PrefixCache::default();
        let mut free: Vec<PageId> = (0..40).collect();
        let mut locks: Vec<(Tree, Vec<TokenId>, Vec<PageId>, PrefixLock)> = Vec::new();
        let draw = |at: usize, below: usize| noise_key(7, 0, at).0[0] as usize % below;
        for at in 0..20_000 {
            let tree = tree(draw(3 * at, 2) as u64);
            if draw(3 * at + 1, 3) > 0 || locks.is_empty() {
                let depth = draw(3 * at + 2, 6);
                let tokens: Vec<TokenId> =
                    (0..depth).map(|d| draw(at * 31 + d, 3) as TokenId).collect();
                let (mut pages, mut lock) = cache.lookup(tree, &path(&tokens));
                for &token in &tokens[pages.len()..] {
                    let Some(page) = free.pop().or_else(|| evict(&mut cache)) else { break };
                    let kept = cache.extend(&mut lock, &page_of(token), page);
                    pages.push(kept);
                    free.extend((kept != page).then_some(page));
                }
                locks.push((tree, tokens, pages, lock));
            } else {
                let (_, _, _, lock) = locks.swap_remove(draw(3 * at + 2, locks.len()));
                cache.release(lock);
            }
            for (tree, tokens, pages, _) in &locks {
                let (found, lock) = cache.lookup(*tree, &path(&tokens[..pages.len()]));
                assert_eq!(&found, pages, "a locked path does not change");
                cache.release(lock);
            }
            let held: HashSet<_> = locks.iter().flat_map(|(_, _, pages, _)| pages).collect();
            assert_eq!(cache.children.len() - cache.unlocked_pages(), held.len());
            assert_eq!(free.len() + cache.children.len(), 40, "every page is free or cached");
        }
        locks.into_iter().for_each(|(_, _, _, lock)| cache.release(lock));
        free.extend(std::iter::from_fn(|| evict(&mut cache)));
        assert_eq!(free.iter().collect::<HashSet<_>>().len(), 40);
        assert!(cache.children.is_empty() && cache.evictable.is_empty());
    }
}
