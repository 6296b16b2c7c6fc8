//! One request inside the engine: its tokens, its pages, and its task.

use std::time::Instant;

use wf_model::{PAGE_LEN, PageId, Segment, TokenId, Visibility};

use crate::admission::{Member, Quota};
use crate::decode::{Decoder, Plan, Rows, SeqState};
use crate::disk::{BeforeStart, DiskCache, PageKey, Trail};
use crate::drafter::DraftRequest;
use crate::events::EventSender;
use crate::fair::Claim;
use crate::generation::Generation;
use crate::output::FinishReason;
use crate::pooling::Pooler;
use crate::prefix::{StateId, Tree};
use crate::queue::Place;
use crate::request::{EmbeddingRequest, Event, Request};
use crate::row_costs::RowCosts;
use crate::schedule::{Origin, Rank};
use crate::store::{Held, PageStore};
use crate::task::Task;

pub(crate) struct Sequence {
    pub(crate) rank: Rank,
    pub(crate) origin: Origin,
    /// Place in the queue, until it runs for the first time.
    place: Option<Place>,
    /// Maximum number of tokens in the K/V cache of all running sequences of its caller.
    max_kv_tokens: Option<usize>,
    /// Maximum number of pages that it holds at once, however long it is.
    max_pages: usize,
    pub(crate) state: SeqState,
    held: Held,
    tree: Tree,
    trail: Trail,
    pub(crate) task: Task,
    deadline: Option<Instant>,
    events: EventSender,
    /// True once it ran, even if it was preempted since.
    pub(crate) started: bool,
    pub(crate) finished: bool,
    /// Number of pages that it lacked when it last tried to run.
    pub(crate) missing_pages: usize,
    /// Number of steps in which it lacked pages.
    pub(crate) steps_without_pages: usize,
    /// True if the last step computed a part of it, or if it has just started.
    pub(crate) is_moving: bool,
}

/// Number of steps without pages after which a sequence comes before all others, so that each ends.
pub(crate) const OVERDUE: usize = 256;

/// Submission of a sequence.
pub(crate) struct Submission {
    /// Maximum number of pages that a sequence holds at once.
    pub(crate) max_pages: usize,
    /// Grows from sequence to sequence.
    pub(crate) arrival: u64,
    pub(crate) place: Place,
    pub(crate) events: EventSender,
}

impl Sequence {
    pub(crate) fn generate(
        request: Request,
        decoder: Box<dyn Decoder>,
        context_len: usize,
        submission: Submission,
    ) -> Self {
        let rank = Rank::new(request.priority, submission.arrival);
        let (origin, deadline) = (request.origin, request.limits.deadline);
        let max_kv_tokens = request.max_kv_tokens;
        let (salt, visibility) = (request.cache_salt, decoder.context());
        let tree = Tree { salt, visibility, predicts: decoder.predicts() };
        let max_tokens = request.limits.max_tokens;
        let mut state = SeqState::new(request.prompt.clone(), max_tokens, context_len);
        state.prompt_logprobs = request.prompt_logprobs.filter(|_| state.prompt_len > 1);
        let generation = Generation::new(request, decoder);
        let task = Task::Generate(Box::new(generation));
        Self { deadline, max_kv_tokens, ..Self::new(rank, origin, state, tree, task, submission) }
    }

    pub(crate) fn embed(
        request: EmbeddingRequest,
        pooler: Pooler,
        context_len: usize,
        submission: Submission,
    ) -> Self {
        let (salt, visibility) = (request.cache_salt, pooler.visibility);
        let tree = Tree { salt, visibility, predicts: false };
        let state = SeqState::new(request.tokens, 0, context_len);
        let rank = Rank::new(request.priority, submission.arrival);
        let EmbeddingRequest { origin, deadline, max_kv_tokens, .. } = request;
        let task = Task::Embed(pooler);
        Self { deadline, max_kv_tokens, ..Self::new(rank, origin, state, tree, task, submission) }
    }

    fn new(
        rank: Rank,
        origin: Origin,
        state: SeqState,
        tree: Tree,
        task: Task,
        submission: Submission,
    ) -> Self {
        Self {
            rank,
            origin,
            place: Some(submission.place),
            max_kv_tokens: None,
            max_pages: submission.max_pages,
            state,
            held: Held::nothing(tree),
            tree,
            trail: Trail::default(),
            task,
            deadline: None,
            events: submission.events,
            started: false,
            finished: false,
            missing_pages: 0,
            steps_without_pages: 0,
            is_moving: false,
        }
    }

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

    /// Returns `true` if the receiver of the events is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Ends the sequence if its deadline has passed.
    pub(crate) fn check_deadline(&mut self, now: Instant) {
        if !self.finished && self.deadline.is_some_and(|deadline| deadline <= now) {
            self.finish(FinishReason::Deadline);
        }
    }

