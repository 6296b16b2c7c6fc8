//! The engine loop: admit, draft, plan, forward, absorb.
//!
//! Each step of the loop that concerns more than one sequence has a module: `admit` starts and preempts sequences,
//! `divide` shares a step between them, `drafts` runs the draft model, `disk` keeps pages.

mod admit;
mod disk;
mod divide;
mod drafts;
mod failure;
mod predict;
mod report;
#[cfg(test)]
mod simulation;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, WeakUnboundedSender};
use wf_model::{Forward, Logits};

use crate::clock;
use crate::decode::{Plan, Rows};
use crate::disk::DiskCache;
use crate::drafter::Drafter;
use crate::fair::Ledger;
use crate::generation::Generation;
use crate::row_costs::RowCosts;
use crate::schedule::Rank;
use crate::sequence::Sequence;
use crate::stats::Stats;
use crate::store::PageStore;

pub(crate) enum Message {
    Run(Box<Sequence>),
    /// Pages that were read from disk for a waiting sequence.
    Fetched(Rank, Vec<Vec<u8>>),
    /// Evicts the cached pages that no sequence holds, and those on disk.
    FlushCache,
}

/// Returns the number of sequences that run at once: each has a row of a step, and a state if the model has any.
fn max_sequences(model: &impl Forward, max_running: usize) -> usize {
    let states = if model.network().is_recurrent() { model.states() } else { usize::MAX };
    max_running.min(model.max_batch_tokens()).min(states)
}

/// All decoding state, owned by one thread.
pub(crate) struct Engine<F> {
    model: F,
    drafter: Option<Drafter>,
    inbox: UnboundedReceiver<Message>,
    /// The other end of the inbox, which is closed once every handle is dropped.
    own_inbox: WeakUnboundedSender<Message>,
    disk: Option<DiskCache>,
    /// Number of sequences whose pages are being read from disk.
    fetches: usize,
    /// Sequences that do not run, including preempted ones, by rank.
    waiting: BTreeMap<Rank, Sequence>,
    /// Running sequences, in the order in which they keep their pages.
    running: Vec<Sequence>,
    ledger: Ledger,
    store: PageStore,
    logits: Logits,
    /// Logits of the prediction head, if the model has one.
    predictions: Logits,
    hidden: Vec<f32>,
    max_running: usize,
    costs: RowCosts,
    stats: Arc<Stats>,
}

impl<F: Forward> Engine<F> {
    pub(crate) fn new(
        model: F,
        draft: Option<Box<dyn Forward>>,
        (own_inbox, inbox): (WeakUnboundedSender<Message>, UnboundedReceiver<Message>),
        max_running: usize,
        stats: Arc<Stats>,
    ) -> Self {
        let vocab_len = model.network().vocab_len;
        Self {
            drafter: draft.map(|draft| Drafter::new(draft, vocab_len)),
            store: PageStore::new(model.pages(), model.states(), model.attention().window()),
            logits: Logits::new(vocab_len),
            predictions: Logits::new(vocab_len),
            hidden: vec![0.0; model.network().hidden_len],
            max_running: max_sequences(&model, max_running),
            model,
            inbox,
            own_inbox,
            disk: None,
            fetches: 0,
            waiting: BTreeMap::new(),
            running: Vec::new(),
            ledger: Ledger::default(),
            costs: RowCosts::default(),
            stats,
        }
    }

    /// Runs steps until every handle is dropped and all requests are finished.
    pub(crate) fn run(mut self) {
        self.model.enter_thread();
        while self.receive() {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.retire();
        self.admit();
        // A panic in a step does not concern requests that were not part of it.
        if catch_unwind(AssertUnwindSafe(|| self.step())).is_err() {
            self.fail_running();
        }
        self.report();
    }

    fn has_work(&self) -> bool {
        // What could run instead of the sequences that wait for the disk has been admitted.
        let can_admit = !self.waiting.is_empty() && self.fetches == 0;
        can_admit || !(self.running.is_empty() && self.inbox.is_empty())
    }

    /// Receives messages, waiting if nothing else is to do. Returns `false` when all handles are dropped.
    fn receive(&mut self) -> bool {
        if !self.has_work() {
            match self.inbox.blocking_recv() {
                Some(message) => self.handle(message),
                None => return false,
            }
        }
        while let Ok(message) = self.inbox.try_recv() {
            self.handle(message);
        }
        true
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Run(sequence) => {
                self.waiting.insert(sequence.rank, *sequence);
            }
            Message::Fetched(rank, pages) => self.fetched(rank, pages),
            Message::FlushCache => {
                self.store.flush();
                self.disk.iter().for_each(DiskCache::clear);
                if let Some(drafter) = &mut self.drafter {
                    drafter.store.flush();
                }
            }
        }
    }

