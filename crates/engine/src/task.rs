//! The purpose of a sequence: a completion or an embedding. Each call goes to the one or the other.

use std::ops::Range;

use wf_model::{Scoring, Segment};

use crate::decode::{Plan, Rows, SeqState, TokenDemand};
use crate::generation::Generation;
use crate::output::{DecodeStats, FinishReason};
use crate::pooling::Pooler;
use crate::request::Event;

pub(crate) enum Task {
    Generate(Box<Generation>),
    Embed(Pooler),
}

impl Task {
    pub(crate) fn demand(&self, seq: &SeqState) -> TokenDemand {
        match self {
            Self::Generate(generation) => generation.decoder.demand(seq),
            Self::Embed(pooler) => pooler.demand(seq),
        }
    }

    pub(crate) fn plan(&mut self, seq: &SeqState, budget: usize) -> Plan {
        match self {
            Self::Generate(generation) => generation.decoder.plan(seq, budget),
            Self::Embed(pooler) => pooler.plan(seq, budget),
        }
    }

    /// Returns the plan as input of a forward pass, for a sequence that holds `pages` and a `state`.
    pub(crate) fn segment<'a>(
        &'a self,
        seq: &SeqState,
        plan: &'a Plan,
        (pages, state): (&'a [u32], usize),
    ) -> Segment<'a> {
        let predicts = self.generation().is_some_and(|task| task.decoder.predicts());
        let (scoring, allowed, draws) = match self {
            Self::Generate(task) => {
                (task.scoring(seq, plan), task.allowed(seq, plan), task.draws())
            }
            Self::Embed(_) => (Scoring::All, &[][..], &[][..]),
        };
        Segment {
            tokens: &plan.tokens,
            start: plan.start,
            pages,
            state,
            drafts: plan.drafts(seq),
            predicts,
            visibility: plan.visibility,
            scored: &plan.scored,
            scoring,
            allowed,
            draws,
        }
    }

    /// Absorbs the results of `plan`. Returns the reason if it is finished.
    pub(crate) fn absorb(
        &mut self,
        seq: &mut SeqState,
        plan: &Plan,
        rows: Rows<'_>,
        emit: impl FnMut(Event),
    ) -> Option<FinishReason> {
        match self {
            Self::Generate(generation) => generation.absorb(seq, plan, rows, emit),
            Self::Embed(pooler) => pooler.absorb(seq, plan, emit),
        }
    }

    /// Starts over after the sequence has released its pages.
    pub(crate) fn pages_released(&mut self) {
        match self {
            Self::Generate(generation) => generation.decoder.pages_released(),
            Self::Embed(pooler) => pooler.reset(),
        }
    }

    /// Returns `true` if every token has to run, so that no K/V comes from the cache.
    pub(crate) fn runs_all_tokens(&self, seq: &SeqState) -> bool {
        match self {
            Self::Generate(_) => seq.prompt_logprobs.is_some(),
            Self::Embed(pooler) => pooler.needs_all_tokens(),
        }
    }

    /// Returns the counters of the completion; none for an embedding.
    pub(crate) fn decode_stats(&self) -> DecodeStats {
        self.generation().map_or_else(DecodeStats::default, |generation| generation.stats)
    }

    /// Returns the indices of the plan's tokens whose hidden states are pooled.
    pub(crate) fn pooled_rows(&self, plan: &Plan) -> Range<usize> {
        match self {
            Self::Generate(_) => 0..0,
            Self::Embed(pooler) => pooler.pooled_rows(plan),
        }
    }

    pub(crate) fn pool(&mut self, hidden: &[f32]) {
        if let Self::Embed(pooler) = self {
            pooler.add(hidden);
        }
    }

    pub(crate) fn generation(&self) -> Option<&Generation> {
        match self {
            Self::Generate(generation) => Some(generation),
            Self::Embed(_) => None,
        }
    }

    pub(crate) fn generation_mut(&mut self) -> Option<&mut Generation> {
        match self {
            Self::Generate(generation) => Some(generation),
            Self::Embed(_) => None,
        }
    }
}
