//! Claims of a sequence: its description to the modules that divide places, steps, pages and drafts.

use wf_model::{PAGE_LEN, PageId};

use super::Sequence;
use crate::admission::{Member, Quota};
use crate::decode::SeqState;
use crate::drafter::DraftRequest;
use crate::fair::Claim;
use crate::generation::Generation;
use crate::prefix::{StateId, Tree};
use crate::row_costs::RowCosts;
use crate::schedule::Rank;
use crate::store::PageStore;

/// Number of steps without pages after which a sequence comes before all others, so that each ends.
pub(crate) const OVERDUE: usize = 256;

impl Sequence {
    /// Describes it to admission.
    pub(crate) fn member(&self) -> Member {
        Member {
            origin: self.origin,
            rank: self.rank,
            // A block or a draft reaches beyond the tokens.
            pages: self.pages_for_all().max(self.held.pages_in_sight()),
            quota: self.max_kv_tokens.map(|max| {
                let max_pages = max.div_ceil(PAGE_LEN);
                let all = self.state.max_len.div_ceil(PAGE_LEN).min(self.max_pages);
                // A window that fits may exceed it by the tokens of a step.
                let is_long = self.max_pages < usize::MAX;
                Quota { pages: if is_long { all.min(max_pages) } else { all }, max_pages }
            }),
            is_overdue: self.steps_without_pages >= OVERDUE,
            has_grammar: self.task.generation().is_some_and(|task| task.sampler.has_grammar()),
        }
    }

    /// Returns what it can use of a step.
    pub(crate) fn claim(&self) -> Claim {
        Claim { origin: self.origin, rank: self.rank, demand: self.task.demand(&self.state) }
    }

    /// Returns `true` if it should let others run first because its grammar is slow. That delays it and
    /// changes nothing else: no output depends on the other sequences of a step.
    pub(crate) fn is_in_debt(&self) -> bool {
        self.task.generation().is_some_and(|generation| !generation.grammar_debt.is_zero())
    }

    /// Updates the costs of draft rows, if its decoder weighs them.
    pub(crate) fn weigh_drafts(&mut self, costs: &RowCosts, sequences: usize) {
        if let Some(generation) = self.task.generation()
            && generation.decoder.weighs_drafts()
        {
            let [plain, drafted] = generation.heads();
            self.state.costs = costs.of_drafts(sequences, plain, drafted);
        }
    }

    /// Returns its request to the prediction head of the model, if it uses that, with its pages and its state. It has
    /// `share` rows to verify the draft, and may have `drafts` draft tokens. It gets no draft without pages for it.
    pub(crate) fn prediction_request(
        &mut self,
        share: usize,
        drafts: usize,
        store: &mut PageStore,
    ) -> Option<(DraftRequest<'_>, &[PageId], StateId)> {
        let generation = self.task.generation_mut().filter(|_| self.tree.predicts)?;
        let limit = PageStore::run_limit(&self.held, self.state.kv_len, self.state.prompt_len);
        let rows = limit.map_or(share, |limit| limit.min(share));
        let len = generation.decoder.draft_len(&self.state)?;
        let len = len.min(rows.saturating_sub(1)).min(drafts);
        let pages = (self.state.tokens.len() + len).div_ceil(PAGE_LEN);
        let missing = pages.saturating_sub(self.held.pages().len());
        if len == 0 || !store.grow(&mut self.held, missing) {
            return None;
        }
        let request = request(self.rank, self.tree, &self.state, generation, len);
        Some((request, self.held.pages(), self.held.state()))
    }

    /// Returns its request to the draft model, if it uses one, with `share` rows to verify the draft.
    pub(crate) fn draft_request(&mut self, share: usize) -> Option<DraftRequest<'_>> {
        if self.tree.predicts {
            return None;
        }
        let generation = self.task.generation_mut()?;
        let len = generation.decoder.draft_len(&self.state)?.min(share.saturating_sub(1));
        Some(request(self.rank, self.tree, &self.state, generation, len))
    }
}

/// Returns a request for `len` draft tokens. It borrows a part of a sequence, whose pages are lent beside it.
fn request<'a>(
    rank: Rank,
    tree: Tree,
    state: &'a SeqState,
    generation: &'a mut Generation,
    len: usize,
) -> DraftRequest<'a> {
    let sampler = &mut generation.sampler;
    DraftRequest { rank, tree, tokens: &state.tokens, prompt_len: state.prompt_len, len, sampler }
}
