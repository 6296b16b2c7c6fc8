//! Handle of the engine thread: submits requests and returns their events. The thread itself starts and ends in
//! `lifetime`; the limits of requests follow from the model (`facts`).

mod facts;
mod lifetime;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::mpsc::UnboundedSender;
use wf_model::Pooling;

use crate::disk::{Counters, DiskStats};
use crate::events::{Events, channel};
use crate::pooling::Pooler;
use crate::queue::Queue;
use crate::request::{EmbeddingRequest, Request, RequestError};
use crate::run::Message;
use crate::sequence::{Sequence, Submission};
use crate::stats::{Stats, StatsSnapshot};
use facts::ModelFacts;

/// Cloneable handle of the engine thread, which ends when the last handle is dropped.
#[derive(Clone)]
pub struct EngineHandle {
    inbox: UnboundedSender<Message>,
    facts: ModelFacts,
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
    /// Submits a request. The completion ends where the context does. With a window, one without a limit has as
    /// many tokens as the context.
    pub fn submit(&self, mut request: Request) -> Result<Events, RequestError> {
        let max_len = self.max_len_within(request.max_kv_tokens);
        request.check(max_len, self.facts.vocab_len)?;
        let decoder = request.decode.decoder(self.facts.capabilities)?;
        let limits = &mut request.limits;
        limits.max_tokens = self.facts.limited(limits.max_tokens, request.prompt.len(), max_len);
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
        request.check(self.max_len_within(request.max_kv_tokens), self.facts.vocab_len)?;
        let pooler = Pooler::new(pooling, request.tokens.len(), self.facts.capabilities)?;
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
        let max_pages = self.facts.max_pages;
        let sequence = sequence(Submission { max_pages, arrival, place, events });
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
