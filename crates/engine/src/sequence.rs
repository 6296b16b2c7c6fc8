//! One request inside the engine: its tokens, its pages, and its task.

use std::ops::Range;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;
use wf_model::{PAGE_LEN, Scoring, Segment, TokenId, Visibility};

use crate::admission::{Member, Quota};
use crate::decode::{Decoder, Plan, Rows, SeqState, TokenDemand};
use crate::drafter::DraftRequest;
use crate::fair::Claim;
use crate::generation::Generation;
use crate::output::{DecodeStats, FinishReason};
use crate::pooling::Pooler;
use crate::prefix::Tree;
use crate::queue::Place;
use crate::request::{EmbeddingRequest, Event, Request};
use crate::row_costs::RowCosts;
use crate::schedule::{Origin, Rank};
use crate::store::{Held, PageStore};

pub(crate) type EventSender = UnboundedSender<(Instant, Event)>;

pub(crate) struct Sequence {
    pub(crate) rank: Rank,
    pub(crate) origin: Origin,
    /// Place in the queue, until it runs for the first time.
    place: Option<Place>,
    /// Maximum number of tokens in the K/V cache of all running sequences of its caller.
    max_kv_tokens: Option<usize>,
    pub(crate) state: SeqState,
    held: Held,
    tree: Tree,
    task: Task,
    deadline: Option<Instant>,
    events: EventSender,
    /// True once it ran, even if it was preempted since.
    pub(crate) started: bool,
    pub(crate) finished: bool,
    /// Number of steps in which it lacked pages.
    pub(crate) steps_without_pages: usize,
    /// True if the last step computed a part of it, or if it has just started.
    pub(crate) is_moving: bool,
}

/// Number of steps without pages after which a sequence comes before all others, so that each ends.
const OVERDUE: usize = 256;

/// Submission of a sequence.
pub(crate) struct Submission {
    /// Grows from sequence to sequence.
    pub(crate) arrival: u64,
    pub(crate) place: Place,
    pub(crate) events: EventSender,
}

