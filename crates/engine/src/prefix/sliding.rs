//! Pages that a sequence sees through a window: the first and the newest of its path.
//!
//! A sequence pins the pages it has in sight. Others can be evicted while pages after them stay, so that a node may
//! have no page: a path is of use up to any page that has all pages before it in sight.

use std::ops::Range;

use wf_model::{PAGE_LEN, PageId, Window};

use super::{NodeId, Path, PrefixCache, PrefixLock};

/// In place of a page that is out of sight: no page has this number.
pub(crate) const OUT_OF_SIGHT: PageId = PageId::MAX;

/// Nodes of a locked path, if there is a window.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) nodes: Vec<NodeId>,
    /// Indices of the nodes whose pages are out of sight.
    out: Range<usize>,
}

impl Sight {
    fn new(nodes: Vec<NodeId>, window: Window) -> Self {
        let out = out_of_sight(window, nodes.len() * PAGE_LEN);
        Self { nodes, out }
    }
}

/// Returns the indices of the pages that no token after the first `len` sees.
pub(crate) fn out_of_sight(window: Window, len: usize) -> Range<usize> {
    let sinks = window.sinks.div_ceil(PAGE_LEN);
    sinks..(window.first(len + 1) / PAGE_LEN).max(sinks)
}

/// Returns the largest number of pages that a sequence has in sight while `chunk` tokens are computed.
pub fn window_pages(window: Window, chunk: usize) -> usize {
    // It begins and ends within a page.
    window.sinks.div_ceil(PAGE_LEN) + (window.len + chunk - 1).div_ceil(PAGE_LEN) + 1
}

/// For each page of a path, tells if the pages in sight after it are all resident.
pub(super) fn prefixes_in_sight(window: Window, is_resident: &[bool]) -> Vec<bool> {
    let sinks = window.sinks.div_ceil(PAGE_LEN);
    let first_gap = is_resident.iter().position(|resident| !resident).unwrap_or(usize::MAX);
    let mut run = 0;
    let reaches = is_resident.iter().enumerate().map(|(last, resident)| {
        run = if *resident { run + 1 } else { 0 };
        let out = out_of_sight(window, (last + 1) * PAGE_LEN);
        let newest = last + 1 - if out.is_empty() { 0 } else { out.end };
        run >= newest && first_gap >= sinks.min(last + 1)
    });
    reaches.collect()
}

impl PrefixCache {
    /// Returns the pages of a path and a lock on it, which pins those in sight.
    pub(super) fn look(&mut self, path: Path, nodes: Vec<NodeId>) -> (Vec<PageId>, PrefixLock) {
        let window = self.window.expect("a path is looked at through a window");
        let sight = Sight::new(nodes, window);
        let pages = sight.nodes.iter().enumerate().map(|(at, &node)| {
            let page = self.node(node).page.filter(|_| !sight.out.contains(&at));
            page.unwrap_or(OUT_OF_SIGHT)
        });
        let pages = pages.collect();
        let in_sight = sight.nodes.iter().enumerate().filter(|(at, _)| !sight.out.contains(at));
        let in_sight: Vec<_> = in_sight.map(|(_, &node)| node).collect();
        in_sight.into_iter().for_each(|node| self.pin(node));
        (pages, PrefixLock { path, sight })
    }

    /// Lets go of the pages before index `end` that are no sinks: no later token sees them.
    pub(crate) fn slide(&mut self, lock: &mut PrefixLock, out: &Range<usize>) {
        let end = out.end.min(lock.sight.nodes.len());
        let first = if lock.sight.out.is_empty() { out.start } else { lock.sight.out.end };
        for at in first..end {
            self.unpin(lock.sight.nodes[at]);
        }
        if first < end {
            lock.sight.out = out.start..end;
        }
    }

    /// Lets go of all pages of a path, the last first: pages at the end are evicted before those that lead to them.
    pub(super) fn close(&mut self, lock: &PrefixLock) {
        for (at, &node) in lock.sight.nodes.iter().enumerate().rev() {
            if !lock.sight.out.contains(&at) {
                self.unpin(node);
            }
        }
    }

    /// Keeps the page of a node, which has one, from being evicted.
    pub(super) fn pin(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.pins += 1;
        if node.pins == 1 {
            let last_use = node.last_use;
            self.held += 1;
            self.evictable.remove(&(last_use, id));
        }
    }

