//! Handle of the engine thread: submits requests and returns their events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use wf_model::{AttentionMode, Forward, PAGE_LEN, Pooling};

use crate::decode::{Capabilities, DecodeMode, UnsupportedMode};
use crate::disk::{Counters, DiskCache, DiskStats};
use crate::events::{Events, channel};
use crate::options::EngineOptions;
use crate::parameters;
use crate::pooling::Pooler;
use crate::prefix::window_pages;
use crate::queue::Queue;
use crate::request::{EmbeddingRequest, Request, RequestError};
use crate::run::{Engine, Message};
use crate::sequence::{Sequence, Submission};
use crate::stats::{Stats, StatsSnapshot};

/// Cloneable handle of the engine thread, which ends when the last handle is dropped.
#[derive(Clone)]
pub struct EngineHandle {
    inbox: UnboundedSender<Message>,
    context_len: usize,
    attention: AttentionMode,
    /// Maximum number of pages that a sequence holds at once.
    max_pages: usize,
    vocab_len: usize,
    hidden_len: usize,
    parameters: u64,
    capabilities: Capabilities,
    pages: usize,
    queue: Arc<Queue>,
    stats: Arc<Stats>,
    /// Counters of the prefix cache on disk, if there is one.
    disk: Option<Arc<Counters>>,
    arrivals: Arc<AtomicU64>,
    /// Taken by the one who waits for its end.
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineHandle").field("stats", &self.stats()).finish_non_exhaustive()
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
        Self::start_with_disk(model, draft, None, options)
    }

    /// Starts an engine thread that keeps pages on disk.
    pub(crate) fn start_with_disk(
        model: impl Forward + 'static,
        draft: Option<Box<dyn Forward>>,
        disk: Option<DiskCache>,
        options: EngineOptions,
    ) -> std::io::Result<Self> {
        let (mut handle, mut engine) = Self::create(model, draft, options);
        if let Some(disk) = disk {
            handle.disk = Some(disk.counters());
            engine.keep_pages(disk);
        }
        let thread = thread::Builder::new().name("wf-engine".into());
        let thread = thread.spawn(move || engine.run())?;
        Ok(Self { thread: Arc::new(Mutex::new(Some(thread))), ..handle })
    }

    /// Gives this handle up and waits until the engine has ended, and its memory is free. It ends with the last
    /// of its handles.
    pub fn close(self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(self);
        // A panic of the engine has been reported when it happened.
        let _ = thread.map(JoinHandle::join);
    }

    /// Creates an engine that does not run yet.
    pub(crate) fn create<F: Forward>(
        model: F,
        draft: Option<Box<dyn Forward>>,
        options: EngineOptions,
    ) -> (Self, Engine<F>) {
        let (inbox, receiver) = unbounded_channel();
        let (network, info) = (model.network(), model.info());
        let (window, in_pages) = (model.attention().window(), model.pages() * PAGE_LEN);
        // Pages are for a part of a sequence that a window slides over.
        let in_pages = if window.is_some() { usize::MAX } else { in_pages };
        let context_len = info.context_len.min(in_pages);
        let handle = Self {
            inbox,
            context_len: options.context_len.map_or(context_len, |len| len.min(context_len)),
            attention: model.attention(),
            max_pages: model
                .attention()
                .window()
                .map_or(usize::MAX, |window| window_pages(window, model.max_batch_tokens())),
            vocab_len: network.vocab_len,
            hidden_len: network.hidden_len,
            parameters: parameters::count(network),
            capabilities: Capabilities {
                blocks: options.blocks.or(info.block_diffusion),
                draft_model: draft.is_some(),
                mtp: network.mtp.is_some(),
                max_batch_tokens: model.max_batch_tokens(),
                recurrent: network.is_recurrent(),
                window,
            },
            pages: model.pages(),
            queue: Arc::new(Queue::new(options.max_waiting)),
            stats: Arc::new(Stats::new(model.pages())),
            disk: None,
            arrivals: Arc::default(),
            thread: Arc::default(),
        };
        let stats = Arc::clone(&handle.stats);
        let inbox = (handle.inbox.downgrade(), receiver);
        let engine = Engine::new(model, draft, inbox, options.max_running, stats);
        (handle, engine)
    }

    /// Returns the size of the vocabulary.
    pub fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    /// Returns the length of a hidden state.
    pub fn hidden_len(&self) -> usize {
        self.hidden_len
    }

    /// Returns the number of parameters of the model.
    pub fn parameters(&self) -> u64 {
        self.parameters
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

    /// Returns the number of tokens of the context: the most that attention reads.
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// Returns the positions that attention reads.
    pub fn attention(&self) -> AttentionMode {
        self.attention
    }

    /// Returns the maximum number of tokens of prompt and completion: the context, unless a window slides over
    /// more.
    pub fn max_len(&self) -> usize {
        self.attention.max_len(self.context_len)
    }

    /// Returns the maximum number of tokens of prompt and completion of a caller with at most `max_kv_tokens` in
    /// the K/V cache. A window that fits into these slides over any number.
    pub fn max_len_within(&self, max_kv_tokens: Option<usize>) -> usize {
        let fits = |max: usize| self.attention.window().is_some_and(|w| max >= w.positions());
        let limit = max_kv_tokens.filter(|max| !fits(*max));
        limit.map_or(self.max_len(), |max| max.min(self.max_len()))
    }

    /// Submits a request. The completion ends where the context does. With a window, one without a limit has as
    /// many tokens as the context.
    pub fn submit(&self, mut request: Request) -> Result<Events, RequestError> {
        let max_len = self.max_len_within(request.max_kv_tokens);
        request.check(max_len, self.vocab_len)?;
        let decoder = request.decode.decoder(self.capabilities)?;
        let has_limit = request.limits.max_tokens < usize::MAX || self.attention.window().is_none();
        let room = max_len - request.prompt.len();
        let room = if has_limit { room } else { room.min(self.context_len) };
        request.limits.max_tokens = request.limits.max_tokens.min(room);
        let len = self.max_len();
        let caller = request.origin.caller;
        self.send(caller, |submission| Sequence::generate(request, decoder, len, submission))
    }

    /// Submits a text to embed. Truncating and normalising the vector is up to the caller.
    pub fn embed(
        &self,
        pooling: Pooling,
        request: EmbeddingRequest,
    ) -> Result<Events, RequestError> {
        request.check(self.max_len_within(request.max_kv_tokens), self.vocab_len)?;
        let pooler = Pooler::new(pooling, request.tokens.len(), self.capabilities)?;
        let len = self.max_len();
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
        let (events, reader) = channel();
        let arrival = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let sequence = sequence(Submission { max_pages: self.max_pages, arrival, place, events });
        let sent = self.inbox.send(Message::Run(Box::new(sequence)));
        sent.map_err(|_| RequestError::EngineStopped)?;
        Ok(reader)
    }

    /// Returns a snapshot of the engine's counters.
    pub fn stats(&self) -> StatsSnapshot {
        let disk = self.disk.as_ref().map_or_else(DiskStats::default, |disk| disk.snapshot());
        StatsSnapshot { waiting: self.queue.len(), disk, ..*self.stats.lock() }
    }

    /// Evicts the prefix cache, also that on disk, before the next step.
    pub fn flush_cache(&self) {
        // A stopped engine caches nothing.
        let _ = self.inbox.send(Message::FlushCache);
    }
}
