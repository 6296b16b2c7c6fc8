//! The way to the engine thread: submit a request, read its events.

use std::thread;
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wf_model::{Forward, PAGE_LEN, TokenId};

use crate::request::{Event, Refused, Request};
use crate::run::Engine;
use crate::sequence::Sequence;

/// How an engine behaves.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// The most sequences that run at once; others wait.
    pub max_running: usize,
    /// The most tokens of prompt and reply; what the model and its pages allow if there is none.
    pub context_len: Option<usize>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { max_running: 16, context_len: None }
    }
}

/// A cheap, cloneable way to reach the engine thread, which ends when the last handle is gone.
#[derive(Clone)]
pub struct EngineHandle {
    inbox: UnboundedSender<Sequence>,
    context_len: usize,
    vocab_len: usize,
}

/// What becomes of a request. Dropping it cancels the request within one step.
pub struct Events {
    receiver: UnboundedReceiver<(Instant, Event)>,
}

impl Events {
    /// The next event, waiting for it; nothing after `Done`, or if the engine died.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.next_with_time().map(|(_, event)| event)
    }

    /// As `next_blocking`, with the time it happened: a reader may be late.
    pub(crate) fn next_with_time(&mut self) -> Option<(Instant, Event)> {
        self.receiver.blocking_recv()
    }
}

impl EngineHandle {
    /// Starts an engine thread that owns `model`.
    pub fn start(model: impl Forward + 'static, options: EngineOptions) -> std::io::Result<Self> {
        let (inbox, receiver) = unbounded_channel();
        let config = model.config();
        let context_len = config.context_len.min(model.pages() * PAGE_LEN);
        let handle = Self {
            inbox,
            context_len: options.context_len.map_or(context_len, |len| len.min(context_len)),
            vocab_len: config.vocab_len,
        };
        let engine = Engine::new(model, receiver, options.max_running);
        thread::Builder::new().name("wf-engine".into()).spawn(move || engine.run())?;
        Ok(handle)
    }

    /// The most tokens that prompt and reply may have together.
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// Hands a request in, or says why not. A reply ends where the context does.
    pub fn submit(&self, mut request: Request) -> Result<Events, Refused> {
        self.check(&request)?;
        let room = self.context_len - request.prompt.len();
        request.limits.max_tokens = request.limits.max_tokens.min(room);
        let (events, receiver) = unbounded_channel();
        let sequence = Sequence::new(request, events);
        self.inbox.send(sequence).map_err(|_| Refused::Stopped)?;
        Ok(Events { receiver })
    }

    fn check(&self, request: &Request) -> Result<(), Refused> {
        let (tokens, limit) = (request.prompt.len(), self.context_len);
        if tokens == 0 {
            return Err(Refused::EmptyPrompt);
        }
        if tokens >= limit {
            return Err(Refused::TooLong { tokens, limit });
        }
        if request.limits.max_tokens == 0 {
            return Err(Refused::NothingToWrite);
        }
        let stops = &request.limits.stop_tokens;
        let known = |token: TokenId| (token as usize) < self.vocab_len;
        if let Some(&token) = request.prompt.iter().chain(stops).find(|&&token| !known(token)) {
            return Err(Refused::UnknownToken { token, last: self.vocab_len as TokenId - 1 });
        }
        Ok(request.sampling.check(self.vocab_len)?)
    }
}
