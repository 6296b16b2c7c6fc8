//! One running request.

use std::cmp::Reverse;
use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use wf_model::{PAGE_LEN, Scoring, Sees, Segment, TokenId};

use crate::decode::{Decoder, Need, Outcome, Plan, SeqView};
use crate::drafter::Ask;
use crate::prefix::Tree;
use crate::request::{Event, FinishReason, Limits, Logprobs, Request, Work};
use crate::sample::Sampler;
use crate::store::{Held, PageStore};

/// Who goes first: higher priority, then who came first.
pub(crate) type Rank = (Reverse<i32>, u64);

/// A sequence may use this part of everyone's time for its grammar.
const GRAMMAR_PART: u32 = 20;

/// One running request.
pub(crate) struct Sequence {
    rank: Rank,
    progress: Progress,
    held: Held,
    tree: Tree,
    decoder: Box<dyn Decoder>,
    sampler: Sampler,
    limits: Limits,
    work: Work,
    /// Time that its grammar took from others, until it has waited long enough for that.
    debt: Duration,
    events: UnboundedSender<(Instant, Event)>,
    started: bool,
    finished: bool,
}

/// How far a sequence has come.
struct Progress {
    tokens: Vec<TokenId>,
    prompt_len: usize,
    /// How many of the tokens have their K/V in the pages.
    kv_len: usize,
    /// The most tokens that there can come to be.
    most: usize,
    context_len: usize,
    /// How many likeliest tokens to tell for each token of the prompt.
    prompt_logprobs: Option<usize>,
    /// Tokens of the prompt told of. That happens once, however often they are computed anew.
    prompt_told: usize,
    /// Whether every token has to run, also those whose K/V others have computed.
    runs_all: bool,
}

impl Progress {
    fn view(&self) -> SeqView<'_> {
        SeqView {
            tokens: &self.tokens,
            prompt_len: self.prompt_len,
            kv_len: self.kv_len,
            most: self.most,
            context_len: self.context_len,
            prompt_logprobs: self.prompt_logprobs.filter(|_| self.prompt_told < self.prompt_len),
        }
    }

    /// The tokens whose K/V may come from the cache. The last one has to run for its scores, and so
    /// do those whose scores are to be told.
    fn cacheable(&self) -> &[TokenId] {
        match self.view().prompt_logprobs {
            None if !self.runs_all => &self.tokens[..self.tokens.len() - 1],
            _ => &[],
        }
    }

    /// Of the tokens after `kv_len`, what was not told before.
    fn untold(&mut self, mut logprobs: Vec<Logprobs>) -> Vec<Logprobs> {
        let known = self.prompt_told.saturating_sub(self.kv_len + 1);
        logprobs.drain(..known.min(logprobs.len()));
        self.prompt_told += logprobs.len();
        logprobs
    }
}

impl Sequence {
    /// `arrival` grows from request to request.
    pub(crate) fn new(
        request: Request,
        decoder: Box<dyn Decoder>,
        context_len: usize,
        arrival: u64,
        events: UnboundedSender<(Instant, Event)>,
    ) -> Self {
        let sampler = Sampler::new(request.sampling, &request.limits, &request.prompt)
            .with_logprobs(request.logprobs)
            .with_grammar(request.grammar.as_ref());
        let tree = Tree { salt: request.cache_salt, sees: decoder.context() };
        Self {
            rank: (Reverse(request.priority), arrival),
            progress: Progress {
                prompt_len: request.prompt.len(),
                most: request.prompt.len() + request.limits.max_tokens,
                tokens: request.prompt,
                kv_len: 0,
                context_len,
                prompt_logprobs: request.prompt_logprobs,
                // Nothing comes before the first one, so there is nothing to tell of it.
                prompt_told: 1,
                runs_all: decoder.runs_all(),
            },
            held: Held::nothing(tree),
            tree,
            decoder,
            sampler,
            limits: request.limits,
            work: Work::default(),
            debt: Duration::ZERO,
            events,
            started: false,
            finished: false,
        }
    }

    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether it ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Ends it if its time is up.
    pub(crate) fn check_deadline(&mut self, now: Instant) {
        if !self.finished && self.limits.deadline.is_some_and(|deadline| deadline <= now) {
            self.finish(FinishReason::Deadline);
        }
    }

    /// How much of the next step it can use.
    pub(crate) fn need(&self) -> Need {
        self.decoder.need(self.progress.view())
    }

