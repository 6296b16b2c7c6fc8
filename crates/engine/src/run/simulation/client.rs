//! A caller of the simulated engine, which checks every event it receives.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::requests::Task;
use crate::events::Events;
use crate::output::{FinishReason, Logprobs, SampledToken};
use crate::request::Event;

/// Tokens and events that a request has returned so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) tokens: Vec<SampledToken>,
    prompt_logprobs: Vec<Logprobs>,
    embedding: Option<Vec<f32>>,
    pub(super) reason: Option<FinishReason>,
}

impl Answer {
    /// Returns `true` if it is `whole` up to some point.
    fn is_start_of(&self, whole: &Self) -> bool {
        let embedding_fits = self.embedding.is_none() || self.embedding == whole.embedding;
        whole.tokens.starts_with(&self.tokens)
            && whole.prompt_logprobs.starts_with(&self.prompt_logprobs)
            && embedding_fits
    }
}

pub(super) struct Client {
    pub(super) task: Task,
    expected: Answer,
    events: Events,
    pub(super) seen: Answer,
    /// Number of cached prompt tokens, once it has started.
    pub(super) cached: Option<usize>,
    /// True if no more events can come.
    pub(super) is_closed: bool,
}

impl Client {
    pub(super) fn new(task: Task, expected: Answer, events: Events) -> Self {
        let seen = Answer::default();
        Self { task, expected, events, seen, cached: None, is_closed: false }
    }

    /// Receives all events that have happened.
    pub(super) fn receive(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let next = pin!(self.events.next()).poll(&mut cx);
            match next {
                Poll::Pending => return,
                Poll::Ready(Some((_, event))) => self.take(event),
                Poll::Ready(None) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        assert!(self.seen.reason.is_none(), "{event:?} after the end of {:?}", self.task);
        let is_first = self.cached.is_none();
        let may_be_first = matches!(event, Event::Started { .. } | Event::Done(_));
        assert!(may_be_first || !is_first, "{event:?} before the start of {:?}", self.task);
        match event {
            Event::Started { cached } => {
                assert!(is_first && cached <= self.task.prompt_len(), "{:?}", self.task);
                self.cached = Some(cached);
            }
            Event::PromptLogprobs(more) => self.seen.prompt_logprobs.extend(more),
            Event::Progress { done, total } => assert!(done <= total),
            Event::Tokens { tokens, stats } => {
                assert!(stats.accepted <= stats.drafted);
                self.seen.tokens.extend(tokens);
            }
            Event::Preview(_) => {}
            Event::Embedding(vector) => {
                assert_eq!(self.seen.embedding, None);
                self.seen.embedding = Some(vector);
            }
            Event::Done(reason) => self.seen.reason = Some(reason),
        }
    }

    /// Checks that what it has received is what the request returns alone, up to a point if it did not end well.
    pub(super) fn check(&self) {
        let Self { seen, expected, task, .. } = self;
        let is_right = match seen.reason {
            None | Some(FinishReason::Failed | FinishReason::Deadline) => {
                seen.is_start_of(expected)
            }
            Some(_) => seen == expected,
        };
        assert!(is_right, "{task:?} returned\n{seen:?}\nand alone\n{expected:?}");
        let is_late = seen.reason == Some(FinishReason::Deadline);
        assert!(!is_late || task.is_late(), "{task:?} ended before its deadline");
    }
}
