//! One request inside the engine: its tokens, its pages, and its task.
//!
//! Here is what every request does, in order: it starts, plans, allocates pages, runs as a segment, and absorbs the
//! results. What it needs of the pages that others use is in `pages` and `claims`; `disk` and `states` are for
//! the prefix cache on disk and for recurrent layers.

mod claims;
mod disk;
mod embed;
mod pages;
mod states;

use std::time::Instant;

use wf_model::{PAGE_LEN, PageId, Segment, TokenId, Visibility};

use crate::decode::{Decoder, Plan, Rows, SeqState};
use crate::disk::Trail;
use crate::events::EventSender;
use crate::generation::Generation;
use crate::output::FinishReason;
use crate::prefix::Tree;
use crate::queue::Place;
use crate::request::{Event, Request};
use crate::schedule::{Origin, Rank};
use crate::store::{Held, PageStore};
use crate::task::Task;
#[cfg(test)]
pub(crate) use claims::OVERDUE;

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

    /// Allocates the pages that `plan` needs, all or nothing.
    pub(crate) fn allocate(&mut self, plan: &Plan, store: &mut PageStore) -> bool {
        let needed = (plan.start + plan.tokens.len()).div_ceil(PAGE_LEN);
        let missing = needed.saturating_sub(self.held.pages().len());
        let is_granted = store.grow(&mut self.held, missing);
        self.missing_pages = if is_granted { 0 } else { missing };
        is_granted
    }

    /// Plans at most `budget` tokens, of which at most `drafts` may not be kept.
    pub(crate) fn plan(&mut self, budget: usize, drafts: usize) -> Plan {
        let certain = self.state.tokens.len() - self.state.kv_len;
        let budget = budget.min(certain.saturating_add(drafts));
        // A snapshot is taken at the end of a plan.
        let limit = PageStore::run_limit(&self.held, self.state.kv_len, self.state.prompt_len);
        self.task.plan(&self.state, limit.map_or(budget, |limit| limit.min(budget)))
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
}