    /// What its tokens took so far.
    pub(crate) fn work(&self) -> Work {
        self.work
    }

    /// Whether it was never started.
    pub(crate) fn is_new(&self) -> bool {
        !self.started
    }

    pub(crate) fn prompt_len(&self) -> usize {
        self.progress.prompt_len
    }

    /// Pages it needs beyond those the store has for it, to hold all its tokens and the next one,
    /// if there is to be a next one.
    pub(crate) fn pages_to_go_on(&self, store: &PageStore) -> usize {
        let tokens = (self.progress.tokens.len() + 1).min(self.progress.most);
        let pages = tokens.div_ceil(PAGE_LEN);
        pages - store.matching(self.tree, self.progress.cacheable())
    }

    /// Whether `other` is about to compute a page that this one could then find.
    pub(crate) fn should_wait_for(&self, other: &Self, store: &PageStore) -> bool {
        let next = (store.matching(self.tree, self.progress.cacheable()) + 1) * PAGE_LEN;
        self.tree == other.tree
            && other.progress.kv_len < next
            && self.progress.cacheable().len() >= next
            && other.progress.tokens.len() >= next
            && self.progress.tokens[..next] == other.progress.tokens[..next]
    }

    /// Takes what the cache has of its K/V. Returns how many tokens that is.
    pub(crate) fn start(&mut self, store: &mut PageStore) -> usize {
        self.held = store.find(self.tree, self.progress.cacheable());
        self.progress.kv_len = self.held.pages().len() * PAGE_LEN;
        let cached = self.progress.kv_len.min(self.progress.prompt_len);
        if !self.started {
            self.started = true;
            self.send(Event::Started { cached });
        }
        cached
    }

    /// Takes the pages that `plan` needs beyond those it has, all or nothing.
    pub(crate) fn make_room(&mut self, plan: &Plan, store: &mut PageStore) -> bool {
        let needed = (plan.at + plan.tokens.len()).div_ceil(PAGE_LEN);
        let lacking = needed.saturating_sub(self.held.pages().len());
        store.grow(&mut self.held, lacking)
    }

    /// Gives its pages up. Its tokens stay, so running on computes the same K/V again.
    pub(crate) fn release(&mut self, store: &mut PageStore) {
        self.progress.kv_len = 0;
        self.decoder.forget_pages();
        store.release(std::mem::replace(&mut self.held, Held::nothing(self.tree)));
    }

