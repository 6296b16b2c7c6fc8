//! Pages that hold what a prompt starts with, found again by their tokens.
//!
//! A tree: each node is one whole page, known by the tokens in it and by the path above it. K/V of a
//! position depends on the tokens up to it alone, so a path of equal tokens is a path of equal K/V.
//! Tokens are compared, never only their hashes. Each salt has a tree of its own: who does not know
//! it cannot even measure what others asked.
//!
//! The tree owns its pages. A sequence that uses some of them holds a [`PrefixLock`] on the last
//! one; a page with a lock or with pages below it stays. The others go when pages are needed, the
//! one that was not used for longest first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wf_model::{PAGE_LEN, PageId, Sees, TokenId};

/// The tokens of one page.
type PageTokens = [TokenId; PAGE_LEN];

/// Where a node lies in the arena.
type NodeId = usize;

/// Keeps a path of pages. To be given back by [`PrefixCache::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a path that is never released is never evicted"]
pub(crate) struct PrefixLock {
    tree: Tree,
    /// The last page of the path; nothing if it has none.
    last: Option<NodeId>,
}

struct Node {
    tokens: PageTokens,
    page: PageId,
    tree: Tree,
    parent: Option<NodeId>,
    children: BTreeMap<PageTokens, NodeId>,
    /// Locks on it, and pages below it that are held.
    holds: usize,
    last_use: u64,
}

/// Who shares pages: those of one salt, whose text sees the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    /// Nobody finds what was computed under another.
    pub(crate) salt: u64,
    /// What finished text sees: K/V written under one answer is not that of another.
    pub(crate) sees: Sees,
}

/// All trees.
#[derive(Default)]
pub(crate) struct PrefixCache {
    nodes: Vec<Option<Node>>,
    vacant: Vec<NodeId>,
    /// The first pages of each tree.
    roots: HashMap<Tree, BTreeMap<PageTokens, NodeId>>,
    /// What may go, by its last use.
    evictable: BTreeSet<(u64, NodeId)>,
    /// Counts uses.
    now: u64,
    pages: usize,
    /// Pages on locked paths.
    held: usize,
}

impl PrefixCache {
    /// A lock on no page of `tree`: where a path starts.
    pub(crate) fn root(tree: Tree) -> PrefixLock {
        PrefixLock { tree, last: None }
    }

    /// The pages that hold the start of `tokens`, as many as there are, and a lock on them.
    pub(crate) fn lookup(&mut self, tree: Tree, tokens: &[TokenId]) -> (Vec<PageId>, PrefixLock) {
        let (mut pages, mut last) = (Vec::new(), None);
        for page_tokens in tokens.as_chunks().0 {
            let Some(node) = self.child(tree, last, page_tokens) else { break };
            pages.push(self.node(node).page);
            last = Some(node);
        }
        self.hold(last);
        (pages, PrefixLock { tree, last })
    }

    /// How many pages [`lookup`](Self::lookup) would find.
    pub(crate) fn matching(&self, tree: Tree, tokens: &[TokenId]) -> usize {
        let mut last = None;
        let found = tokens.as_chunks().0.iter().take_while(|page_tokens| {
            last = self.child(tree, last, page_tokens);
            last.is_some()
        });
        found.count()
    }

    /// Lengthens a locked path by a page. If the tree has the same tokens there already, the page
    /// that holds them is the path's, and `page` comes back to the caller: they hold the same K/V.
    pub(crate) fn extend(
        &mut self,
        lock: &mut PrefixLock,
        tokens: &PageTokens,
        page: PageId,
    ) -> (PageId, Option<PageId>) {
        let (node, result) = match self.child(lock.tree, lock.last, tokens) {
            Some(node) => (node, (self.node(node).page, Some(page))),
            None => (self.insert(lock, *tokens, page), (page, None)),
        };
        self.hold(Some(node));
        self.let_go(lock.last);
        lock.last = Some(node);
        result
    }

    /// Lets a path go. Its pages stay until they are needed.
    #[expect(clippy::needless_pass_by_value, reason = "a lock is released once")]
    pub(crate) fn release(&mut self, lock: PrefixLock) {
        self.let_go(lock.last);
    }