    /// Drops finished and abandoned sequences and releases their pages.
    fn retire(&mut self) {
        let now = clock::now();
        let is_over = |sequence: &mut Sequence| {
            sequence.check_deadline(now);
            if !sequence.finished && sequence.is_abandoned() {
                self.stats.lock().cancelled += 1;
            }
            sequence.finished || sequence.is_abandoned()
        };
        self.waiting.retain(|_, sequence| !is_over(sequence));
        for mut sequence in self.running.extract_if(.., |sequence| is_over(sequence)) {
            sequence.release(&mut self.store);
        }
    }

    fn step(&mut self) {
        let started = clock::now();
        let sequences = self.running.len();
        self.running.iter_mut().for_each(|sequence| sequence.weigh_drafts(&self.costs, sequences));
        let shares = self.divide();
        self.draft(&shares);
        self.predict(&shares);
        let plans = self.plan(&shares);
        let vocab_len = self.model.network().vocab_len;
        for (sequence, plan) in self.running.iter_mut().zip(&plans) {
            plan.iter().for_each(|plan| sequence.prepare(plan, vocab_len));
        }
        let planned = || self.running.iter().zip(&plans);
        let batch: Vec<_> =
            planned().filter_map(|(seq, plan)| Some(seq.segment(plan.as_ref()?))).collect();
        if batch.is_empty() {
            drop(batch);
            // No other sequence could run instead.
            self.generations().for_each(|generation| generation.grammar_debt = Duration::ZERO);
            return;
        }
        let forward_started = clock::now();
        let hidden = self.model.forward(&batch, &mut self.logits);
        self.costs.record(&batch, (clock::now() - forward_started).as_secs_f64());
        self.stats.lock().steps += 1;

        let (mut row, mut token, mut drafted) = (0, 0, Vec::new());
        for (sequence, plan) in self.running.iter_mut().zip(&plans) {
            let Some(plan) = plan else { continue };
            for row in sequence.task.pooled_rows(plan) {
                hidden.read(token + row, &mut self.hidden);
                sequence.task.pool(&self.hidden);
            }
            token += plan.tokens.len();
            let rows = Rows::new(&mut self.logits, row, plan.scored.len());
            let before = sequence.task.decode_stats();
            let drafts = plan.drafts(&sequence.state);
            let certain = plan.start + plan.tokens.len() - drafts;
            let generated = sequence.absorb(plan, rows, &mut self.store);
            let after = sequence.task.decode_stats();
            self.stats.lock().count(generated, before, after);
            row += plan.scored.len();
            // If nothing could be sampled, the state is that of more tokens than are kept.
            sequence.is_moving &= sequence.state.kv_len >= certain;
            if drafts > 0 && sequence.is_moving {
                drafted.push(sequence.kept_drafts());
            }
        }
        drafted.into_iter().for_each(|(state, len)| self.model.keep_drafts(state, len));
        self.keep_states();
        self.keep_full_pages();
        self.running.iter_mut().for_each(|sequence| sequence.slide(&mut self.store));
        let elapsed = clock::now() - started;
        self.generations().for_each(|generation| generation.settle_debt(elapsed));
    }

    fn generations(&mut self) -> impl Iterator<Item = &mut Generation> {
        self.running.iter_mut().filter_map(|sequence| sequence.task.generation_mut())
    }

    /// Plans each running sequence that has a share of this step and the pages for it.
    ///
    /// When pages run out, the last sequence is preempted, so the first one always progresses.
    fn plan(&mut self, shares: &[usize]) -> Vec<Option<Plan>> {
        let mut plans = Vec::with_capacity(shares.len());
        let mut drafts = self.model.max_drafts();
        while plans.len() < self.running.len() {
            let at = plans.len();
            let plan = (shares[at] > 0).then(|| self.running[at].plan(shares[at], drafts));
            let plan = plan.filter(|plan| self.allocate(at, plan));
            drafts -= plan.as_ref().map_or(0, |plan| plan.drafts(&self.running[at].state));
            self.running[at].is_moving = plan.is_some();
            plans.push(plan);
        }
        plans
    }

    /// Allocates the pages for the plan of sequence `at`, preempting later sequences if necessary.
    fn allocate(&mut self, at: usize, plan: &Plan) -> bool {
        while !self.running[at].allocate(plan, &mut self.store) {
            if self.running.len() == at + 1 {
                self.running[at].steps_without_pages += 1;
                return false;
            }
            let last = self.running.pop().expect("a later sequence exists");
            self.preempt(last);
        }
        true
    }
}
