use super::*;

const ROWS: usize = 256;

fn claim(caller: u64, request: u64, arrival: u64, demand: TokenDemand) -> Claim {
    let origin = Origin { caller, request, tier: 0 };
    Claim { origin, rank: Rank::new(0, arrival), demand }
}

fn decode(tokens: usize) -> TokenDemand {
    TokenDemand { tokens, min_tokens: 1, is_prefill: false }
}

fn prompt(tokens: usize) -> TokenDemand {
    TokenDemand { tokens, min_tokens: 1, is_prefill: true }
}

fn block(tokens: usize) -> TokenDemand {
    TokenDemand { tokens, min_tokens: tokens, is_prefill: false }
}

fn step(ledger: &mut Ledger, claims: &[Claim]) -> Vec<usize> {
    ledger.divide(claims, Capacity { rows: ROWS, sequences: 32 })
}

/// Divides one step between claims of one request.
fn once(demands: &[TokenDemand], rows: usize) -> Vec<usize> {
    let claims = demands.iter().zip(0..).map(|(&demand, at)| claim(0, 0, at, demand));
    let claims: Vec<_> = claims.collect();
    Ledger::default().divide(&claims, Capacity { rows, sequences: 32 })
}

/// A caller's behaviour in a simulation.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Blocks of this length, without end.
    Blocks(usize),
    /// Verifies this many draft tokens in each step.
    Drafts(usize),
    /// Prompts of this length, this many at once in one request.
    Prompts(usize, usize),
    /// Decodes, with this many requests.
    Decodes(usize),
}

impl Kind {
    fn claims(self, caller: u64, arrival: u64) -> Vec<Claim> {
        let one = |demand| vec![claim(caller, 0, arrival, demand)];
        match self {
            Self::Blocks(len) => one(block(len)),
            Self::Drafts(len) => one(decode(1 + len)),
            Self::Prompts(len, count) => {
                (0..count as u64).map(|at| claim(caller, 0, arrival + at, prompt(len))).collect()
            }
            Self::Decodes(count) => {
                (0..count as u64).map(|at| claim(caller, at, arrival + at, decode(1))).collect()
            }
        }
    }
}

/// Numbers that depend on the seed alone.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((self.0 >> 33) as usize) % limit
    }

    fn kind(&mut self, rows: usize) -> Kind {
        match self.below(4) {
            0 => Kind::Blocks(1 + self.below(rows)),
            1 => Kind::Drafts(1 + self.below(64)),
            2 => Kind::Prompts(1 + self.below(2000), 1 + self.below(8)),
            _ => Kind::Decodes(1 + self.below(4)),
        }
    }
}

fn abusers(random: &mut Random, callers: usize, rows: usize) -> Vec<Claim> {
    let kinds: Vec<_> = (0..callers).map(|_| random.kind(rows)).collect();
    let claims = kinds.iter().zip(1..).flat_map(|(kind, caller)| kind.claims(caller, caller * 100));
    claims.collect()
}

#[test]
fn a_new_short_request_is_computed_within_two_steps() {
    let mut random = Random(1);
    for case in 0..2000 {
        let rows = 1 + random.below(ROWS);
        let sequences = 1 + random.below(64);
        let callers = random.below(rows.min(sequences));
        let others = abusers(&mut random, callers, rows);
        let mut ledger = Ledger::default();
        let capacity = Capacity { rows, sequences };
        for _ in 0..random.below(20) {
            ledger.divide(&others, capacity);
        }
        let mut left = 1 + random.below(rows / (callers + 1));
        for _ in 0..2 {
            let demand = if left > 1 { prompt(left) } else { decode(1) };
            let claims = [&others[..], &[claim(99_999, 0, 99_999, demand)]].concat();
            left -= ledger.divide(&claims, capacity).last().unwrap();
            if left == 0 {
                break;
            }
        }
        assert_eq!(left, 0, "case {case}: {rows} rows, {sequences} sequences: {others:?}");
    }
}

