//! Byte-pair merging: the pair of lowest rank first, the leftmost of equals first.
//!
//! Short words are scanned for their best pair; longer ones keep their pairs in a queue over a linked list, so
//! that a megabyte without a space takes n log n and not n².

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use crate::TokenId;

/// Merge rules by pair of tokens.
#[derive(Debug, Default)]
pub(crate) struct Merges {
    by_pair: HashMap<u64, Merge>,
}

/// Rule for a pair: its rank (lower first) and the merged token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Merge {
    rank: u32,
    merged: TokenId,
}

/// Value of a pair without a rule.
const NO_MERGE: Merge = Merge { rank: u32::MAX, merged: TokenId::MAX };

/// Number of symbols up to which scanning all pairs for each merge is faster than a queue.
const SHORT: usize = 48;

#[derive(Debug, Default)]
pub(crate) struct MergeScratch {
    pairs: Vec<Merge>,
    nodes: Vec<Node>,
}

/// A symbol of a long word, linked to its neighbours. All fields share a cache line: later merges of a long run
/// are far apart, and each should touch few lines.
#[derive(Clone, Copy, Debug)]
struct Node {
    id: TokenId,
    previous: u32,
    next: u32,
    /// Rule for this symbol and the next.
    pair: Merge,
}

const NOWHERE: u32 = u32::MAX;

impl Merges {
    pub(crate) fn with_capacity(pairs: usize) -> Self {
        Merges { by_pair: HashMap::with_capacity(pairs) }
    }

    /// Adds a rule. A pair listed twice keeps its last rank, as in `tokenizers`.
    pub(crate) fn insert(&mut self, left: TokenId, right: TokenId, rank: u32, merged: TokenId) {
        self.by_pair.insert(key(left, right), Merge { rank, merged });
    }

    fn of(&self, left: TokenId, right: TokenId) -> Merge {
        self.by_pair.get(&key(left, right)).copied().unwrap_or(NO_MERGE)
    }

    /// Merges `symbols` until no rule applies.
    pub(crate) fn apply(&self, symbols: &mut Vec<TokenId>, scratch: &mut MergeScratch) {
        if symbols.len() <= SHORT {
            self.apply_short(symbols, &mut scratch.pairs);
        } else {
            self.apply_long(symbols, &mut scratch.nodes);
        }
    }

    /// Merges by scanning. `pairs[i]` is always the rule for `symbols[i]` and `symbols[i + 1]`.
    fn apply_short(&self, symbols: &mut Vec<TokenId>, pairs: &mut Vec<Merge>) {
        pairs.clear();
        pairs.extend(symbols.windows(2).map(|pair| self.of(pair[0], pair[1])));
        // `min_by_key` returns the first of equals, which is the leftmost.
        while let Some((at, &best)) = pairs.iter().enumerate().min_by_key(|(_, merge)| merge.rank) {
            if best == NO_MERGE {
                break;
            }
            symbols[at] = best.merged;
            symbols.remove(at + 1);
            pairs.remove(at);
            if at > 0 {
                pairs[at - 1] = self.of(symbols[at - 1], symbols[at]);
            }
            if at < pairs.len() {
                pairs[at] = self.of(symbols[at], symbols[at + 1]);
            }
        }
    }

    /// Merges over a linked list. A merged symbol keeps the position of its left part; queued pairs that have
    /// changed since are recognised by their rank and skipped.
    fn apply_long(&self, symbols: &mut Vec<TokenId>, nodes: &mut Vec<Node>) {
        let last = u32::try_from(symbols.len() - 1).expect("a text under 4 GiB");
        nodes.clear();
        nodes.extend((0..=last).zip(symbols.iter()).map(|(at, &id)| Node {
            id,
            previous: at.wrapping_sub(1),
            next: if at == last { NOWHERE } else { at + 1 },
            pair: NO_MERGE,
        }));
        let mut queue = MergeQueue::default();
        for at in 0..last {
            self.refresh(nodes, at, at + 1, &mut queue);
        }
        while let Some(Pair { rank, at }) = queue.pop() {
            let Node { previous, next: eaten, pair, .. } = nodes[at as usize];
            if pair.rank != rank {
                continue;
            }
            let after = nodes[eaten as usize].next;
            nodes[eaten as usize].pair = NO_MERGE;
            nodes[at as usize] = Node { id: pair.merged, previous, next: after, pair: NO_MERGE };
            if previous != NOWHERE {
                self.refresh(nodes, previous, at, &mut queue);
            }
            if after != NOWHERE {
                nodes[after as usize].previous = at;
                self.refresh(nodes, at, after, &mut queue);
            }
        }
        symbols.clear();
        let first = Some(&nodes[0]);
        let rest = std::iter::successors(first, |node| nodes.get(node.next as usize));
        symbols.extend(rest.map(|node| node.id));
    }

    /// Looks up the rule for two neighbours and queues it.
    fn refresh(&self, nodes: &mut [Node], left: u32, right: u32, queue: &mut MergeQueue) {
        let pair = self.of(nodes[left as usize].id, nodes[right as usize].id);
        nodes[left as usize].pair = pair;
        queue.push(Pair { rank: pair.rank, at: left });
    }
}

/// Position of a pair that can be merged, ordered by rank and then from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    rank: u32,
    at: u32,
}

/// Priority queue of pairs. A single heap would access memory all over for every merge; instead the pairs of one
/// rank are walked from left to right, and a heap holds only those that must come before the next one.
#[derive(Debug, Default)]
struct MergeQueue {
    /// Pairs of later ranks, in the order they were found.
    later: BTreeMap<u32, Vec<u32>>,
    /// Current rank; meaningless until `started`.
    rank: u32,
    started: bool,
    /// Pairs of the current rank that were known when it became current, the leftmost last.
    current: Vec<u32>,
    /// Pairs of the current or an earlier rank that were found since.
    urgent: BinaryHeap<Reverse<Pair>>,
}

impl MergeQueue {
    fn push(&mut self, pair: Pair) {
        if pair.rank == NO_MERGE.rank {
            return;
        }
        if self.started && pair.rank <= self.rank {
            self.urgent.push(Reverse(pair));
        } else {
            self.later.entry(pair.rank).or_default().push(pair.at);
        }
    }

    fn pop(&mut self) -> Option<Pair> {
        let known = self.current.last().map(|&at| Pair { rank: self.rank, at });
        if let Some(&Reverse(urgent)) = self.urgent.peek()
            && known.is_none_or(|known| urgent <= known)
        {
            self.urgent.pop();
            return Some(urgent);
        }
        if known.is_some() {
            self.current.pop();
            return known;
        }
        let (rank, mut positions) = self.later.pop_first()?;
        // Mostly sorted already.
        positions.sort();
        positions.reverse();
        (self.rank, self.current, self.started) = (rank, positions, true);
        self.current.pop().map(|at| Pair { rank, at })
    }
}

fn key(left: TokenId, right: TokenId) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_queue_and_the_scan_agree(
            rules in prop::collection::vec((0u32..12, 0u32..12, 0u32..20, 0u32..12), 0..60),
            symbols in prop::collection::vec(0u32..12, 1..200),
        ) {
            let mut merges = Merges::default();
            for (left, right, rank, merged) in rules {
                merges.insert(left, right, rank, merged);
            }
            let (mut scanned, mut queued) = (symbols.clone(), symbols);
            merges.apply_short(&mut scanned, &mut Vec::new());
            merges.apply_long(&mut queued, &mut Vec::new());
            prop_assert_eq!(queued, scanned);
        }
    }
}
