//! The engine loop: admit, plan, forward, absorb.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use wf_model::{Forward, Logits};

use crate::admission::{Census, Member, Shared};
use crate::decode::{Plan, Rows};
use crate::drafter::Drafter;
use crate::fair::{Capacity, Ledger};
use crate::generation::Generation;
use crate::output::FinishReason;
use crate::row_costs::RowCosts;
use crate::schedule::Rank;
use crate::sequence::Sequence;
use crate::stats::Stats;
use crate::store::PageStore;

/// Number of sequences that are passed over in one admission because they wait for a prefix.
const MAX_SKIPS: usize = 64;

pub(crate) enum Message {
    Run(Box<Sequence>),
    /// Evicts the cached pages that no sequence holds.
    FlushCache,
}

/// All decoding state, owned by one thread.
pub(crate) struct Engine<F> {
    model: F,
    drafter: Option<Drafter>,
    inbox: UnboundedReceiver<Message>,
    /// Sequences that do not run, including preempted ones, by rank.
    waiting: BTreeMap<Rank, Sequence>,
    /// Running sequences, in the order in which they keep their pages.
    running: Vec<Sequence>,
    ledger: Ledger,
    store: PageStore,
    logits: Logits,
    hidden: Vec<f32>,
    max_running: usize,
    costs: RowCosts,
    stats: Arc<Stats>,
}

impl<F: Forward> Engine<F> {
    pub(crate) fn new(
        model: F,
        draft: Option<Box<dyn Forward>>,
        inbox: UnboundedReceiver<Message>,
        max_running: usize,
        stats: Arc<Stats>,
    ) -> Self {
        let vocab_len = model.network().vocab_len;
        Self {
            drafter: draft.map(|draft| Drafter::new(draft, vocab_len)),
            store: PageStore::new(model.pages()),
            logits: Logits::new(vocab_len),
            hidden: vec![0.0; model.network().hidden_len],
            max_running: max_running.min(model.max_batch_tokens()),
            model,
            inbox,
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
            self.retire();
            self.admit();
            // A panic in a step does not concern requests that were not part of it.
            if catch_unwind(AssertUnwindSafe(|| self.step())).is_err() {
                self.fail_running();
            }
            self.report();
        }
    }

