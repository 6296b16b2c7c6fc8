//! Start and end of the engine thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc::unbounded_channel;
use wf_model::Forward;

use super::EngineHandle;
use super::facts::ModelFacts;
use crate::disk::DiskCache;
use crate::options::EngineOptions;
use crate::queue::Queue;
use crate::run::Engine;
use crate::stats::Stats;

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
        let handle = Self {
            inbox,
            facts: ModelFacts::new(&model, draft.is_some(), &options),
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
}
