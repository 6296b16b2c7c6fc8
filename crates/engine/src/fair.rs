//! Fair division of a step: deficit round robin between callers, then between the requests of each.
//!
//! Pure bookkeeping, without clocks, models or pages. Two kinds of steps alternate where they have to:
//!
//! - In a **shared** step each caller has a turn of an equal part of the rows before anyone has a second one.
//!   Further turns go to the caller that was served least.
//! - A block that has to run whole may exceed its part, and would never fit if others were always served
//!   first. It goes **first** if its caller, and its request, are those that were served least, and if every
//!   caller has had a shared step since the last block that went first.
//!
//! A caller that gets all it can use is owed nothing, so nobody saves up rows, and rows that nobody else
//! could use are free.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::decode::TokenDemand;
use crate::schedule::{Origin, Party, Rank};

/// Rows that a sequence can use of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) origin: Origin,
    pub(crate) rank: Rank,
    pub(crate) demand: TokenDemand,
}

/// Size of a step, or of a turn in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) rows: usize,
    pub(crate) sequences: usize,
}

impl Capacity {
    fn part(self, parties: usize) -> Self {
        let part = |whole: usize| (whole / parties.max(1)).max(1);
        Self { rows: part(self.rows), sequences: part(self.sequences) }
    }
}

/// Rows that callers and their requests were served.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    step: u64,
    /// Shared steps since the last one in which a block went first and left someone out.
    shared_steps: usize,
    callers: Accounts<Party>,
    requests: BTreeMap<Party, Accounts<u64>>,
}

impl Ledger {
    /// Divides a step. Returns the number of tokens that each claim may run: none, or at least its minimum.
    pub(crate) fn divide(&mut self, claims: &[Claim], capacity: Capacity) -> Vec<usize> {
        self.step += 1;
        self.open_accounts(claims);
        let mut step = Step::new(claims, capacity);
        let tiers: BTreeSet<Reverse<i32>> = claims.iter().map(|c| c.origin.party().tier).collect();
        for tier in tiers {
            self.divide_tier(tier, &mut step);
        }
        let is_left_out = |request: &Origin| step.granted(|origin| origin == *request) == 0;
        let anyone_left_out = claims.iter().any(|claim| is_left_out(&claim.origin));
        match step.block_went_first && anyone_left_out {
            true => self.shared_steps = 0,
            false => self.shared_steps = self.shared_steps.saturating_add(1),
        }
        self.settle(&step);
        step.shares
    }

    fn open_accounts(&mut self, claims: &[Claim]) {
        let mut parties: BTreeMap<Party, BTreeSet<u64>> = BTreeMap::new();
        for Claim { origin, .. } in claims {
            parties.entry(origin.party()).or_default().insert(origin.request);
        }
        self.callers.open(&parties.keys().copied().collect(), self.step);
        self.requests.retain(|party, _| parties.contains_key(party));
        for (party, requests) in &parties {
            self.requests.entry(*party).or_default().open(requests, self.step);
        }
    }

    fn divide_tier(&self, tier: Reverse<i32>, step: &mut Step<'_>) {
        let parties = self.callers.0.keys().copied().filter(|party| party.tier == tier);
        let mut callers: Vec<_> = parties.map(|party| self.caller(party, step.claims)).collect();
        // Those who wait longest come first.
        callers.sort_by_key(|caller| (caller.account.last_step, caller.account.served));
        let mut waiting = callers.len();
        let mut block_owner = None;
        if let Some((owner, at)) = self.block_to_go_first(&callers, step) {
            let min = step.claims[at].demand.min_tokens;
            let block = step.raise(at, min, &mut Capacity { rows: min, sequences: 1 });
            callers[owner].account.served += block as u64;
            step.block_went_first = true;
            (block_owner, waiting) = (Some(owner), waiting - 1);
        }
        let turn = step.left.part(waiting);
        for index in (0..callers.len()).filter(|&index| Some(index) != block_owner) {
            callers[index].spend(turn, Overdraft::No, step);
        }
        // What is left goes to whoever was served least, turn by turn.
        while step.left.rows > 0 {
            let Some(caller) = callers.iter_mut().min_by_key(|caller| caller.account.served) else {
                break;
            };
            if caller.spend(turn, Overdraft::Block, step) == 0 {
                let party = caller.party;
                callers.retain(|caller| caller.party != party);
            }
        }
    }