    /// Returns the number of pages it needs, beyond those in the cache, for all its tokens and the next one.
    pub(crate) fn pages_needed(&self, store: &PageStore) -> usize {
        let cached = store.in_sight(store.matching(self.tree, self.cacheable()));
        self.pages_for_all().saturating_sub(cached)
    }

    /// Returns the number of pages of all its tokens and the next one, or of those that it holds at once.
    fn pages_for_all(&self) -> usize {
        let pages = (self.state.tokens.len() + 1).min(self.state.max_len).div_ceil(PAGE_LEN);
        pages.min(self.max_pages)
    }

    /// Returns `true` if `other`, of the same caller, is about to compute a page that this sequence could then
    /// share. Nobody waits for a caller whose share of a step it does not have.
    pub(crate) fn should_wait_for(&self, other: &Self, store: &PageStore) -> bool {
        let next = store.next_prefix(self.tree, self.cacheable());
        self.tree == other.tree
            && self.origin.party() == other.origin.party()
            && other.is_moving
            && other.state.kv_len < next
            && self.cacheable().len() >= next
            && other.state.tokens.len() >= next
            && self.state.tokens[..next] == other.state.tokens[..next]
    }

    /// Takes the pages that the cache has for it, and those that were read from disk, which `write_page` puts
    /// into memory. Returns the number of cached prompt tokens, and of pages from disk.
    pub(crate) fn start(
        &mut self,
        store: &mut PageStore,
        write_page: impl FnMut(PageId, &[u8]),
    ) -> (usize, usize) {
        self.held = store.find(self.tree, self.cacheable());
        let restored = self.restore(store, write_page);
        self.state.kv_len = self.held.pages().len() * PAGE_LEN;
        self.slide(store);
        self.trail.set_kept(self.held.pages().len());
        let cached = self.state.kv_len.min(self.state.prompt_len);
        self.is_moving = true;
        self.place = None;
        if !self.started {
            self.started = true;
            self.events.send(Event::Started { cached });
        }
        (cached, restored)
    }

    /// Puts the pages from disk that follow those in memory into the cache. Returns their number.
    fn restore(
        &mut self,
        store: &mut PageStore,
        mut write_page: impl FnMut(PageId, &[u8]),
    ) -> usize {
        let first = self.held.pages().len();
        let mut pages = self.trail.take(first);
        // With a window, what follows would take the places of these.
        pages.truncate(self.max_pages.saturating_sub(self.held.pages_in_sight()));
        if pages.is_empty() || !store.grow(&mut self.held, pages.len()) {
            return 0;
        }
        for (page, bytes) in self.held.pages()[first..].iter().zip(&pages) {
            write_page(*page, bytes);
        }
        let restored_len = self.held.pages().len() * PAGE_LEN;
        store.share(&mut self.held, &self.state.tokens[..restored_len]);
        pages.len()
    }

    /// Looks for the pages on disk that it could use, once.
    pub(crate) fn before_start(
        &mut self,
        disk: &DiskCache,
        store: &PageStore,
        may_fetch: bool,
    ) -> BeforeStart {
        let mut trail = std::mem::take(&mut self.trail);
        let tokens = self.cacheable();
        let in_memory = store.matching(self.tree, tokens);
        // With a window, no more pages are of use than it holds at once.
        let limit = in_memory.saturating_add(self.max_pages).saturating_mul(PAGE_LEN);
        let tokens = &tokens[..limit.min(tokens.len())];
        let next = trail.before_start(disk, self.tree, (tokens, in_memory), may_fetch);
        self.trail = trail;
        next
    }

    /// Returns its pages, as the disk knows them.
    pub(crate) fn trail(&self) -> &Trail {
        &self.trail
    }

    pub(crate) fn trail_mut(&mut self) -> &mut Trail {
        &mut self.trail
    }

    /// Returns the keys of the pages that were filled since the last call, and the pages.
    pub(crate) fn new_full_pages(&mut self, disk: &DiskCache) -> Vec<(PageKey, PageId)> {
        let shared = self.held.shared_pages();
        let tokens = &self.state.tokens[..shared.len() * PAGE_LEN];
        let new = self.trail.new_pages(disk, self.tree, tokens);
        new.into_iter().map(|(at, key)| (key, shared[at])).collect()
    }

    /// Allocates the pages that `plan` needs, all or nothing.
    pub(crate) fn allocate(&mut self, plan: &Plan, store: &mut PageStore) -> bool {
        let needed = (plan.start + plan.tokens.len()).div_ceil(PAGE_LEN);
        let missing = needed.saturating_sub(self.held.pages().len());
        let is_granted = store.grow(&mut self.held, missing);
        self.missing_pages = if is_granted { 0 } else { missing };
        is_granted
    }

    /// Gives back the pages that none of its later tokens sees.
    pub(crate) fn slide(&mut self, store: &mut PageStore) {
        store.slide(&mut self.held, self.state.kv_len);
    }