#[test]
fn beyond_the_rows_of_a_step_callers_take_turns() {
    let mut random = Random(2);
    for case in 0..200 {
        let rows = 1 + random.below(16);
        let callers = rows + random.below(100);
        let others = abusers(&mut random, callers, rows);
        let capacity = Capacity { rows, sequences: rows };
        let mut ledger = Ledger::default();
        for _ in 0..random.below(50) {
            ledger.divide(&others, capacity);
        }
        let claims = [&others[..], &[claim(99_999, 0, 99_999, decode(1))]].concat();
        let bound = (callers + 1).div_ceil(rows) + 1;
        let steps = (1..).find(|_| *ledger.divide(&claims, capacity).last().unwrap() > 0);
        assert!(steps.unwrap() <= bound, "case {case}: {steps:?} steps, not {bound}: {others:?}");
    }
}

#[test]
fn without_large_blocks_turns_need_no_further_step() {
    let mut random = Random(5);
    for case in 0..200 {
        let rows = 1 + random.below(16);
        let callers = rows + random.below(100);
        let mut others = abusers(&mut random, callers, rows);
        others.iter_mut().for_each(|claim| claim.demand.min_tokens = 1);
        let capacity = Capacity { rows, sequences: rows };
        let mut ledger = Ledger::default();
        for _ in 0..random.below(50) {
            ledger.divide(&others, capacity);
        }
        let claims = [&others[..], &[claim(99_999, 0, 99_999, decode(1))]].concat();
        let bound = (callers + 1).div_ceil(rows);
        let steps = (1..).find(|_| *ledger.divide(&claims, capacity).last().unwrap() > 0);
        assert!(steps.unwrap() <= bound, "case {case}: {steps:?} steps, not {bound}: {others:?}");
    }
}

#[test]
fn requests_of_one_caller_take_turns_like_callers() {
    for (requests, sequences) in [(65, 32), (100, 8), (256, 32)] {
        let others: Vec<_> = (0..requests).map(|at| claim(1, at, at, decode(1))).collect();
        let capacity = Capacity { rows: ROWS, sequences };
        let mut ledger = Ledger::default();
        (0..20).for_each(|_| drop(ledger.divide(&others, capacity)));
        let claims = [&others[..], &[claim(1, 9999, 9999, prompt(3))]].concat();
        let bound = (requests as usize + 1).div_ceil(sequences);
        let served = |share: &usize| *share > 0;
        let steps = (1..).find(|_| ledger.divide(&claims, capacity).last().is_some_and(served));
        assert!(steps.unwrap() <= bound, "{requests} requests: {steps:?} steps, not {bound}");
    }
}

#[test]
fn no_claim_is_left_out_for_ever() {
    let mut random = Random(3);
    for case in 0..30 {
        let rows = 1 + random.below(ROWS);
        let callers = 1 + random.below(12);
        let claims = abusers(&mut random, callers, rows);
        let mut ledger = Ledger::default();
        let mut served: BTreeMap<Origin, usize> = BTreeMap::new();
        let steps = 40 * claims.len();
        for _ in 0..steps {
            let shares = ledger.divide(&claims, Capacity { rows, sequences: 8 });
            for (claim, share) in claims.iter().zip(shares) {
                *served.entry(claim.origin).or_default() += share;
            }
        }
        let starved = served.iter().find(|(_, rows)| **rows == 0);
        assert!(starved.is_none(), "case {case}: {starved:?} of {claims:?} with {rows} rows");
    }
}

#[test]
fn a_step_is_never_exceeded_and_never_split_below_a_minimum() {
    let mut random = Random(4);
    for _ in 0..500 {
        let (rows, sequences) = (1 + random.below(ROWS), 1 + random.below(32));
        let callers = 1 + random.below(40);
        let claims = abusers(&mut random, callers, rows);
        let mut ledger = Ledger::default();
        for _ in 0..10 {
            let shares = ledger.divide(&claims, Capacity { rows, sequences });
            assert!(shares.iter().sum::<usize>() <= rows);
            assert!(shares.iter().filter(|share| **share > 0).count() <= sequences);
            for (claim, &share) in claims.iter().zip(&shares) {
                assert!(
                    share == 0 || (claim.demand.min_tokens..=claim.demand.tokens).contains(&share)
                );
            }
            let wants_more =
                |(claim, &share): (&Claim, &usize)| share > 0 && claim.demand.tokens > share;
            let is_full = shares.iter().sum::<usize>() == rows;
            assert!(is_full || !claims.iter().zip(&shares).any(wants_more), "rows are left unused");
        }
    }
}