    /// Returns a block that exceeds its part and has waited for its turn: its caller and its claim.
    fn block_to_go_first(&self, callers: &[Caller], step: &Step<'_>) -> Option<(usize, usize)> {
        let turn = step.left.part(callers.len());
        let steps_for_all = callers.len().div_ceil(step.left.rows.min(step.left.sequences).max(1));
        if self.shared_steps < steps_for_all {
            return None;
        }
        let min_served = callers.iter().map(|caller| caller.account.served).min()?;
        let owed =
            callers.iter().enumerate().filter(|(_, caller)| caller.account.served == min_served);
        let blocks = owed.flat_map(|(index, caller)| {
            let min_served = caller.claims.iter().map(|claim| claim.request.served).min();
            let large = caller.claims.iter().filter(move |claim| {
                let min = step.claims[claim.at].demand.min_tokens;
                let is_large = min > claim.part(turn) && min <= step.left.rows;
                Some(claim.request.served) == min_served && is_large
            });
            large.map(move |claim| {
                let waited = (caller.account.last_step, claim.request.last_step);
                (waited, step.claims[claim.at].rank, index, claim.at)
            })
        });
        blocks.min().map(|(.., index, at)| (index, at))
    }

    fn caller(&self, party: Party, claims: &[Claim]) -> Caller {
        let accounts = &self.requests[&party];
        let own = || (0..claims.len()).filter(|&at| claims[at].origin.party() == party);
        let own_claim = |at: usize| {
            let request = claims[at].origin.request;
            let siblings = own().filter(|&at| claims[at].origin.request == request).count();
            let divisor = accounts.0.len() * siblings;
            OwnClaim { at, request: accounts.of(request), divisor }
        };
        Caller { party, account: self.callers.of(party), claims: own().map(own_claim).collect() }
    }

    /// Charges the rows of a step.
    fn settle(&mut self, step: &Step<'_>) {
        let mut unmet_callers = BTreeSet::new();
        let mut unmet_requests: BTreeMap<Party, BTreeSet<u64>> = BTreeMap::new();
        for (claim, &share) in step.claims.iter().zip(&step.shares) {
            let party = claim.origin.party();
            let requests = self.requests.entry(party).or_default();
            if share > 0 {
                self.callers.charge(party, share, self.step);
                requests.charge(claim.origin.request, share, self.step);
            }
            if share < claim.demand.tokens {
                unmet_callers.insert(party);
                unmet_requests.entry(party).or_default().insert(claim.origin.request);
            }
        }
        self.callers.level(&unmet_callers);
        for (party, requests) in &mut self.requests {
            requests.level(unmet_requests.get(party).unwrap_or(&BTreeSet::new()));
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Rows served. Only differences between accounts matter.
    served: u64,
    /// Last step in which it was served, or in which it came.
    last_step: u64,
}

#[derive(Debug)]
struct Accounts<K>(BTreeMap<K, Account>);

impl<K> Default for Accounts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Accounts<K> {
    /// Closes the accounts of those that left. Those that are new are owed as much as the most owed of the
    /// others, and not more.
    fn open(&mut self, present: &BTreeSet<K>, step: u64) {
        self.0.retain(|key, _| present.contains(key));
        let served = self.0.values().map(|account| account.served).min().unwrap_or(0);
        for key in present {
            self.0.entry(*key).or_insert(Account { served, last_step: step - 1 });
        }
    }

    fn of(&self, key: K) -> Account {
        self.0.get(&key).copied().unwrap_or_default()
    }

    fn charge(&mut self, key: K, rows: usize, step: u64) {
        let account = self.0.entry(key).or_default();
        account.served += rows as u64;
        account.last_step = step;
    }

    /// Cancels what is owed to those that got all they could use.
    fn level(&mut self, unmet: &BTreeSet<K>) {
        let min_served = unmet.iter().map(|key| self.of(*key).served).min();
        for (key, account) in &mut self.0 {
            match min_served {
                None => account.served = 0,
                Some(min_served) if !unmet.contains(key) => {
                    account.served = account.served.max(min_served)
                }
                Some(_) => {}
            }
        }
    }
}

/// A step that is being divided.
struct Step<'a> {
    claims: &'a [Claim],
    shares: Vec<usize>,
    left: Capacity,
    /// Number of rows of a whole step.
    rows: usize,
    block_went_first: bool,
}

impl<'a> Step<'a> {
    fn new(claims: &'a [Claim], capacity: Capacity) -> Self {
        let shares = vec![0; claims.len()];
        Self { claims, shares, left: capacity, rows: capacity.rows, block_went_first: false }
    }

