//! Drafts that have to pay: their number by acceptance and by the cost of rows on this machine.
//!
//! A draft of k tokens, each accepted with probability a if the one before it is, yields 1 + a + … + a^k
//! tokens. Its cost is known from earlier passes, so the length is the one that yields most tokens per time,
//! and zero if none yields more than no draft at all.
//!
//! Estimates can be wrong. A balance, counted in tokens, bounds the loss: every pass adds what it yielded
//! and subtracts what its time would have yielded without drafts. A draft is made only if the balance is
//! positive after its total rejection.

use super::draft_costs::DraftCosts;

/// Balance at the start of a sequence, in tokens: what one draft from masks may cost.
const FIRST_BALANCE: f64 = 1.25;

/// Tokens that every token adds to the balance: the share of the time that rejected drafts may take in the long run.
const ALLOWANCE: f64 = 0.01;

/// Maximum of the balance: gains of the past pay for few losses.
const MAX_BALANCE: f64 = 2.0;

/// Weight of one more observation in an acceptance.
const WEIGHT: f64 = 1.0 / 8.0;

/// Weight with which an acceptance returns to its first value while nothing is observed.
const FORGETTING: f64 = 1.0 / 64.0;

/// Origin of draft tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The model itself, in a pass over masks before the verification.
    Masks,
    DraftModel,
    Lookup,
}

/// Probability that a draft token is accepted if the one before it is.
#[derive(Clone, Copy, Debug)]
struct Acceptance {
    first: f64,
    now: f64,
}

impl Acceptance {
    const fn new(first: f64) -> Self {
        Self { first, now: first }
    }

    fn observe(&mut self, is_accepted: bool) {
        self.now += WEIGHT * (f64::from(u8::from(is_accepted)) - self.now);
    }

    fn forget(&mut self) {
        self.now += FORGETTING * (self.first - self.now);
    }
}

/// Decides how many tokens to draft, and whether to draft at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Auto {
    max: usize,
    model: Acceptance,
    lookup: Acceptance,
    balance: f64,
}

impl Auto {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            // Models that draft for a model are trained to agree with it; repeats may be chance.
            model: Acceptance::new(0.75),
            lookup: Acceptance::new(0.25),
            balance: FIRST_BALANCE,
        }
    }

    /// Returns the number of tokens to draft.
    pub(super) fn len(&self, source: Source, costs: &DraftCosts) -> usize {
        let acceptance = match source {
            Source::Masks | Source::DraftModel => self.model.now,
            Source::Lookup => self.lookup.now,
        };
        let others = (costs.sequences - 1) as f64;
        let (mut best, mut best_rate) = (0, costs.sequences as f64);
        let (mut tokens, mut chance) = (1.0, 1.0);
        for len in 1..=self.max {
            chance *= acceptance;
            tokens += chance;
            let (passes, time) = price(source, len, costs);
            let rate = (passes * others + tokens) / time;
            let loss = costs.sequences as f64 * time - passes * others - 1.0;
            if rate > best_rate && loss < self.balance {
                (best, best_rate) = (len, rate);
            }
        }
        best
    }

    /// Records a pass over the last token and `rows` more that yielded `tokens` tokens. `source` is that of
    /// the draft in these rows.
    pub(super) fn settle(
        &mut self,
        source: Option<Source>,
        rows: usize,
        tokens: usize,
        costs: &DraftCosts,
    ) {
        let (sequences, tokens) = (costs.sequences as f64, tokens as f64);
        let mut time = costs.pass(rows);
        if source == Some(Source::DraftModel) {
            time += rows as f64 * costs.draft_token;
        }
        let gain = sequences - 1.0 + tokens - sequences * time;
        self.balance = (self.balance + gain + ALLOWANCE * tokens).min(MAX_BALANCE);
    }

    /// Records that `accepted` of `drafted` tokens from `source` were accepted.
    pub(super) fn verified(&mut self, source: Option<Source>, drafted: usize, accepted: usize) {
        let acceptance = match source {
            Some(Source::Lookup) => &mut self.lookup,
            Some(Source::Masks | Source::DraftModel) => &mut self.model,
            None => return self.model.forget(),
        };
        (0..drafted.min(accepted + 1)).for_each(|at| acceptance.observe(at < accepted));
    }

    /// Records whether lookup would have drafted the next token correctly, in a pass without a draft.
    pub(super) fn looked_up(&mut self, is_correct: bool) {
        self.lookup.observe(is_correct);
    }
}