    fn unpin(&mut self, id: NodeId) {
        self.now += 1;
        let now = self.now;
        let node = self.node_mut(id);
        node.pins -= 1;
        if node.pins == 0 {
            node.last_use = now;
            self.held -= 1;
            self.evictable.insert((now, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wf_model::{TokenId, Visibility};

    use super::super::{PageTokens, Tree};
    use super::*;
    use crate::rng::noise_key;

    const TREE: Tree = Tree { salt: 0, visibility: Visibility::Causal, predicts: false };

    /// One page of sinks, and two or three newest pages.
    const WINDOW: Window = Window { len: 2 * PAGE_LEN, sinks: 4 };

    #[test]
    fn pages_between_sinks_and_window_are_out_of_sight() {
        assert_eq!(out_of_sight(WINDOW, WINDOW.positions() - 1), 1..1);
        assert_eq!(out_of_sight(WINDOW, 4 * PAGE_LEN - 2), 1..1);
        assert_eq!(out_of_sight(WINDOW, 4 * PAGE_LEN - 1), 1..2);
        assert_eq!(out_of_sight(WINDOW, 9 * PAGE_LEN), 1..7);
        assert_eq!(window_pages(WINDOW, 1), 4);
        let path = [true, true, true, true, false, true, true, true];
        let reaches = prefixes_in_sight(WINDOW, &path);
        assert_eq!(reaches, [true, true, true, true, false, false, true, true]);
        assert!(!prefixes_in_sight(WINDOW, &[false, true, true, true, true, true])[5], "no sinks");
    }

    fn page_of(token: TokenId) -> PageTokens {
        [token; PAGE_LEN]
    }

    /// Compares random use with plain lists of the pages that sequences have in sight.
    #[test]
    fn no_page_is_lost_or_shared_wrongly_in_random_use() {
        const TOTAL: usize = 24;
        let mut cache = PrefixCache::default().with_window(Some(WINDOW));
        let mut free: Vec<PageId> = (0..TOTAL as PageId).collect();
        let mut content = vec![Vec::new(); TOTAL];
        let mut sequences: Vec<(Vec<TokenId>, Vec<PageId>, PrefixLock)> = Vec::new();
        let draw = |at: usize, below: usize| noise_key(7, 0, at).0[0] as usize % below;
        let mut longest = 0;
        for at in 0..20_000 {
            let depth = draw(4 * at, 14);
            let tokens: Vec<TokenId> =
                (0..depth).map(|d| draw(at * 31 + d, 2) as TokenId).collect();
            let path: Vec<TokenId> = tokens.iter().flat_map(|&token| page_of(token)).collect();
            if draw(4 * at + 1, 5) > 0 && sequences.len() < 5 {
                let (mut pages, mut lock) = cache.lookup(TREE, &path);
                longest = longest.max(pages.len());
                for index in pages.len()..depth {
                    let out = out_of_sight(WINDOW, index * PAGE_LEN);
                    cache.slide(&mut lock, &out);
                    let gone = out.start.min(index)..out.end.min(index);
                    pages[gone].fill(OUT_OF_SIGHT);
                    let evicted = || cache.evict().map(|(page, _)| page);
                    let Some(page) = free.pop().or_else(evicted) else { break };
                    content[page as usize] = tokens[..=index].to_vec();
                    let kept = cache.extend(&mut lock, &page_of(tokens[index]), page);
                    pages.push(kept);
                    free.extend((kept != page).then_some(page));
                }
                sequences.push((tokens, pages, lock));
            } else if !sequences.is_empty() {
                let (_, _, lock) = sequences.swap_remove(draw(4 * at + 2, sequences.len()));
                cache.release(lock);
            }
            let mut held = BTreeSet::new();
            for (tokens, pages, _) in &sequences {
                for (index, &page) in
                    pages.iter().enumerate().filter(|(_, page)| **page != OUT_OF_SIGHT)
                {
                    held.insert(page);
                    assert_eq!(content[page as usize], tokens[..=index], "it holds other tokens");
                }
            }
            assert_eq!(cache.held, held.len());
            assert_eq!(free.len() + cache.resident, TOTAL, "every page is free or cached");
            assert_eq!(cache.evictable.len(), cache.unlocked_pages());
        }
        assert!(longest > 6, "prefixes whose middle is out of sight are found");
        sequences.into_iter().for_each(|(_, _, lock)| cache.release(lock));
        while cache.evict().is_some() {}
        assert!(cache.children.is_empty() && cache.nodes.iter().all(Option::is_none));
    }
}