    /// Receives messages, waiting if nothing else is to do. Returns `false` when all handles are dropped.
    fn receive(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
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
            Message::FlushCache => {
                self.store.flush();
                if let Some(drafter) = &mut self.drafter {
                    drafter.store.flush();
                }
            }
        }
    }

    /// Drops finished and abandoned sequences and releases their pages.
    fn retire(&mut self) {
        let now = Instant::now();
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

    /// Starts waiting sequences while there are places, and pages for all of their tokens.
    fn admit(&mut self) {
        let mut census = self.census();
        let mut promised = 0;
        let mut skips = 0;
        while skips < MAX_SKIPS
            && let Some(next) = census.next()
        {
            let sequence = &self.waiting[&next.rank];
            // A prefix that another sequence is computing is not computed twice.
            if self.running.iter().any(|running| sequence.should_wait_for(running, &self.store)) {
                census.skip(next.rank);
                skips += 1;
                continue;
            }
            let needed = promised + sequence.pages_needed(&self.store);
            if !self.free_pages(needed, &next, &mut census) {
                self.waiting.entry(next.rank).and_modify(|next| next.steps_without_pages += 1);
                if next.is_overdue {
                    break;
                }
                census.skip_caller(next.origin.party());
                continue;
            }
            promised = needed;
            self.start(next.rank);
            census.admit(next);
        }
        let standings = census.standings();
        self.running.sort_by_key(|sequence| standings.get(&sequence.rank).copied());
    }

    fn census(&self) -> Census {
        let shared = Shared { sequences: self.max_running, pages: self.model.pages() };
        let running = self.running.iter().map(Sequence::member).collect();
        Census::new(shared, running, self.waiting.values().map(Sequence::member).collect())
    }

    /// Preempts sequences until `pages` are available for `next`. Returns `false` if there are too few that
    /// have to make room for it.
    fn free_pages(&mut self, pages: usize, next: &Member, census: &mut Census) -> bool {
        while pages > self.store.available() {
            let Some(rank) = census.preempt_for(next) else { return false };
            let at = self.running.iter().position(|sequence| sequence.rank == rank);
            let preempted = self.running.remove(at.expect("the census has running sequences"));
            self.preempt(preempted);
        }
        true
    }

    fn preempt(&mut self, mut sequence: Sequence) {
        sequence.release(&mut self.store);
        self.waiting.insert(sequence.rank, sequence);
        self.stats.lock().preemptions += 1;
    }

    fn start(&mut self, rank: Rank) {
        let mut sequence = self.waiting.remove(&rank).expect("it is waiting");
        let is_new = !sequence.started;
        let cached = sequence.start(&mut self.store);
        if is_new {
            let mut stats = self.stats.lock();
            stats.prompt_tokens += sequence.state.prompt_len as u64;
            stats.cached_tokens += cached as u64;
        }
        self.running.push(sequence);
    }

    fn step(&mut self) {
        let started = Instant::now();
        let sequences = self.running.len();
        self.running.iter_mut().for_each(|sequence| sequence.weigh_drafts(&self.costs, sequences));
        let shares = self.divide();
        self.draft(&shares);
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
        let forward_started = Instant::now();
        let hidden = self.model.forward(&batch, &mut self.logits);
        self.costs.record(&batch, forward_started.elapsed().as_secs_f64());
        self.stats.lock().steps += 1;

        let (mut row, mut token) = (0, 0);
        for (sequence, plan) in self.running.iter_mut().zip(&plans) {
            let Some(plan) = plan else { continue };
            for row in sequence.pooled_rows(plan) {
                hidden.read(token + row, &mut self.hidden);
                sequence.pool(&self.hidden);
            }
            token += plan.tokens.len();
            let rows = Rows::new(&mut self.logits, row, plan.scored.len());
            let before = sequence.decode_stats();
            let generated = sequence.absorb(plan, rows, &mut self.store);
            let after = sequence.decode_stats();
            let mut stats = self.stats.lock();
            stats.completion_tokens += generated as u64;
            stats.decode_passes += (after.passes - before.passes) as u64;
            stats.drafted_tokens += (after.drafted - before.drafted) as u64;
            stats.accepted_tokens += (after.accepted - before.accepted) as u64;
            row += plan.scored.len();
        }
        let elapsed = started.elapsed();
        self.generations().for_each(|generation| generation.settle_debt(elapsed));
    }

    fn generations(&mut self) -> impl Iterator<Item = &mut Generation> {
        self.running.iter_mut().filter_map(Sequence::generation_mut)
    }

    /// Returns the share of each running sequence in the next step. One whose grammar is slow lets others run
    /// first.
    fn divide(&mut self) -> Vec<usize> {
        let all_in_debt = self.running.iter().all(Sequence::is_in_debt);
        let takes_part = |sequence: &&Sequence| all_in_debt || !sequence.is_in_debt();
        let claims: Vec<_> = self.running.iter().filter(takes_part).map(Sequence::claim).collect();
        let capacity =
            Capacity { rows: self.model.max_batch_tokens(), sequences: self.max_running };
        let mut shares = self.ledger.divide(&claims, capacity).into_iter();
        let share = |sequence: &Sequence| takes_part(&sequence).then(|| shares.next()).flatten();
        self.running.iter().map(share).map(Option::unwrap_or_default).collect()
    }

    /// Runs the draft model for the sequences that use it.
    fn draft(&mut self, shares: &[usize]) {
        let Some(drafter) = &mut self.drafter else { return };
        let running = self.running.iter_mut().zip(shares);
        let requests = running.filter_map(|(sequence, share)| sequence.draft_request(*share));
        let mut drafts = drafter.draft(requests.collect());
        self.costs.record_draft(drafter.passes, drafter.time.as_secs_f64());
        for sequence in &mut self.running {
            if let Some(draft) = drafts.remove(&sequence.rank) {
                sequence.state.draft = draft;
            }
        }
    }

    /// Plans each running sequence that has a share of this step and the pages for it.
    ///
    /// When pages run out, the last sequence is preempted, so the first one always progresses.
    fn plan(&mut self, shares: &[usize]) -> Vec<Option<Plan>> {
        let mut plans = Vec::with_capacity(shares.len());
        while plans.len() < self.running.len() {
            let at = plans.len();
            let plan = (shares[at] > 0).then(|| self.running[at].plan(shares[at]));
            let plan = plan.filter(|plan| self.allocate(at, plan));
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

    /// Ends all running requests after a panic, and discards all pages: their contents are unknown.
    fn fail_running(&mut self) {
        self.stats.lock().failed_steps += 1;
        for mut sequence in self.running.drain(..) {
            sequence.finish(FinishReason::Failed);
        }
        self.store = PageStore::new(self.model.pages());
        self.drafter.iter_mut().for_each(Drafter::reset);
    }

    fn report(&self) {
        let zeros = self.model.total_sparsity();
        let mut stats = self.stats.lock();
        stats.running = self.running.iter().filter(|s| !s.finished).count();
        stats.pages_in_use = self.store.in_use();
        stats.cached_pages = self.store.cached();
        stats.neurons = zeros.neurons;
        stats.closed_gates = zeros.closed_gates;
        stats.zero_codes = zeros.zero_codes;
    }
}