    /// Takes the page that was not used for longest out of the tree, if one may go.
    pub(crate) fn evict(&mut self) -> Option<PageId> {
        let (_, id) = self.evictable.pop_first()?;
        let node = self.nodes[id].take().expect("an evictable node exists");
        self.vacant.push(id);
        self.pages -= 1;
        match node.parent {
            Some(parent) => {
                self.node_mut(parent).children.remove(&node.tokens);
                self.settle(parent);
            }
            None => {
                let roots = self.roots.get_mut(&node.tree).expect("a tree of its nodes");
                roots.remove(&node.tokens);
                if roots.is_empty() {
                    self.roots.remove(&node.tree);
                }
            }
        }
        Some(node.page)
    }

    /// Pages in the trees.
    #[cfg(test)]
    fn pages(&self) -> usize {
        self.pages
    }

    /// Pages that go when they are needed: no locked path runs through them.
    pub(crate) fn unlocked_pages(&self) -> usize {
        self.pages - self.held
    }

    fn insert(&mut self, lock: &PrefixLock, tokens: PageTokens, page: PageId) -> NodeId {
        let node = Node {
            tokens,
            page,
            tree: lock.tree,
            parent: lock.last,
            children: BTreeMap::new(),
            holds: 0,
            last_use: 0,
        };
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() - 1
        });
        self.nodes[id] = Some(node);
        self.pages += 1;
        match lock.last {
            Some(parent) => self.node_mut(parent).children.insert(tokens, id),
            None => self.roots.entry(lock.tree).or_default().insert(tokens, id),
        };
        id
    }

    fn child(&self, tree: Tree, parent: Option<NodeId>, tokens: &PageTokens) -> Option<NodeId> {
        let children = match parent {
            Some(parent) => &self.node(parent).children,
            None => self.roots.get(&tree)?,
        };
        children.get(tokens).copied()
    }

    /// Holds the path that ends with `node`.
    fn hold(&mut self, mut node: Option<NodeId>) {
        while let Some(id) = node {
            let at = self.node_mut(id);
            at.holds += 1;
            if at.holds > 1 {
                break;
            }
            let (last_use, parent) = (at.last_use, at.parent);
            self.held += 1;
            self.evictable.remove(&(last_use, id));
            node = parent;
        }
    }

    /// Undoes one [`hold`](Self::hold): what nothing else holds was used until now.
    fn let_go(&mut self, mut node: Option<NodeId>) {
        self.now += 1;
        let now = self.now;
        while let Some(id) = node {
            let at = self.node_mut(id);
            at.holds -= 1;
            if at.holds > 0 {
                break;
            }
            at.last_use = now;
            node = at.parent;
            self.held -= 1;
            self.settle(id);
        }
    }

    /// If nothing holds it and nothing lies below it, it may go from now on.
    fn settle(&mut self, id: NodeId) {
        let node = self.node(id);
        if node.holds == 0 && node.children.is_empty() {
            self.evictable.insert((node.last_use, id));
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        self.nodes[id].as_ref().expect("a node that is linked exists")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id].as_mut().expect("a node that is linked exists")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::rng::uniform;

    fn tree(salt: u64) -> Tree {
        Tree { salt, sees: Sees::Causal }
    }

    fn page_of(token: TokenId) -> PageTokens {
        [token; PAGE_LEN]
    }

    fn path(tokens: &[TokenId]) -> Vec<TokenId> {
        tokens.iter().flat_map(|&token| page_of(token)).collect()
    }

    /// Makes a path with the given pages and lets it go.
    fn store(cache: &mut PrefixCache, tree: Tree, tokens: &[TokenId], pages: &[PageId]) {
        let mut lock = PrefixCache::root(tree);
        for (&token, &page) in tokens.iter().zip(pages) {
            assert_eq!(cache.extend(&mut lock, &page_of(token), page).0, page);
        }
        cache.release(lock);
    }

    #[test]
    fn equal_tokens_are_found_as_far_as_they_are_equal() {
        let mut cache = PrefixCache::default();
        store(&mut cache, tree(0), &[1, 2, 3], &[10, 11, 12]);
        let mut tokens = path(&[1, 2, 4]);
        tokens.push(1);
        assert_eq!(cache.matching(tree(0), &tokens), 2);
        let (pages, lock) = cache.lookup(tree(0), &tokens);
        assert_eq!(pages, [10, 11]);
        cache.release(lock);
        assert_eq!(cache.matching(tree(0), &path(&[1, 2, 3])[..95]), 2, "a page that is not whole");
        assert_eq!(cache.matching(tree(1), &path(&[1, 2, 3])), 0, "another salt");
        let blocks = Tree { salt: 0, sees: Sees::Block(32) };
        assert_eq!(cache.matching(blocks, &path(&[1, 2, 3])), 0, "text that sees more");
    }

    #[test]
    fn a_page_that_is_there_already_comes_back() {
        let mut cache = PrefixCache::default();
        store(&mut cache, tree(0), &[1], &[10]);
        let mut lock = PrefixCache::root(tree(0));
        assert_eq!(cache.extend(&mut lock, &page_of(1), 20), (10, Some(20)));
        assert_eq!(cache.extend(&mut lock, &page_of(2), 21), (21, None));
        assert_eq!((cache.pages(), cache.unlocked_pages()), (2, 0));
        assert_eq!(cache.evict(), None, "both are on a locked path");
        cache.release(lock);
        assert_eq!((cache.evict(), cache.evict(), cache.evict()), (Some(21), Some(10), None));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_ends_before_beginnings() {
        let mut cache = PrefixCache::default();
        store(&mut cache, tree(0), &[1, 2], &[10, 11]);
        store(&mut cache, tree(0), &[1, 3], &[10, 12]);
        store(&mut cache, tree(0), &[4], &[13]);
        let (_, lock) = cache.lookup(tree(0), &path(&[1, 2]));
        cache.release(lock);
        let order: Vec<_> = std::iter::from_fn(|| cache.evict()).collect();
        assert_eq!(order, [12, 13, 11, 10]);
    }

    /// Random paths against a plain list of what should be there.
    #[test]
    fn no_page_is_lost_or_lent_wrongly_in_random_use() {
        let mut cache = PrefixCache::default();
        let mut free: Vec<PageId> = (0..40).collect();
        let mut locks: Vec<(Tree, Vec<TokenId>, Vec<PageId>, PrefixLock)> = Vec::new();
        let draw = |at: usize, below: usize| (uniform(7, 0, at) * below as f64) as usize;
        for at in 0..20_000 {
            let tree = tree(draw(3 * at, 2) as u64);
            if draw(3 * at + 1, 3) > 0 || locks.is_empty() {
                let depth = draw(3 * at + 2, 6);
                let tokens: Vec<TokenId> =
                    (0..depth).map(|d| draw(at * 31 + d, 3) as TokenId).collect();
                let (mut pages, mut lock) = cache.lookup(tree, &path(&tokens));
                for &token in &tokens[pages.len()..] {
                    let Some(page) = free.pop().or_else(|| cache.evict()) else { break };
                    let (kept, back) = cache.extend(&mut lock, &page_of(token), page);
                    pages.push(kept);
                    free.extend(back);
                }
                locks.push((tree, tokens, pages, lock));
            } else {
                let (_, _, _, lock) = locks.swap_remove(draw(3 * at + 2, locks.len()));
                cache.release(lock);
            }
            for (tree, tokens, pages, _) in &locks {
                let (found, lock) = cache.lookup(*tree, &path(&tokens[..pages.len()]));
                assert_eq!(&found, pages, "a locked path stays as it is");
                cache.release(lock);
            }
            let held: HashSet<_> = locks.iter().flat_map(|(_, _, pages, _)| pages).collect();
            assert_eq!(cache.pages() - cache.unlocked_pages(), held.len());
            assert_eq!(free.len() + cache.pages(), 40, "every page is somewhere");
        }
        locks.into_iter().for_each(|(_, _, _, lock)| cache.release(lock));
        free.extend(std::iter::from_fn(|| cache.evict()));
        assert_eq!(free.iter().collect::<HashSet<_>>().len(), 40);
        assert!(cache.roots.is_empty() && cache.evictable.is_empty());
    }
}