/// Returns the number of passes for a draft of `len` tokens and its verification, and their time.
fn price(source: Source, len: usize, costs: &DraftCosts) -> (f64, f64) {
    let verification = costs.pass(len);
    match source {
        Source::Lookup => (1.0, verification),
        Source::DraftModel => (1.0, verification + len as f64 * costs.draft_token),
        // The last token and a mask for each further token.
        Source::Masks => (2.0, verification + costs.pass(len - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs of rows that add this share of a pass each.
    fn costs(sequences: usize, row: f64) -> DraftCosts {
        DraftCosts::new(sequences, |rows| 1.0 + row * rows as f64, 0.1)
    }

    fn sure(source: Source) -> Auto {
        let mut auto = Auto::new(15);
        auto.verified(Some(source), 60, 60);
        auto.settle(Some(source), 15, 16, &costs(1, 0.0));
        auto
    }

    #[test]
    fn drafts_are_as_long_as_rows_are_cheap() {
        let auto = sure(Source::Lookup);
        assert_eq!(auto.len(Source::Lookup, &costs(1, 0.01)), 15);
        assert_eq!(auto.len(Source::Lookup, &costs(1, 1.1)), 0, "a row costs more than a pass");
        let unsure = Auto::new(15);
        assert_eq!(unsure.len(Source::Lookup, &costs(1, 0.4)), 0);
        let few = unsure.len(Source::Lookup, &costs(1, 0.05));
        assert!((1..4).contains(&few), "{few}");
    }

    #[test]
    fn a_draft_from_masks_takes_a_pass_of_its_own() {
        let auto = sure(Source::Masks);
        assert_eq!(auto.len(Source::Masks, &costs(1, 0.02)), 15);
        assert_eq!(auto.len(Source::Masks, &costs(1, 0.6)), 0);
    }

    #[test]
    fn a_draft_teaches_up_to_its_first_rejected_token() {
        for source in [Source::Lookup, Source::DraftModel] {
            let acceptance = |drafted, accepted| {
                let mut auto = Auto::new(15);
                auto.verified(Some(source), drafted, accepted);
                if source == Source::Lookup { auto.lookup } else { auto.model }
            };
            let expected = |observed: &[bool]| {
                let mut expected = acceptance(0, 0);
                observed.iter().for_each(|is_accepted| expected.observe(*is_accepted));
                expected.now
            };
            assert_eq!(acceptance(4, 0).now, expected(&[false]));
            assert_eq!(acceptance(4, 2).now, expected(&[true, true, false]));
            assert_eq!(acceptance(2, 2).now, expected(&[true, true]), "nothing was rejected");
        }
    }

    #[test]
    fn many_sequences_leave_no_room_for_drafts() {
        let auto = sure(Source::Lookup);
        // A pass of 16 sequences and 15 more rows takes 1.5 times as long for all of them.
        let crowded = DraftCosts::new(16, |rows| 1.0 + rows as f64 / 16.0, 0.1);
        assert_eq!(auto.len(Source::Lookup, &crowded), 0);
    }

    #[test]
    fn a_chain_of_failures_costs_three_percent() {
        for (source, row) in [
            (Source::Lookup, 0.05),
            (Source::Lookup, 0.4),
            (Source::Masks, 0.02),
            (Source::DraftModel, 0.02),
        ] {
            let costs = costs(1, row);
            let mut auto = Auto::new(15);
            let (mut time, mut tokens) = (0.0, 0);
            while tokens < 64 {
                let len = auto.len(source, &costs);
                time += if len > 0 { price(source, len, &costs).1 } else { 1.0 };
                if len > 0 && source == Source::Masks {
                    auto.settle(None, len - 1, 0, &costs);
                }
                auto.settle(Some(source), len, 1, &costs);
                // Even if acceptance seems high.
                auto.model.now = 0.9;
                auto.lookup.now = 0.9;
                tokens += 1;
            }
            assert!(time / 64.0 < 1.03, "{source:?}, {row}: {time}");
            assert!(time > 64.5, "it tries: {source:?}, {row}: {time}");
        }
    }
}
