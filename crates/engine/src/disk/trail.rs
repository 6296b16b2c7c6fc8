//! The pages of one sequence, as the disk knows them.

use wf_model::{PAGE_LEN, TokenId};

use super::{DiskCache, PageKey};
use crate::prefix::Tree;

/// Keys of a sequence's pages, and those that were read for it.
#[derive(Default)]
pub(crate) struct Trail {
    /// Keys of the first pages, as many as were needed so far.
    keys: Vec<PageKey>,
    fetch: Fetch,
    /// Number of pages, from the first, that were found or handed to the disk.
    kept: usize,
}

#[derive(Default)]
enum Fetch {
    #[default]
    NotYet,
    /// Pages from this one on are being read.
    Running { first: usize },
    /// Pages that were read, until the sequence starts.
    Done { first: usize, pages: Vec<Vec<u8>> },
}

/// Steps of a sequence before it starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeforeStart {
    Nothing,
    /// Read these pages.
    Fetch(Vec<PageKey>),
    /// Wait for pages that are being read, or until it may read some.
    Wait,
}

impl Trail {
    /// Looks for the pages of `tokens` after the first `in_memory` ones, unless that was done before.
    pub(crate) fn before_start(
        &mut self,
        disk: &DiskCache,
        tree: Tree,
        (tokens, in_memory): (&[TokenId], usize),
        may_fetch: bool,
    ) -> BeforeStart {
        match self.fetch {
            Fetch::NotYet => {}
            Fetch::Running { .. } => return BeforeStart::Wait,
            Fetch::Done { .. } => return BeforeStart::Nothing,
        }
        self.extend(disk, tree, tokens);
        let (found, missing) = self.keys.split_at(in_memory.min(self.keys.len()));
        let on_disk = disk.matching(missing);
        if on_disk > 0 && !may_fetch {
            return BeforeStart::Wait;
        }
        disk.touch(found.to_vec());
        if on_disk < missing.len() {
            disk.count_miss();
        }
        if on_disk == 0 {
            self.set_fetched(Vec::new());
            return BeforeStart::Nothing;
        }
        let keys = missing[..on_disk].to_vec();
        self.fetch = Fetch::Running { first: in_memory };
        BeforeStart::Fetch(keys)
    }

    /// True if pages were read that are not in memory yet.
    pub(crate) fn has_fetched(&self) -> bool {
        matches!(&self.fetch, Fetch::Done { pages, .. } if !pages.is_empty())
    }

    pub(crate) fn set_fetched(&mut self, pages: Vec<Vec<u8>>) {
        let first = if let Fetch::Running { first } = self.fetch { first } else { 0 };
        self.fetch = Fetch::Done { first, pages };
    }

    /// Takes the pages that follow the first `in_memory` ones. If fewer are in memory than were when it was
    /// read, there is a gap, and nothing can be used.
    pub(crate) fn take(&mut self, in_memory: usize) -> Vec<Vec<u8>> {
        match &mut self.fetch {
            Fetch::Done { first, pages } if *first <= in_memory => {
                let known = (in_memory - *first).min(pages.len());
                std::mem::take(pages).split_off(known)
            }
            Fetch::Done { pages, .. } => {
                pages.clear();
                Vec::new()
            }
            Fetch::NotYet | Fetch::Running { .. } => Vec::new(),
        }
    }

    /// Notes that the first `pages` pages are known to the cache.
    pub(crate) fn set_kept(&mut self, pages: usize) {
        self.kept = pages;
    }

    /// Returns the indices and keys of the pages that `tokens` fill and that were not handed out before.
    pub(crate) fn new_pages(
        &mut self,
        disk: &DiskCache,
        tree: Tree,
        tokens: &[TokenId],
    ) -> Vec<(usize, PageKey)> {
        let (first, full) = (self.kept, tokens.len() / PAGE_LEN);
        if first >= full {
            return Vec::new();
        }
        self.extend(disk, tree, tokens);
        self.kept = full;
        (first..full).map(|at| (at, self.keys[at])).collect()
    }

    /// Computes the keys of the pages that `tokens` fill.
    fn extend(&mut self, disk: &DiskCache, tree: Tree, tokens: &[TokenId]) {
        let whole = tokens.as_chunks::<PAGE_LEN>().0;
        for page_tokens in whole.iter().skip(self.keys.len()) {
            let before = self.keys.last().copied();
            self.keys.push(before.unwrap_or_else(|| disk.root().of_tree(tree)).next(page_tokens));
        }
    }
}