    /// Raises the share of a claim to at most `max` tokens, within a turn. Returns the tokens added.
    fn raise(&mut self, at: usize, max: usize, turn: &mut Capacity) -> usize {
        let (demand, share) = (self.claims[at].demand, self.shares[at]);
        let room = self.left.rows.min(turn.rows);
        let more = demand.tokens.min(max).saturating_sub(share).min(room);
        let is_new = share == 0;
        let has_place = !is_new || self.left.sequences.min(turn.sequences) > 0;
        if more == 0 || !has_place || share + more < demand.min_tokens {
            return 0;
        }
        for capacity in [&mut self.left, turn] {
            capacity.rows -= more;
            capacity.sequences -= usize::from(is_new);
        }
        self.shares[at] += more;
        more
    }

    fn granted(&self, is_counted: impl Fn(Origin) -> bool) -> usize {
        let claims = self.claims.iter().zip(&self.shares);
        claims.filter(|(claim, _)| is_counted(claim.origin)).map(|(_, share)| share).sum()
    }
}

/// Permission of a turn to exceed its rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overdraft {
    No,
    /// For a block that has to run whole, if the step has room.
    Block,
}

/// A caller with its claims.
struct Caller {
    party: Party,
    account: Account,
    claims: Vec<OwnClaim>,
}

#[derive(Clone, Copy)]
struct OwnClaim {
    at: usize,
    request: Account,
    /// Number of claims like this that would use up a turn.
    divisor: usize,
}

impl OwnClaim {
    /// Returns its part of the rows of a turn.
    fn part(&self, turn: Capacity) -> usize {
        (turn.rows / self.divisor).max(1)
    }
}

impl Caller {
    /// Spends a turn on the claims, and charges it. Returns the number of rows spent.
    fn spend(&mut self, whole: Capacity, overdraft: Overdraft, step: &mut Step<'_>) -> usize {
        let (mut turn, before) = (whole, step.left.rows);
        let claims = step.claims;
        // Each claim gets its part: whoever decodes, and prompts that are short enough to be computed whole. With more
        // claims than places, other prompts too: those who decode would take the places of every step.
        let is_crowded = self.claims.len() > turn.sequences;
        self.claims.sort_by_key(|claim| {
            let Rank { priority, arrival } = claims[claim.at].rank;
            (priority, claim.request.last_step, arrival)
        });
        for claim in &self.claims {
            let (part, demand) = (claim.part(whole), claims[claim.at].demand);
            if !demand.is_prefill || demand.tokens <= part || is_crowded {
                step.raise(claim.at, part, &mut turn);
            }
        }
        // The rest goes to one request after the other, a step's worth at a time.
        let rows = step.rows.max(1) as u64;
        self.claims.sort_by_key(|claim| {
            let Rank { priority, arrival } = claims[claim.at].rank;
            (priority, claim.request.served / rows, arrival)
        });
        for claim in &self.claims {
            let min = claims[claim.at].demand.min_tokens;
            let is_too_large = step.shares[claim.at] == 0 && min > turn.rows;
            if is_too_large && overdraft == Overdraft::Block && turn.rows > 0 {
                let mut block = Capacity { rows: min, sequences: 1 };
                turn.rows -= step.raise(claim.at, min, &mut block).min(turn.rows);
            } else {
                step.raise(claim.at, usize::MAX, &mut turn);
            }
        }
        let spent = before - step.left.rows;
        self.account.served += spent as u64;
        spent
    }
}

#[cfg(test)]
mod tests;
