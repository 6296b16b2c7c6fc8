//! Fair admission: the next sequence to run, and the one that gives up its pages for it.
//!
//! Pure bookkeeping over the sequences of one moment. Each caller may run its part of the sequences and use its
//! part of the pages, whatever others hold: for the first, the limit on running sequences is exceeded (a step
//! still computes no more than that many); for the second, sequences beyond the part of their caller are
//! preempted. Within a caller the same holds for its requests, except that pages are never taken for them: a request
//! without a running sequence starts while the limit is exceeded at most twofold, or eightfold if most pages are free.

use std::collections::BTreeMap;

use crate::schedule::{Origin, Party, Rank};

/// A sequence, as admission sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) origin: Origin,
    pub(crate) rank: Rank,
    /// Number of pages for all its tokens.
    pub(crate) pages: usize,
    /// Limit on the pages of its caller, if there is one.
    pub(crate) quota: Option<Quota>,
    /// True if it lacked pages for so long that it comes before all others.
    pub(crate) is_overdue: bool,
    /// True if it follows a grammar, whose states take megabytes beside its pages.
    pub(crate) has_grammar: bool,
}

/// Limit on the pages of all running sequences of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Number of pages that the sequence may come to need.
    pub(crate) pages: usize,
    /// Maximum of the sum over the sequences of its caller.
    pub(crate) max_pages: usize,
}

/// Numbers of sequences and pages that are shared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    pub(crate) sequences: usize,
    pub(crate) pages: usize,
}

/// Multiples of its part that a caller may run, if each sequence is the first of its request: so that many requests take
/// turns instead of waiting for each other's end. The larger one holds while half of the pages stay free, because
/// sequences that run out of pages while they grow are computed again, and not for grammars.
const MAX_SHARES: usize = 2;
const MAX_SHARES_WITH_FREE_PAGES: usize = 8;

/// Order in which sequences keep their pages: the last one is preempted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    is_not_overdue: bool,
    /// Pages of its caller up to and including its own, if they are more than the part of a caller; else 0.
    excess: usize,
    arrival: u64,
}

/// All sequences at the moment of admission.
#[derive(Debug)]
pub(crate) struct Census {
    shared: Shared,
    running: Vec<Member>,
    waiting: Vec<Member>,
    callers: usize,
}

impl Census {
    pub(crate) fn new(shared: Shared, running: Vec<Member>, waiting: Vec<Member>) -> Self {
        let callers = running.iter().chain(&waiting).map(|member| member.origin.party());
        let mut callers: Vec<Party> = callers.collect();
        callers.sort_unstable();
        callers.dedup();
        Self { shared, running, waiting, callers: callers.len().max(1) }
    }

    /// Returns the next sequence that may run: of the caller, then of the request, that runs the fewest.
    pub(crate) fn next(&self) -> Option<Member> {
        let candidates = self.waiting.iter().filter(|member| self.has_place(member));
        let key = |member: &&Member| {
            let party = member.origin.party();
            let of_caller = self.count(|other| other.origin.party() == party);
            let of_request = self.count(|other| other.origin == member.origin);
            let Rank { priority, arrival } = member.rank;
            (!member.is_overdue, party.tier, of_caller, priority, of_request, arrival)
        };
        // Priorities of different callers are not compared: the caller is chosen first.
        let first = candidates.clone().min_by_key(|member| {
            let (is_not_overdue, tier, of_caller, ..) = key(member);
            (is_not_overdue, tier, of_caller, member.rank.arrival)
        })?;
        let party = first.origin.party();
        candidates.filter(|member| member.origin.party() == party).min_by_key(key).copied()
    }

    fn count(&self, is_counted: impl Fn(&Member) -> bool) -> usize {
        self.running.iter().filter(|member| is_counted(member)).count()
    }

    fn has_place(&self, member: &Member) -> bool {
        let party = member.origin.party();
        let own = self.count(|other| other.origin.party() == party);
        let part = (self.shared.sequences / self.callers).max(1);
        let is_first = || self.count(|other| other.origin == member.origin) == 0;
        let shares = || match !member.has_grammar && self.leaves_half_of_the_pages(member) {
            true => MAX_SHARES_WITH_FREE_PAGES,
            false => MAX_SHARES,
        };
        let has_place = self.running.len() < self.shared.sequences
            || own < part
            || (is_first() && own < shares() * part);
        has_place && member.quota.is_none_or(|quota| self.is_within(quota, party))
    }

