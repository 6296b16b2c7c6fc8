//! One running request.

use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;
use wf_model::{PAGE_LEN, PageId, Segment, TokenId};

use crate::decode::{Decoder, Outcome, Plan, SeqView, decoder};
use crate::request::{Event, FinishReason, Limits, Request};
use crate::sample::Sampler;

/// One running request. Nine fields; a tenth needs a reason.
pub(crate) struct Sequence {
    tokens: Vec<TokenId>,
    prompt_len: usize,
    kv_len: usize,
    pages: Vec<PageId>,
    decoder: Box<dyn Decoder>,
    sampler: Sampler,
    limits: Limits,
    events: UnboundedSender<(Instant, Event)>,
    finished: bool,
}

impl Sequence {
    pub(crate) fn new(request: Request, events: UnboundedSender<(Instant, Event)>) -> Self {
        let sampler = Sampler::new(request.sampling, &request.limits, &request.prompt);
        Self {
            prompt_len: request.prompt.len(),
            tokens: request.prompt,
            kv_len: 0,
            pages: Vec::new(),
            decoder: decoder(request.decode),
            sampler,
            limits: request.limits,
            events,
            finished: false,
        }
    }

    /// Whether nothing more will come of it: it ended, or nobody listens any more.
    pub(crate) fn is_over(&self) -> bool {
        self.finished || self.events.is_closed()
    }

    /// How many tokens are not yet in the pages.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.kv_len
    }

    /// Pages that hold all its tokens and the next one.
    pub(crate) fn pages_to_go_on(&self) -> usize {
        (self.tokens.len() + 1).div_ceil(PAGE_LEN)
    }

    /// Pages that `plan` needs beyond those it holds.
    pub(crate) fn pages_lacking(&self, plan: &Plan) -> usize {
        (plan.at + plan.tokens.len()).div_ceil(PAGE_LEN).saturating_sub(self.pages.len())
    }

    pub(crate) fn pages_mut(&mut self) -> &mut Vec<PageId> {
        &mut self.pages
    }

    /// Gives its pages up. Its tokens stay, so running on computes the same K/V again.
    pub(crate) fn release(&mut self) -> Vec<PageId> {
        self.kv_len = 0;
        std::mem::take(&mut self.pages)
    }

    pub(crate) fn plan(&mut self, budget: usize) -> Plan {
        let view =
            SeqView { tokens: &self.tokens, prompt_len: self.prompt_len, kv_len: self.kv_len };
        self.decoder.plan(view, budget)
    }

    pub(crate) fn segment<'a>(&'a self, plan: &'a Plan) -> Segment<'a> {
        Segment {
            tokens: &plan.tokens,
            start: plan.at,
            pages: &self.pages,
            sees: plan.sees,
            want: &plan.want,
            scoring: self.sampler.scoring(),
        }
    }

    /// Takes in the scores of `plan` and tells the listener what became final.
    pub(crate) fn absorb(&mut self, plan: &Plan, scores: &mut [f32]) {
        let view =
            SeqView { tokens: &self.tokens, prompt_len: self.prompt_len, kv_len: self.kv_len };
        match self.decoder.absorb(view, plan, scores, &mut self.sampler) {
            Some(outcome) => self.apply(outcome),
            None => self.finish(FinishReason::NoFiniteScore),
        }
    }

    fn apply(&mut self, Outcome { keep, mut commit }: Outcome) {
        self.kv_len += keep;
        if commit.is_empty() {
            let (done, total) = (self.kv_len.min(self.prompt_len), self.prompt_len);
            self.send(Event::Progress { done, total });
            return;
        }
        let written = self.tokens.len() - self.prompt_len;
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
        self.tokens.extend(commit.iter().map(|picked| picked.token));
        self.send(Event::Tokens(commit));
        if let Some(reason) = reason {
            self.finish(reason);
        }
    }

    fn finish(&mut self, reason: FinishReason) {
        self.send(Event::Done(reason));
        self.finished = true;
    }

    fn send(&self, event: Event) {
        // A listener that went away is seen by `is_over` before the next step.
        let _ = self.events.send((Instant::now(), event));
    }
}
