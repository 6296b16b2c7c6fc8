//! One running request.

use std::cmp::Reverse;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;
use wf_model::{PAGE_LEN, Segment, TokenId};

use crate::decode::{Decoder, Outcome, Plan, SeqView, decoder};
use crate::request::{Event, FinishReason, Limits, Logprobs, Request};
use crate::sample::Sampler;
use crate::store::{Held, PageStore};

/// Who goes first: higher priority, then who came first.
pub(crate) type Rank = (Reverse<i32>, u64);

/// One running request.
pub(crate) struct Sequence {
    rank: Rank,
    progress: Progress,
    held: Held,
    salt: u64,
    decoder: Box<dyn Decoder>,
    sampler: Sampler,
    limits: Limits,
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
    /// How many likeliest tokens to tell for each token of the prompt.
    prompt_logprobs: Option<usize>,
    /// Tokens of the prompt told of. That happens once, however often they are computed anew.
    prompt_told: usize,
}

impl Progress {
    fn view(&self) -> SeqView<'_> {
        SeqView {
            tokens: &self.tokens,
            prompt_len: self.prompt_len,
            kv_len: self.kv_len,
            prompt_logprobs: self.prompt_logprobs.filter(|_| self.prompt_told < self.prompt_len),
        }
    }

    /// The tokens whose K/V may come from the cache. The last one has to run for its scores, and so
    /// do those whose scores are to be told.
    fn cacheable(&self) -> &[TokenId] {
        match self.view().prompt_logprobs {
            Some(_) => &[],
            None => &self.tokens[..self.tokens.len() - 1],
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
        arrival: u64,
        events: UnboundedSender<(Instant, Event)>,
    ) -> Self {
        let sampler = Sampler::new(request.sampling, &request.limits, &request.prompt)
            .with_logprobs(request.logprobs);
        Self {
            rank: (Reverse(request.priority), arrival),
            progress: Progress {
                prompt_len: request.prompt.len(),
                tokens: request.prompt,
                kv_len: 0,
                prompt_logprobs: request.prompt_logprobs,
                // Nothing comes before the first one, so there is nothing to tell of it.
                prompt_told: 1,
            },
            held: Held::nothing(request.cache_salt),
            salt: request.cache_salt,
            decoder: decoder(request.decode),
            sampler,
            limits: request.limits,
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

    /// How many tokens are not yet in the pages.
    pub(crate) fn pending(&self) -> usize {
        self.progress.tokens.len() - self.progress.kv_len
    }

    /// Whether it was never started.
    pub(crate) fn is_new(&self) -> bool {
        !self.started
    }

    pub(crate) fn prompt_len(&self) -> usize {
        self.progress.prompt_len
    }

    /// Pages it needs beyond those the store has for it, to hold all its tokens and the next one.
    pub(crate) fn pages_to_go_on(&self, store: &PageStore) -> usize {
        let pages = (self.progress.tokens.len() + 1).div_ceil(PAGE_LEN);
        pages - store.matching(self.salt, self.progress.cacheable())
    }

    /// Whether `other` is about to compute a page that this one could then find.
    pub(crate) fn should_wait_for(&self, other: &Self, store: &PageStore) -> bool {
        let next = (store.matching(self.salt, self.progress.cacheable()) + 1) * PAGE_LEN;
        self.salt == other.salt
            && other.progress.kv_len < next
            && self.progress.cacheable().len() >= next
            && other.progress.tokens.len() >= next
            && self.progress.tokens[..next] == other.progress.tokens[..next]
    }

    /// Takes what the cache has of its K/V. Returns how many tokens that is.
    pub(crate) fn start(&mut self, store: &mut PageStore) -> usize {
        self.held = store.find(self.salt, self.progress.cacheable());
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
        store.release(std::mem::replace(&mut self.held, Held::nothing(self.salt)));
    }

    pub(crate) fn plan(&mut self, budget: usize) -> Plan {
        self.decoder.plan(self.progress.view(), budget)
    }

    pub(crate) fn segment<'a>(&'a self, plan: &'a Plan) -> Segment<'a> {
        let tells_prompt = self.progress.view().prompt_logprobs.is_some();
        Segment {
            tokens: &plan.tokens,
            start: plan.at,
            pages: self.held.pages(),
            sees: plan.sees,
            want: &plan.want,
            scoring: if tells_prompt { Default::default() } else { self.sampler.scoring() },
        }
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
        match self.decoder.absorb(self.progress.view(), plan, scores, &mut self.sampler) {
            Some(outcome) => self.apply(outcome),
            None => self.finish(FinishReason::NoFiniteScore),
        }
        store.share(&mut self.held, &self.progress.tokens[..self.progress.kv_len]);
        self.progress.tokens.len() - written
    }

    fn apply(&mut self, Outcome { keep, prompt, mut commit }: Outcome) {
        let untold = self.progress.untold(prompt);
        if !untold.is_empty() {
            self.send(Event::PromptLogprobs(untold));
        }
        self.progress.kv_len += keep;
        if commit.is_empty() {
            let (done, total) =
                (self.progress.kv_len.min(self.progress.prompt_len), self.progress.prompt_len);
            self.send(Event::Progress { done, total });
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
            _ if commit.len() >= room => {
                commit.truncate(room);
                Some(FinishReason::Length)
            }
            _ => None,
        };
        self.progress.tokens.extend(commit.iter().map(|picked| picked.token));
        if !commit.is_empty() {
            self.send(Event::Tokens(commit));
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