    fn leaves_half_of_the_pages(&self, member: &Member) -> bool {
        let used: usize = self.running.iter().map(|member| member.pages).sum();
        2 * (used + member.pages) <= self.shared.pages
    }

    /// Returns `true` if the running sequences of a caller leave room for one more. Nothing is taken back from a
    /// sequence that runs, so each counts as long as it may become.
    fn is_within(&self, quota: Quota, party: Party) -> bool {
        let own = self.running.iter().filter(|member| member.origin.party() == party);
        let used: usize = own.filter_map(|member| member.quota).map(|quota| quota.pages).sum();
        used + quota.pages <= quota.max_pages
    }

    /// Removes a sequence from those that may be next.
    pub(crate) fn skip(&mut self, rank: Rank) {
        self.waiting.retain(|member| member.rank != rank);
    }

    /// Removes all sequences of a caller from those that may be next.
    pub(crate) fn skip_caller(&mut self, party: Party) {
        self.waiting.retain(|member| member.origin.party() != party);
    }

    /// Moves a sequence to the running ones.
    pub(crate) fn admit(&mut self, member: Member) {
        self.skip(member.rank);
        self.running.push(member);
    }

    /// Returns the running sequence that gives up its pages for `member`, if one has to, and forgets it.
    pub(crate) fn preempt_for(&mut self, member: &Member) -> Option<Rank> {
        let own: usize = self.pages_of(member.origin.party());
        let is_entitled = own + member.pages <= self.shared.pages / self.callers;
        let (rank, last) = self.standings().into_iter().max_by_key(|(_, standing)| *standing)?;
        let is_in_excess = last.excess > 0 || member.is_overdue;
        let gives_up = (is_entitled || member.is_overdue) && is_in_excess && last.is_not_overdue;
        self.running.retain(|member| !gives_up || member.rank != rank);
        gives_up.then_some(rank)
    }

    fn pages_of(&self, party: Party) -> usize {
        let own = self.running.iter().filter(|member| member.origin.party() == party);
        own.map(|member| member.pages).sum()
    }

