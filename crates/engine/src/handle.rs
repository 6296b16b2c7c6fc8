//! Handle of the engine thread: submits requests and returns their events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wf_model::{BlockDiffusion, Forward, PAGE_LEN, Pooling};

use crate::decode::{Capabilities, DecodeMode, UnsupportedMode};
use crate::pooling::Pooler;
use crate::queue::Queue;
use crate::request::{EmbeddingRequest, Event, Request, RequestError};
use crate::run::{Engine, Message};
use crate::sequence::{Sequence, Submission};
use crate::stats::{Stats, StatsSnapshot};

/// Options of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Maximum number of sequences of a step; others wait.
    pub max_running: usize,
    /// Maximum number of waiting requests; more are rejected.
    pub max_waiting: usize,
    /// Maximum number of tokens of prompt and completion; limited by the model and its pages if absent.
    pub context_len: Option<usize>,
    /// Block layout, if not the one of the model's file.
    pub blocks: Option<BlockDiffusion>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { max_running: 16, max_waiting: 512, context_len: None, blocks: None }
    }
}

/// Cloneable handle of the engine thread, which ends when the last handle is dropped.
#[derive(Clone)]
pub struct EngineHandle {
    inbox: UnboundedSender<Message>,
    context_len: usize,
    vocab_len: usize,
    hidden_len: usize,
    capabilities: Capabilities,
    pages: usize,
    queue: Arc<Queue>,
    stats: Arc<Stats>,
    arrivals: Arc<AtomicU64>,
}

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineHandle").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// Events of a request. Dropping it cancels the request within one step.
pub struct Events {
    receiver: UnboundedReceiver<(Instant, Event)>,
}

impl Events {
    /// Blocks until the next event. Returns `None` after `Done`, or if the engine died.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.next_with_time().map(|(_, event)| event)
    }

    /// Waits for the next event and the time it happened. Returns `None` after `Done`, or if the engine died.
    pub async fn next(&mut self) -> Option<(Instant, Event)> {
        self.receiver.recv().await
    }

    /// Blocks until the next event and returns the time it happened, which may lie in the past if the
    /// reader is late. Returns `None` after `Done`, or if the engine died.
    pub fn next_with_time(&mut self) -> Option<(Instant, Event)> {
        self.receiver.blocking_recv()
    }
}

impl EngineHandle {
    /// Starts an engine thread that owns `model`.
    pub fn start(model: impl Forward + 'static, options: EngineOptions) -> std::io::Result<Self> {
        Self::start_with_draft(model, None, options)
    }

    /// Starts an engine thread with a draft model, which has the same tokenizer as `model`.
    pub fn start_with_draft(
        model: impl Forward + 'static,
        draft: Option<Box<dyn Forward>>,
        options: EngineOptions,
    ) -> std::io::Result<Self> {
        let (inbox, receiver) = unbounded_channel();
        let (network, info) = (model.network(), model.info());
        let context_len = info.context_len.min(model.pages() * PAGE_LEN);
        let handle = Self {
            inbox,
            context_len: options.context_len.map_or(context_len, |len| len.min(context_len)),
            vocab_len: network.vocab_len,
            hidden_len: network.hidden_len,
            capabilities: Capabilities {
                blocks: options.blocks.or(info.block_diffusion),
                draft_model: draft.is_some(),
                max_batch_tokens: model.max_batch_tokens(),
            },
            pages: model.pages(),
            queue: Arc::new(Queue::new(options.max_waiting)),
            stats: Arc::new(Stats::new(model.pages())),
            arrivals: Arc::default(),
        };
        let stats = Arc::clone(&handle.stats);
        let engine = Engine::new(model, draft, receiver, options.max_running, stats);
        thread::Builder::new().name("wf-engine".into()).spawn(move || engine.run())?;
        Ok(handle)
    }

    /// Returns the size of the vocabulary.
    pub fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    /// Returns the length of a hidden state.
    pub fn hidden_len(&self) -> usize {
        self.hidden_len
    }

    /// Returns the capabilities of the model.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Checks that the model supports a decoding mode.
    ///
    /// # Errors
    ///
    /// If the model does not support the mode or one of its parameters.
    pub fn check_mode(&self, mode: DecodeMode) -> Result<(), UnsupportedMode> {
        mode.decoder(self.capabilities).map(drop)
    }

    /// Returns the number of tokens that the K/V cache holds.
    pub fn kv_tokens(&self) -> usize {
        self.pages * PAGE_LEN
    }

    /// Returns the maximum number of tokens of prompt and completion.
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// Submits a request. The completion ends where the context does.
    pub fn submit(&self, mut request: Request) -> Result<Events, RequestError> {
        request.check(self.context_len, self.vocab_len)?;
        let decoder = request.decode.decoder(self.capabilities)?;
        let room = request.room(self.context_len) - request.prompt.len();
        request.limits.max_tokens = request.limits.max_tokens.min(room);
        let len = self.context_len;
        let caller = request.origin.caller;
        self.send(caller, |submission| Sequence::generate(request, decoder, len, submission))
    }

    /// Submits a text to embed. Truncating and normalising the vector is up to the caller.
    pub fn embed(
        &self,
        pooling: Pooling,
        request: EmbeddingRequest,
    ) -> Result<Events, RequestError> {
        request.check(self.context_len, self.vocab_len)?;
        let pooler = Pooler::new(pooling, request.tokens.len(), self.capabilities)?;
        let len = self.context_len;
        let caller = request.origin.caller;
        self.send(caller, |submission| Sequence::embed(request, pooler, len, submission))
    }

    /// Checks that the queue has room for `count` sequences of one request.
    ///
    /// # Errors
    ///
    /// If it is too full, or if so many would not even fit an empty queue.
    pub fn check_queue(&self, caller: u64, count: usize) -> Result<(), RequestError> {
        let limit = self.queue.max_waiting();
        if count > limit {
            return Err(RequestError::TooManySequences { count, limit });
        }
        match self.queue.has_room(caller, count) {
            true => Ok(()),
            false => Err(RequestError::QueueFull { waiting: self.queue.len() }),
        }
    }

    fn send(
        &self,
        caller: u64,
        sequence: impl FnOnce(Submission) -> Sequence,
    ) -> Result<Events, RequestError> {
        let full = || RequestError::QueueFull { waiting: self.queue.len() };
        let place = self.queue.enter(caller).ok_or_else(full)?;
        let (events, receiver) = unbounded_channel();
        let arrival = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let sequence = sequence(Submission { arrival, place, events });
        let sent = self.inbox.send(Message::Run(Box::new(sequence)));
        sent.map_err(|_| RequestError::EngineStopped)?;
        Ok(Events { receiver })
    }

    /// Returns a snapshot of the engine's counters.
    pub fn stats(&self) -> StatsSnapshot {
        StatsSnapshot { waiting: self.queue.len(), ..*self.stats.lock() }
    }

    /// Evicts the prefix cache before the next step.
    pub fn flush_cache(&self) {
        // A stopped engine caches nothing.
        let _ = self.inbox.send(Message::FlushCache);
    }
}