#[test]
fn greedy_callers_get_equal_shares_whatever_they_ask_for() {
    let kinds =
        [Kind::Blocks(ROWS), Kind::Prompts(2000, 8), Kind::Blocks(100), Kind::Prompts(900, 1)];
    let claims: Vec<_> =
        kinds.iter().zip(0..).flat_map(|(kind, at)| kind.claims(at, at * 100)).collect();
    let mut ledger = Ledger::default();
    let mut served = [0; 4];
    for _ in 0..1000 {
        for (claim, share) in claims.iter().zip(step(&mut ledger, &claims)) {
            served[claim.origin.caller as usize] += share;
        }
    }
    let fair = served.iter().sum::<usize>() / 4;
    assert!(served.iter().all(|rows| rows.abs_diff(fair) < fair / 20 + 2 * ROWS), "{served:?}");
}

#[test]
fn requests_of_one_caller_are_equal_too() {
    let claims = [
        claim(1, 1, 1, prompt(2000)),
        claim(1, 1, 2, prompt(2000)),
        claim(1, 1, 3, prompt(2000)),
        claim(1, 2, 4, prompt(2000)),
    ];
    let mut ledger = Ledger::default();
    let mut served = [0; 3];
    for _ in 0..100 {
        for (claim, share) in claims.iter().zip(step(&mut ledger, &claims)) {
            served[claim.origin.request as usize] += share;
        }
    }
    assert!(served[1].abs_diff(served[2]) <= ROWS, "{served:?}");
}

#[test]
fn rows_that_nobody_else_could_use_are_free() {
    let (alone, later) = (claim(1, 0, 1, prompt(9000)), claim(2, 0, 2, prompt(9000)));
    let mut ledger = Ledger::default();
    for _ in 0..100 {
        assert_eq!(step(&mut ledger, &[alone]), [ROWS]);
    }
    assert_eq!(step(&mut ledger, &[alone, later]), [ROWS / 2, ROWS / 2]);
}

#[test]
fn a_block_of_a_whole_step_and_a_short_reply_alternate() {
    let claims = [claim(1, 0, 1, block(ROWS)), claim(2, 0, 2, decode(1))];
    let mut ledger = Ledger::default();
    let steps: Vec<_> = (0..6).map(|_| step(&mut ledger, &claims)).collect();
    let (whole, shared) = (vec![ROWS, 0], vec![0, 1]);
    let expected = [&shared, &whole, &shared, &whole, &shared, &whole];
    assert_eq!(steps.iter().collect::<Vec<_>>(), expected);
    // The same holds for two requests of one caller.
    let claims = [claim(1, 1, 1, block(ROWS)), claim(1, 2, 2, decode(1))];
    let mut ledger = Ledger::default();
    let steps: Vec<_> = (0..6).map(|_| step(&mut ledger, &claims)).collect();
    assert_eq!(steps.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn higher_tiers_come_first() {
    let mut urgent = claim(2, 0, 2, prompt(200));
    urgent.origin.tier = 5;
    assert_eq!(step(&mut Ledger::default(), &[claim(1, 0, 1, prompt(200)), urgent]), [56, 200]);
}

#[test]
fn a_priority_orders_the_requests_of_its_own_caller_only() {
    let mut urgent = claim(1, 2, 3, prompt(ROWS));
    urgent.rank = Rank::new(9, 3);
    let claims = [claim(1, 1, 1, prompt(ROWS)), claim(2, 1, 2, prompt(ROWS)), urgent];
    assert_eq!(step(&mut Ledger::default(), &claims), [0, ROWS / 2, ROWS / 2]);
}

#[test]
fn decoding_comes_before_prefill() {
    assert_eq!(once(&[prompt(100), decode(1), decode(1)], 10), [8, 1, 1]);
}

#[test]
fn prompts_of_a_request_are_served_in_order() {
    assert_eq!(once(&[prompt(6), prompt(6), prompt(6)], 10), [6, 4, 0]);
}

#[test]
fn a_block_runs_whole_or_not_at_all() {
    assert_eq!(once(&[block(8), block(8), decode(1)], 15), [8, 0, 1]);
    assert_eq!(once(&[decode(1), block(8), block(8)], 17), [1, 8, 8]);
}