    /// Returns the standing of each running sequence.
    pub(crate) fn standings(&self) -> BTreeMap<Rank, Standing> {
        let part = self.shared.pages / self.callers;
        let standing = |member: &Member| {
            let up_to_this = self.running.iter().filter(|other| {
                other.origin.party() == member.origin.party() && other.rank <= member.rank
            });
            let pages: usize = up_to_this.map(|other| other.pages).sum();
            let excess = if pages > part { pages } else { 0 };
            let (is_not_overdue, arrival) = (!member.is_overdue, member.rank.arrival);
            (member.rank, Standing { is_not_overdue, excess, arrival })
        };
        self.running.iter().map(standing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: Shared = Shared { sequences: 4, pages: 100 };

    fn member(caller: u64, request: u64, arrival: u64) -> Member {
        let origin = Origin { caller, request, tier: 0 };
        let rank = Rank::new(0, arrival);
        Member { origin, rank, pages: 1, quota: None, is_overdue: false, has_grammar: false }
    }

    /// Admits until nobody has a place. Returns the arrivals in order.
    fn admit_all(census: &mut Census) -> Vec<u64> {
        std::iter::from_fn(|| {
            let next = census.next()?;
            census.admit(next);
            Some(next.rank.arrival)
        })
        .collect()
    }

    #[test]
    fn a_request_of_many_prompts_does_not_come_before_others() {
        let many = (0..256).map(|at| member(1, 1, at));
        let waiting = many.chain([member(2, 1, 300), member(1, 2, 301)]).collect();
        let admitted = admit_all(&mut Census::new(SHARED, Vec::new(), waiting));
        assert_eq!(admitted, [0, 300, 301, 1]);
    }

    #[test]
    fn a_caller_that_holds_all_places_leaves_others_theirs() {
        let running: Vec<_> = (0..4).map(|at| member(1, 1, at)).collect();
        let waiting = vec![member(1, 1, 4), member(2, 1, 5), member(2, 1, 6), member(2, 1, 7)];
        let mut census = Census::new(SHARED, running.clone(), waiting);
        assert_eq!(admit_all(&mut census), [5, 6], "half of the places");
        // The same for another request of one caller: it gets one place.
        let waiting = vec![member(1, 1, 4), member(1, 2, 5), member(1, 2, 6)];
        assert_eq!(admit_all(&mut Census::new(SHARED, running, waiting)), [5]);
    }

    #[test]
    fn requests_of_one_caller_take_turns_instead_of_waiting() {
        let requests = |pages| (0..100).map(move |at| Member { pages, ..member(1, at, at) });
        let admitted = |pages, running: Vec<Member>| {
            let waiting = requests(pages).skip(running.len()).collect();
            admit_all(&mut Census::new(SHARED, running, waiting)).len()
        };
        assert_eq!(admitted(1, Vec::new()), 32, "eight times the places");
        assert_eq!(admitted(2, Vec::new()), 25, "half of the pages");
        assert_eq!(admitted(20, Vec::new()), 8, "twice the places, if pages are few");
        let grammars = requests(1).map(|member| Member { has_grammar: true, ..member });
        let mut census = Census::new(SHARED, Vec::new(), grammars.collect());
        assert_eq!(admit_all(&mut census).len(), 8, "twice the places, if states are large");
        // Further sequences of a request wait for a place.
        let running: Vec<_> = (0..4).map(|at| member(1, 1, at)).collect();
        let waiting = vec![member(1, 1, 4), member(1, 2, 5), member(1, 2, 6), member(1, 3, 7)];
        assert_eq!(admit_all(&mut Census::new(SHARED, running, waiting)), [5, 7]);
    }

    #[test]
    fn a_priority_orders_the_sequences_of_its_own_caller_only() {
        let mut urgent = member(1, 2, 3);
        urgent.rank = Rank::new(7, 3);
        let waiting = vec![member(2, 1, 0), member(1, 1, 1), urgent];
        assert_eq!(admit_all(&mut Census::new(SHARED, Vec::new(), waiting)), [0, 3, 1]);
        let mut above = member(1, 2, 3);
        above.origin.tier = 1;
        let waiting = vec![member(2, 1, 0), above];
        assert_eq!(admit_all(&mut Census::new(SHARED, Vec::new(), waiting)), [3, 0]);
    }

    #[test]
    fn only_pages_beyond_the_part_of_a_caller_are_given_up() {
        let with_pages = |caller, arrival, pages| Member { pages, ..member(caller, 1, arrival) };
        let running = vec![with_pages(1, 0, 40), with_pages(1, 1, 30), with_pages(1, 2, 30)];
        let small = with_pages(2, 3, 10);
        let mut census = Census::new(SHARED, running.clone(), vec![small]);
        assert_eq!(census.preempt_for(&small).map(|rank| rank.arrival), Some(2));
        assert_eq!(census.preempt_for(&small).map(|rank| rank.arrival), Some(1));
        assert_eq!(census.preempt_for(&small), None, "40 pages are less than half");
        let large = with_pages(2, 3, 60);
        let mut census = Census::new(SHARED, running.clone(), vec![large]);
        assert_eq!(census.preempt_for(&large), None, "60 pages are more than half");
        let overdue = Member { is_overdue: true, ..large };
        let mut census = Census::new(SHARED, running, vec![overdue]);
        assert_eq!(census.next(), Some(overdue));
        let given_up = std::iter::from_fn(|| census.preempt_for(&overdue)).count();
        assert_eq!(given_up, 3);
    }

    #[test]
    fn a_quota_limits_the_pages_of_a_caller() {
        let limited = |arrival, pages| {
            let quota = Some(Quota { pages, max_pages: 10 });
            Member { quota, ..member(1, arrival, arrival) }
        };
        let waiting = vec![limited(0, 4), limited(1, 4), limited(2, 4), member(2, 1, 3)];
        assert_eq!(admit_all(&mut Census::new(SHARED, Vec::new(), waiting)), [0, 3, 1]);
    }

    #[test]
    fn sequences_of_one_caller_keep_pages_by_rank() {
        let mut running: Vec<_> =
            (0..5).map(|at| Member { pages: 30, ..member(1, at, at) }).collect();
        running[4].rank = Rank::new(1, 4);
        let census = Census::new(SHARED, running.clone(), Vec::new());
        let standings = census.standings();
        let mut order: Vec<_> = (0..5).collect();
        order.sort_by_key(|&at| standings[&running[at].rank]);
        assert_eq!(order, [0, 1, 4, 2, 3], "the urgent one is among the three that fit");
    }
}