    /// Releases its pages. The tokens stay, so the same K/V is computed again later.
    pub(crate) fn release(&mut self, store: &mut PageStore) {
        self.state.kv_len = 0;
        self.missing_pages = 0;
        self.task.pages_released();
        self.trail = Trail::default();
        store.release(std::mem::replace(&mut self.held, Held::nothing(self.tree)));
    }

    /// Plans at most `budget` tokens, of which at most `drafts` may not be kept.
    pub(crate) fn plan(&mut self, budget: usize, drafts: usize) -> Plan {
        let certain = self.state.tokens.len() - self.state.kv_len;
        let budget = budget.min(certain.saturating_add(drafts));
        // A snapshot is taken at the end of a plan.
        let limit = PageStore::run_limit(&self.held, self.state.kv_len, self.state.prompt_len);
        self.task.plan(&self.state, limit.map_or(budget, |limit| limit.min(budget)))
    }

    /// Returns its state and the number of tokens that it is to have seen after a plan with drafts.
    pub(crate) fn kept_drafts(&self) -> (StateId, usize) {
        (self.held.state(), self.state.kv_len)
    }

    /// Returns the snapshot to start from, and its own state, if it has just started behind cached pages.
    pub(crate) fn restored_state(&self, store: &mut PageStore) -> Option<(StateId, StateId)> {
        store.restored(&self.held)
    }

    /// Returns its state, and the number of a copy to be kept for later prompts, if one is due.
    pub(crate) fn kept_state(&self, store: &mut PageStore) -> Option<(StateId, StateId)> {
        store.keep_state(&self.held, self.state.kv_len, self.state.prompt_len)
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

    /// Computes what the forward pass needs to know of the tokens that the plan samples.
    pub(crate) fn prepare(&mut self, plan: &Plan, vocab_len: usize) {
        if let Some(generation) = self.task.generation_mut() {
            generation.prepare(&self.state, plan, vocab_len);
        }
    }

    pub(crate) fn segment<'a>(&'a self, plan: &'a Plan) -> Segment<'a> {
        self.task.segment(&self.state, plan, (self.held.pages(), self.held.state()))
    }

    /// Absorbs the results of `plan`, reports what became final, and shares its full pages. Returns the
    /// number of tokens appended.
    pub(crate) fn absorb(&mut self, plan: &Plan, rows: Rows<'_>, store: &mut PageStore) -> usize {
        let len = self.state.tokens.len();
        let emit = |event| self.events.send(event);
        if let Some(reason) = self.task.absorb(&mut self.state, plan, rows, emit) {
            self.finish(reason);
        }
        if self.shares_pages() {
            store.share(&mut self.held, &self.state.tokens[..self.state.kv_len]);
        }
        self.state.tokens.len() - len
    }

    pub(crate) fn finish(&mut self, reason: FinishReason) {
        self.events.send(Event::Done(reason));
        self.finished = true;
    }

    /// Returns the tokens whose K/V may come from the cache: all but the last, which has to run for its
    /// logits, and none if every token has to run.
    fn cacheable(&self) -> &[TokenId] {
        if self.task.runs_all_tokens(&self.state) {
            &[]
        } else {
            &self.state.tokens[..self.state.tokens.len() - 1]
        }
    }

    /// Returns `true` if its pages can be shared: a page must hold whole blocks, or its K/V depends on tokens
    /// of another page.
    fn shares_pages(&self) -> bool {
        match self.tree.visibility {
            Visibility::Block(len) => PAGE_LEN.is_multiple_of(len),
            Visibility::Causal | Visibility::Until(_) => true,
        }
    }

    /// Returns `true` if it should let others run first because its grammar is slow. That delays it and
    /// changes nothing else: no output depends on the other sequences of a step.
    pub(crate) fn is_in_debt(&self) -> bool {
        self.task.generation().is_some_and(|generation| !generation.grammar_debt.is_zero())
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
        let request = DraftRequest {
            rank: self.rank,
            tree: self.tree,
            tokens: &self.state.tokens,
            prompt_len: self.state.prompt_len,
            len,
            sampler: &mut generation.sampler,
        };
        Some((request, self.held.pages(), self.held.state()))
    }

    /// Returns its request to the draft model, if it uses one, with `share` rows to verify the draft.
    pub(crate) fn draft_request(&mut self, share: usize) -> Option<DraftRequest<'_>> {
        if self.tree.predicts {
            return None;
        }
        let generation = self.task.generation_mut()?;
        let len = generation.decoder.draft_len(&self.state)?.min(share.saturating_sub(1));
        Some(DraftRequest {
            rank: self.rank,
            tree: self.tree,
            tokens: &self.state.tokens,
            prompt_len: self.state.prompt_len,
            len,
            sampler: &mut generation.sampler,
        })
    }
}