/// Purpose of a sequence.
enum Task {
    Generate(Box<Generation>),
    Embed(Pooler),
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
        let tree = Tree { salt: request.cache_salt, visibility: decoder.context() };
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
        let tree = Tree { salt: request.cache_salt, visibility: pooler.visibility };
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
            state,
            held: Held::nothing(tree),
            tree,
            task,
            deadline: None,
            events: submission.events,
            started: false,
            finished: false,
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
            pages: self.pages_for_all().max(self.held.pages().len()),
            quota: self.max_kv_tokens.map(|max| Quota {
                pages: self.state.max_len.div_ceil(PAGE_LEN),
                max_pages: max.div_ceil(PAGE_LEN),
            }),
            is_overdue: self.steps_without_pages >= OVERDUE,
        }
    }

    /// Returns what it can use of a step.
    pub(crate) fn claim(&self) -> Claim {
        Claim { origin: self.origin, rank: self.rank, demand: self.demand() }
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
        self.pages_for_all() - store.matching(self.tree, self.cacheable())
    }

    /// Returns the number of pages of all its tokens and the next one.
    fn pages_for_all(&self) -> usize {
        (self.state.tokens.len() + 1).min(self.state.max_len).div_ceil(PAGE_LEN)
    }

    /// Returns `true` if `other`, of the same caller, is about to compute a page that this sequence could then
    /// share. Nobody waits for a caller whose share of a step it does not have.
    pub(crate) fn should_wait_for(&self, other: &Self, store: &PageStore) -> bool {
        let next = (store.matching(self.tree, self.cacheable()) + 1) * PAGE_LEN;
        self.tree == other.tree
            && self.origin.party() == other.origin.party()
            && other.is_moving
            && other.state.kv_len < next
            && self.cacheable().len() >= next
            && other.state.tokens.len() >= next
            && self.state.tokens[..next] == other.state.tokens[..next]
    }

    /// Takes the pages that the cache has for it. Returns the number of cached prompt tokens.
    pub(crate) fn start(&mut self, store: &mut PageStore) -> usize {
        self.held = store.find(self.tree, self.cacheable());
        self.state.kv_len = self.held.pages().len() * PAGE_LEN;
        let cached = self.state.kv_len.min(self.state.prompt_len);
        self.is_moving = true;
        self.place = None;
        if !self.started {
            self.started = true;
            send(&self.events, Event::Started { cached });
        }
        cached
    }

    /// Allocates the pages that `plan` needs, all or nothing.
    pub(crate) fn allocate(&mut self, plan: &Plan, store: &mut PageStore) -> bool {
        let needed = (plan.start + plan.tokens.len()).div_ceil(PAGE_LEN);
        let missing = needed.saturating_sub(self.held.pages().len());
        store.grow(&mut self.held, missing)
    }

    /// Releases its pages. The tokens stay, so the same K/V is computed again later.
    pub(crate) fn release(&mut self, store: &mut PageStore) {
        self.state.kv_len = 0;
        match &mut self.task {
            Task::Generate(generation) => generation.decoder.pages_released(),
            Task::Embed(pooler) => pooler.reset(),
        }
        store.release(std::mem::replace(&mut self.held, Held::nothing(self.tree)));
    }

    fn demand(&self) -> TokenDemand {
        match &self.task {
            Task::Generate(generation) => generation.decoder.demand(&self.state),
            Task::Embed(pooler) => pooler.demand(&self.state),
        }
    }

    pub(crate) fn plan(&mut self, budget: usize) -> Plan {
        match &mut self.task {
            Task::Generate(generation) => generation.decoder.plan(&self.state, budget),
            Task::Embed(pooler) => pooler.plan(&self.state, budget),
        }
    }

    /// Updates the costs of draft rows, if its decoder weighs them.
    pub(crate) fn weigh_drafts(&mut self, costs: &RowCosts, sequences: usize) {
        if let Task::Generate(generation) = &self.task
            && generation.decoder.weighs_drafts()
        {
            let [plain, drafted] = generation.heads();
            self.state.costs = costs.of_drafts(sequences, plain, drafted);
        }
    }

    /// Computes what the forward pass needs to know of the tokens that the plan samples.
    pub(crate) fn prepare(&mut self, plan: &Plan, vocab_len: usize) {
        if let Task::Generate(generation) = &mut self.task {
            generation.prepare(&self.state, plan, vocab_len);
        }
    }

    pub(crate) fn segment<'a>(&'a self, plan: &'a Plan) -> Segment<'a> {
        let (scoring, allowed, draws) = match &self.task {
            Task::Generate(generation) => (
                generation.scoring(&self.state, plan),
                generation.allowed(&self.state, plan),
                generation.draws(),
            ),
            Task::Embed(_) => (Scoring::All, &[][..], &[][..]),
        };
        Segment {
            tokens: &plan.tokens,
            start: plan.start,
            pages: self.held.pages(),
            visibility: plan.visibility,
            scored: &plan.scored,
            scoring,
            allowed,
            draws,
        }
    }

    /// Absorbs the results of `plan`, reports what became final, and shares its full pages. Returns the
    /// number of tokens appended.
    pub(crate) fn absorb(&mut self, plan: &Plan, rows: Rows<'_>, store: &mut PageStore) -> usize {
        let len = self.state.tokens.len();
        let emit = |event| send(&self.events, event);
        let reason = match &mut self.task {
            Task::Generate(generation) => generation.absorb(&mut self.state, plan, rows, emit),
            Task::Embed(pooler) => pooler.absorb(&mut self.state, plan, emit),
        };
        if let Some(reason) = reason {
            self.finish(reason);
        }
        if self.shares_pages() {
            store.share(&mut self.held, &self.state.tokens[..self.state.kv_len]);
        }
        self.state.tokens.len() - len
    }

    pub(crate) fn finish(&mut self, reason: FinishReason) {
        send(&self.events, Event::Done(reason));
        self.finished = true;
    }

    /// Returns the tokens whose K/V may come from the cache: all but the last, which has to run for its
    /// logits, and none if every token has to run.
    fn cacheable(&self) -> &[TokenId] {
        let runs_all = match &self.task {
            Task::Generate(_) => self.state.prompt_logprobs.is_some(),
            Task::Embed(pooler) => pooler.needs_all_tokens(),
        };
        if runs_all { &[] } else { &self.state.tokens[..self.state.tokens.len() - 1] }
    }

    /// Returns `true` if its pages can be shared: a page must hold whole blocks, or its K/V depends on tokens
    /// of another page.
    fn shares_pages(&self) -> bool {
        match self.tree.visibility {
            Visibility::Block(len) => PAGE_LEN.is_multiple_of(len),
            Visibility::Causal | Visibility::Until(_) => true,
        }
    }

    /// Returns the counters of the completion; none for an embedding.
    pub(crate) fn decode_stats(&self) -> DecodeStats {
        match &self.task {
            Task::Generate(generation) => generation.stats,
            Task::Embed(_) => DecodeStats::default(),
        }
    }

    /// Returns `true` if it should let others run first because its grammar is slow. That delays it and
    /// changes nothing else: no output depends on the other sequences of a step.
    pub(crate) fn is_in_debt(&self) -> bool {
        matches!(&self.task, Task::Generate(generation) if !generation.grammar_debt.is_zero())
    }

    pub(crate) fn generation_mut(&mut self) -> Option<&mut Generation> {
        match &mut self.task {
            Task::Generate(generation) => Some(generation),
            Task::Embed(_) => None,
        }
    }

    /// Returns its request to the draft model, if it uses one, with `share` rows to verify the draft.
    pub(crate) fn draft_request(&mut self, share: usize) -> Option<DraftRequest<'_>> {
        let Task::Generate(generation) = &mut self.task else { return None };
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

    /// Returns the indices of the plan's tokens whose hidden states it needs.
    pub(crate) fn pooled_rows(&self, plan: &Plan) -> Range<usize> {
        match &self.task {
            Task::Generate(_) => 0..0,
            Task::Embed(pooler) => pooler.pooled_rows(plan),
        }
    }

    pub(crate) fn pool(&mut self, hidden: &[f32]) {
        if let Task::Embed(pooler) = &mut self.task {
            pooler.add(hidden);
        }
    }
}

fn send(events: &EventSender, event: Event) {
    // A closed channel is noticed before the next step.
    let _ = events.send((Instant::now(), event));
}