    /// What it asks of a draft model, if it uses one.
    pub(crate) fn ask(&mut self) -> Option<Ask<'_>> {
        let len = self.decoder.guesses_wanted(self.progress.view())?;
        let Progress { tokens, prompt_len, .. } = &self.progress;
        let (rank, tree, prompt_len) = (self.rank, self.tree, *prompt_len);
        Some(Ask { rank, tree, tokens, prompt_len, len, sampler: &mut self.sampler })
    }

    pub(crate) fn take_guesses(&mut self, guesses: Vec<TokenId>) {
        self.decoder.take_guesses(self.progress.view(), guesses);
    }

    pub(crate) fn plan(&mut self, budget: usize) -> Plan {
        self.decoder.plan(self.progress.view(), budget)
    }

    /// Whether it is to let others go first, because its grammar takes long. That costs it time and changes
    /// nothing else: no answer depends on who else is in a step.
    pub(crate) fn is_in_debt(&self) -> bool {
        !self.debt.is_zero()
    }

    /// It has waited long enough.
    pub(crate) fn forgive(&mut self) {
        self.debt = Duration::ZERO;
    }

    /// A step of this length has gone by.
    pub(crate) fn pay(&mut self, step: Duration) {
        self.debt += self.sampler.take_spent();
        self.debt = self.debt.saturating_sub(step / GRAMMAR_PART);
    }

    /// Finds out what the pick of a plan may be, if it has one alone and a grammar decides on it. What may
    /// follow guesses is found out when they have turned out right, as it would be without them.
    pub(crate) fn look_ahead(&mut self, plan: &Plan, vocab_len: usize) {
        if self.picks_alone(plan) {
            self.sampler.look_ahead(vocab_len);
        }
    }

    fn picks_alone(&self, plan: &Plan) -> bool {
        plan.want.len() == 1 && plan.scoring.is_none() && !self.tells_prompt()
    }

    fn tells_prompt(&self) -> bool {
        self.progress.view().prompt_logprobs.is_some()
    }

    pub(crate) fn segment<'a>(&'a self, plan: &'a Plan) -> Segment<'a> {
        let alone = self.picks_alone(plan);
        Segment {
            tokens: &plan.tokens,
            start: plan.at,
            pages: self.held.pages(),
            sees: plan.sees,
            want: &plan.want,
            scoring: match plan.scoring {
                Some(scoring) => scoring,
                None if self.tells_prompt() => Scoring::All,
                None => self.sampler.scoring(plan.want.len()),
            },
            allowed: if alone { self.sampler.allowed() } else { &[] },
        }
    }

    /// Which tokens of `plan` it wants the hidden states of.
    pub(crate) fn pooled(&self, plan: &Plan) -> Range<usize> {
        self.decoder.pooled(plan)
    }

    /// Takes in the hidden state of one of them, in order.
    pub(crate) fn pool(&mut self, hidden: &[f32]) {
        self.decoder.pool(hidden);
    }

    /// Takes in the scores of `plan`, tells the listener what became final, and lets others find the
    /// pages that are full. Returns how many tokens were written.
    pub(crate) fn absorb(
        &mut self,
        plan: &Plan,
        scores: &mut [f32],
        store: &mut PageStore,
    ) -> usize {
        let written = self.progress.tokens.len();
        let writes = self.progress.most > self.progress.prompt_len;
        if writes && plan.at + plan.tokens.len() >= self.progress.prompt_len {
            self.work.passes += 1;
            self.work.rows += plan.tokens.len();
        }
        match self.decoder.absorb(self.progress.view(), plan, scores, &mut self.sampler) {
            Some(outcome) => self.apply(outcome),
            None => self.finish(self.sampler.why_no_pick()),
        }
        if self.shares_pages() {
            store.share(&mut self.held, &self.progress.tokens[..self.progress.kv_len]);
        }
        self.progress.tokens.len() - written
    }

    /// Whether others may find its pages: a page must hold whole blocks, or what it holds depends on
    /// tokens that are not in it.
    fn shares_pages(&self) -> bool {
        match self.tree.sees {
            Sees::Block(len) => PAGE_LEN.is_multiple_of(len),
            Sees::Causal | Sees::Until(_) => true,
        }
    }

    fn apply(&mut self, outcome: Outcome) {
        let Outcome { keep, prompt, mut commit, drafted, agreed, preview, embedding } = outcome;
        self.work.drafted += drafted;
        self.work.agreed += agreed;
        let untold = self.progress.untold(prompt);
        if !untold.is_empty() {
            self.send(Event::PromptLogprobs(untold));
        }
        if !preview.is_empty() {
            self.send(Event::Preview(preview));
        }
        let total = self.progress.prompt_len;
        let was_reading = self.progress.kv_len < total;
        self.progress.kv_len += keep;
        if let Some(embedding) = embedding {
            self.send(Event::Embedding(embedding));
            return self.finish(FinishReason::Stop);
        }
        if commit.is_empty() {
            if was_reading && keep > 0 {
                self.send(Event::Progress { done: self.progress.kv_len.min(total), total });
            }
            return;
        }
        let written = self.progress.tokens.len() - self.progress.prompt_len;
        let is_stop = |token| self.limits.stop_tokens.contains(&token);
        let stop = commit.iter().position(|picked| is_stop(picked.token));
        let room = self.limits.max_tokens - written;
        let reason = match stop {
            Some(at) if at < room => {
                commit.truncate(at + 1);
                Some(FinishReason::Stop)
            }
            _ if commit.len() <= room && self.sampler.is_complete() => Some(FinishReason::Stop),
            _ if commit.len() >= room => {
                commit.truncate(room);
                Some(FinishReason::Length)
            }
            _ => None,
        };
        self.progress.tokens.extend(commit.iter().map(|picked| picked.token));
        if !commit.is_empty() {
            self.send(Event::Tokens { picked: commit, work: self.work });
        }
        if let Some(reason) = reason {
            self.finish(reason);
        }
    }

    /// Ends it.
    pub(crate) fn finish(&mut self, reason: FinishReason) {
        self.send(Event::Done(reason));
        self.finished = true;
    }

    fn send(&self, event: Event) {
        // A listener that went away is seen before the next step.
        let _ = self.events.send((Instant::now(), event));
    }
}
