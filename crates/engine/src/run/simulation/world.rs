//! One simulated run: an engine and its callers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wf_model::Window;

use super::client::Client;
use super::fake::FakeModel;
use super::faulty::{Faulty, Incidents};
use super::random::Random;
use super::report::Report;
use super::requests::{BLOCKS, Task, VOCAB, task};
use super::{MAX_TURNS, take_turns};
use crate::clock;
use crate::handle::EngineHandle;
use crate::options::EngineOptions;
use crate::output::FinishReason;
use crate::prefix::window_pages;
use crate::request::RequestError;
use crate::run::Engine;

/// Context of sequences that see their tokens through a window.
const SLIDING_CONTEXT: usize = 300;

/// Number of turns in which requests arrive.
const TURNS: usize = 120;

pub(super) struct World {
    random: Random,
    handle: EngineHandle,
    engine: Engine<Faulty>,
    clients: Vec<Client>,
    incidents: Arc<Incidents>,
    submitted: u64,
    report: Report,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self::create(seed, None)
    }

    /// Creates one whose sequences see their tokens through a window, over completions beyond the context.
    pub(super) fn sliding(seed: u64) -> Self {
        Self::create(seed, Some(Window { len: 40, sinks: 5 }))
    }

    fn create(seed: u64, window: Option<Window>) -> Self {
        clock::stop();
        let mut random = Random::new(seed, 0);
        let incidents = Arc::new(Incidents::default());
        // Some runs have no panics, so that long requests come to their end.
        let rarity = random.pick(&[30, 200, usize::MAX >> 1]);
        let (fills_masks, has_draft) = (random.once_in(2), random.once_in(2));
        let faulty = |stream, pages, rows| {
            let model = FakeModel::new(VOCAB, pages, rows);
            let model = if fills_masks { model.with_blocks(BLOCKS) } else { model };
            let model = match window {
                Some(window) => model.with_window(window),
                None => model,
            };
            Faulty::new(model, Random::new(seed, stream), rarity, Arc::clone(&incidents))
        };
        let (pages, rows) = (random.between(4, 32), random.pick(&[1, 3, 8, 16, 64, 256]));
        let pages = window.map_or(pages, |window| window_pages(window, rows) + pages / 8);
        let model = faulty(1, pages, rows);
        let draft = faulty(2, random.between(2, 32), random.pick(&[2, 16, 64]));
        let draft = has_draft.then(|| Box::new(draft) as Box<_>);
        let options = EngineOptions {
            max_running: random.between(1, 8),
            max_waiting: random.between(2, 24),
            context_len: window.map(|_| SLIDING_CONTEXT),
            ..EngineOptions::default()
        };
        let (handle, engine) = EngineHandle::create(model, draft, options);
        let (clients, report) = (Vec::new(), Report::default());
        Self { random, handle, engine, clients, incidents, submitted: 0, report }
    }

    pub(super) fn run(mut self) -> Report {
        for _ in 0..TURNS {
            self.act();
            self.turn();
        }
        take_turns(&mut self.engine, MAX_TURNS);
        assert!(!self.engine.has_work(), "no rest: {:?}", self.handle.stats());
        self.end_all();
        self.check_counters();
        self.check_pages();
        self.check_that_it_goes_on();
        self.report
    }

    fn turn(&mut self) {
        take_turns(&mut self.engine, 1);
        let stats = self.handle.stats();
        assert!(stats.pages_in_use + stats.cached_pages <= stats.pages, "{stats:?}");
    }

    /// Does what callers do between two steps. Some of them never read before the end.
    fn act(&mut self) {
        let arrivals = match self.random.between(0, 19) {
            0..12 => 0,
            12..19 => 1,
            _ => self.random.between(5, 40),
        };
        (0..arrivals).for_each(|_| self.submit());
        if self.random.once_in(8) && !self.clients.is_empty() {
            let at = self.random.between(0, self.clients.len() - 1);
            self.cancel(at);
        }
        if self.random.once_in(3) {
            self.clients.iter_mut().step_by(2).for_each(Client::receive);
        }
        if self.random.once_in(40) {
            self.handle.flush_cache();
        }
    }

    fn submit(&mut self) {
        self.submitted += 1;
        let task = task(&mut self.random, &self.handle, self.submitted);
        match task.submit(&self.handle) {
            Ok(events) => {
                let expected = task.alone(&self.handle);
                self.clients.push(Client::new(task, expected, events));
            }
            Err(RequestError::QueueFull { .. }) => self.report.add("refused", 1),
            Err(error) => panic!("{task:?}: {error}"),
        }
    }

    /// Drops the events of a client, which cancels its request unless it has ended.
    fn cancel(&mut self, at: usize) {
        let mut client = self.clients.swap_remove(at);
        client.receive();
        // A request whose deadline has passed ends by that.
        let is_cancelled = client.seen.reason.is_none() && !client.task.is_late();
        self.report.add("cancelled", u64::from(is_cancelled));
        self.count(&client);
    }

    fn end_all(&mut self) {
        for mut client in std::mem::take(&mut self.clients) {
            client.receive();
            assert!(
                client.seen.reason.is_some() && client.is_closed,
                "{:?} has no end",
                client.task
            );
            self.count(&client);
        }
    }

    fn count(&mut self, client: &Client) {
        client.check();
        let report = &mut self.report;
        report.add("tokens", client.seen.tokens.len() as u64);
        if let Some(cached) = client.cached {
            report.add("prompt tokens", client.task.prompt_len() as u64);
            report.add("cached tokens", cached as u64);
        }
        let Some(reason) = client.seen.reason else { return };
        let kind = match (reason, &client.task) {
            (FinishReason::Stop, Task::Embed(..)) => "embedded",
            (FinishReason::Stop | FinishReason::Length, Task::Generate(request)) => {
                match request.decode.is_left_to_right() {
                    true => "completed",
                    false => "filled masks",
                }
            }
            (FinishReason::Deadline, _) => "late",
            (FinishReason::Failed, _) => "failed",
            other => panic!("ended by {other:?}"),
        };
        report.add(kind, 1);
    }

    /// Checks that the engine's counters are equal to those of the clients and of the model.
    fn check_counters(&mut self) {
        let stats = self.handle.stats();
        let report = &mut self.report;
        let panics = self.incidents.panics.load(Relaxed);
        let counted = [stats.completion_tokens, stats.prompt_tokens, stats.cached_tokens];
        let kinds = ["tokens", "prompt tokens", "cached tokens"];
        assert_eq!(counted, kinds.map(|kind| report.get(kind)));
        assert_eq!((stats.cancelled, stats.failed_steps), (report.get("cancelled"), panics));
        assert!(stats.accepted_tokens <= stats.drafted_tokens, "{stats:?}");
        assert!(panics > 0 || report.get("failed") == 0, "failed without a panic");
        report.add("panics", panics);
        report.add("slow steps", self.incidents.slow_steps.load(Relaxed));
        report.add("preemptions", stats.preemptions);
        report.add("accepted drafts", stats.accepted_tokens);
        report.add("steps", stats.steps);
    }

    /// Checks that every page is free once the cache is flushed.
    fn check_pages(&mut self) {
        let stats = self.handle.stats();
        assert_eq!((stats.waiting, stats.running, stats.pages_in_use), (0, 0, 0));
        self.handle.flush_cache();
        self.turn();
        let stores = [Some(&self.engine.store), self.engine.drafter.as_ref().map(|d| &d.store)];
        for store in stores.into_iter().flatten() {
            assert_eq!((store.in_use(), store.cached()), (0, 0));
        }
    }

    /// Checks that the engine completes one more request as before, in as many attempts as faults make necessary.
    fn check_that_it_goes_on(&mut self) {
        let mut last = Random::new(0, 3);
        for attempt in 0..1000 {
            let task = task(&mut last, &self.handle, attempt);
            let events = task.submit(&self.handle).expect("the queue is empty");
            let mut client = Client::new(task.clone(), task.alone(&self.handle), events);
            take_turns(&mut self.engine, MAX_TURNS);
            client.receive();
            client.check();
            if matches!(client.seen.reason, Some(FinishReason::Stop | FinishReason::Length)) {
                return;
            }
        }
        panic!("no request succeeds any more");
    }
}
