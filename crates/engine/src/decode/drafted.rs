//! Guesses tokens, checks them in one pass, keeps those it would have picked.
//!
//! The check runs the last token and the guesses as ordinary text. Row by row, the sampler picks as it
//! would have without guesses, from the same scores and with the same random number; the first pick
//! that is not the guess ends the check. So every pick made is a pick kept, and guesses change when
//! tokens come, never which: at any temperature, with any setting.

use wf_model::{Scoring, Sees, TokenId};

use super::draft_len::DraftLen;
use super::lookup::Lookup;
use super::mode::Drafting;
use super::{Autoregressive, Decoder, Need, Outcome, Plan, SeqView};
use crate::sample::{Sampler, best_two};

/// Drafts and checks.
#[derive(Debug)]
pub struct Drafted {
    guesser: Guesser,
    lookup: Option<Lookup>,
    model_len: DraftLen,
    lookup_len: DraftLen,
    draft: Option<Draft>,
}

/// The model that guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guesser {
    Nobody,
    /// The model itself, over masks that are written so.
    Masks(TokenId),
    /// Another one, which is asked before each plan.
    DraftModel,
}

/// Guesses of what follows after a number of tokens.
#[derive(Debug)]
struct Draft {
    after: usize,
    tokens: Vec<TokenId>,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Model,
    Lookup,
}

impl Drafted {
    pub(crate) fn new(drafting: Drafting, guesser: Guesser) -> Self {
        let len = DraftLen::new(drafting.most, drafting.adapts);
        Self {
            guesser,
            lookup: drafting.lookup.then(Lookup::default),
            model_len: len,
            lookup_len: len,
            draft: None,
        }
    }

    /// The guesses to check, if any were made for this very place.
    fn draft(&self, seq: SeqView<'_>) -> Option<&Draft> {
        self.draft.as_ref().filter(|draft| draft.after == seq.tokens.len())
    }

    /// How many guesses could still be part of the reply: the check itself adds one token. (There may be
    /// room for none, where only the prompt is to be told of.)
    fn room(seq: SeqView<'_>) -> usize {
        seq.most.saturating_sub(seq.tokens.len() + 1)
    }

    /// Guesses what followed the same tokens earlier, if nothing is guessed yet.
    fn look_up(&mut self, seq: SeqView<'_>) {
        if self.draft(seq).is_some() {
            return;
        }
        self.draft = None;
        let Some(lookup) = &mut self.lookup else { return };
        lookup.follow(seq.tokens);
        let len = self.lookup_len.get().min(Self::room(seq));
        let tokens = lookup.draft(len);
        if tokens.is_empty() {
            self.lookup_len.skipped();
        } else {
            self.draft = Some(Draft { after: seq.tokens.len(), tokens, source: Source::Lookup });
        }
    }

    /// How many tokens a model is to guess.
    fn model_guesses(&self, seq: SeqView<'_>) -> usize {
        self.model_len.get().min(Self::room(seq))
    }

    fn check(
        &mut self,
        seq: SeqView<'_>,
        plan: &Plan,
        scores: &mut [f32],
        sampler: &mut Sampler,
    ) -> Option<Outcome> {
        let guesses = &plan.tokens[1..];
        let mut outcome = Outcome { drafted: guesses.len(), ..Outcome::default() };
        let rows = scores.chunks_exact_mut(scores.len() / plan.want.len());
        for (at, row) in rows.enumerate() {
            let Some(picked) = sampler.pick(row, seq.tokens.len() + at) else { break };
            let agrees = guesses.get(at) == Some(&picked.token);
            let ends = sampler.ends(picked.token);
            outcome.commit.push(picked);
            outcome.agreed += usize::from(agrees);
            if !agrees || ends {
                break;
            }
        }
        // What was picked before scores broke is part of the reply, as it would be without guesses.
        if outcome.commit.is_empty() {
            return None;
        }
        // The last token, and the guesses that were right.
        outcome.keep = outcome.commit.len();
        match self.draft.take().map(|draft| draft.source) {
            Some(Source::Model) => self.model_len.saw(outcome.drafted, outcome.agreed),
            Some(Source::Lookup) => self.lookup_len.saw(outcome.drafted, outcome.agreed),
            None => self.model_len.skipped(),
        }
        Some(outcome)
    }
}

impl Decoder for Drafted {
    fn need(&self, seq: SeqView<'_>) -> Need {
        let pending = seq.tokens.len() - seq.kv_len;
        if pending > 1 {
            return Autoregressive.need(seq);
        }
        let guesses = self
            .draft(seq)
            .map_or(self.model_len.get().max(self.lookup_len.get()), |d| d.tokens.len());
        Need { tokens: 1 + guesses.min(Self::room(seq)), least: 1, reads: false }
    }

    fn plan(&mut self, seq: SeqView<'_>, budget: usize) -> Plan {
        if seq.tokens.len() - seq.kv_len > 1 || budget == 1 {
            return Autoregressive.plan(seq, budget);
        }
        // Where a draft model is asked, that came before.
        if self.guesser != Guesser::DraftModel {
            self.look_up(seq);
        }
        let last = &seq.tokens[seq.kv_len..];
        let masks = self.model_guesses(seq).min(budget);
        match (self.draft(seq), self.guesser) {
            // The row of a token scores the next, so the last token makes the first guess. That one alone
            // is what a check without guesses gives.
            (None, Guesser::Masks(mask)) if masks > 1 => {
                let mut tokens = last.to_vec();
                tokens.resize(masks, mask);
                let sees = Sees::Until(seq.kv_len + tokens.len());
                // The best token that is not a mask.
                let scoring = Some(Scoring::Top(2));
                Plan { at: seq.kv_len, want: (0..tokens.len()).collect(), tokens, sees, scoring }
            }
            (draft, _) => {
                let guesses = draft.map_or(&[][..], |draft| &draft.tokens);
                let guesses = &guesses[..guesses.len().min(budget - 1)];
                let tokens = [last, guesses].concat();
                Plan::causal(seq.kv_len, &tokens, (0..tokens.len()).collect())
            }
        }
    }

    fn absorb(
        &mut self,
        seq: SeqView<'_>,
        plan: &Plan,
        scores: &mut [f32],
        sampler: &mut Sampler,
    ) -> Option<Outcome> {
        if seq.tokens.len() - seq.kv_len > 1 {
            return Autoregressive.absorb(seq, plan, scores, sampler);
        }
        match (plan.sees, self.guesser) {
            (Sees::Until(_), Guesser::Masks(mask)) => {
                let rows = scores.chunks_exact(scores.len() / plan.want.len());
                let guess = |row| best_two(row).into_iter().flatten().find(|&token| token != mask);
                let tokens = rows.map_while(guess).collect();
                self.draft = Some(Draft { after: seq.tokens.len(), tokens, source: Source::Model });
                Some(Outcome::default())
            }
            _ => self.check(seq, plan, scores, sampler),
        }
    }

    fn guesses_wanted(&mut self, seq: SeqView<'_>) -> Option<usize> {
        if self.guesser != Guesser::DraftModel {
            return None;
        }
        if seq.tokens.len() - seq.kv_len > 1 {
            return Some(0);
        }
        self.look_up(seq);
        Some(if self.draft(seq).is_some() { 0 } else { self.model_guesses(seq) })
    }

    fn take_guesses(&mut self, seq: SeqView<'_>, guesses: Vec<TokenId>) {
        let (after, source) = (seq.tokens.len(), Source::Model);
        self.draft = Some(Draft { after, tokens: guesses, source });
    }
}
