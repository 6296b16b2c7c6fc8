//! The loop: admit, plan, forward, absorb.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedReceiver;
use wf_model::{Forward, Logits};

use crate::decode::Plan;
use crate::drafter::Drafter;
use crate::request::FinishReason;
use crate::schedule::shares;
use crate::sequence::{Rank, Sequence};
use crate::stats::Stats;
use crate::store::PageStore;

/// What the engine thread is told.
pub(crate) enum Message {
    /// A new request.
    Run(Box<Sequence>),
    /// Forget the pages that nobody holds.
    FlushCache,
}

/// Everything that decides, owned by one thread.
pub(crate) struct Engine<F> {
    model: F,
    drafter: Option<Drafter>,
    inbox: UnboundedReceiver<Message>,
    /// Not running, first in turn first. Those who gave their pages up keep their turn.
    waiting: BTreeMap<Rank, Sequence>,
    /// First in turn first.
    running: Vec<Sequence>,
    store: PageStore,
    logits: Logits,
    /// Room for the hidden state of a token.
    hidden: Vec<f32>,
    max_running: usize,
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
        let vocab_len = model.config().vocab_len;
        Self {
            drafter: draft.map(|draft| Drafter::new(draft, vocab_len)),
            store: PageStore::new(model.pages()),
            logits: Logits::new(vocab_len),
            hidden: vec![0.0; model.config().hidden_len],
            // Each running sequence can have at least one token in a step.
            max_running: max_running.min(model.max_batch_tokens()),
            model,
            inbox,
            waiting: BTreeMap::new(),
            running: Vec::new(),
            stats,
        }
    }

    /// Steps until every handle is gone and all work is done.
    pub(crate) fn run(mut self) {
        self.model.enter_thread();
        while self.receive() {
            self.retire();
            self.admit();
            // Whatever panics in a step has nothing to do with requests that were not part of it.
            if catch_unwind(AssertUnwindSafe(|| self.step())).is_err() {
                self.fail_running();
            }
            self.report();
        }
    }

    /// Takes in what arrived; waits if there is nothing else to do. False when all is over.
    fn receive(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
            match self.inbox.blocking_recv() {
                Some(message) => self.take(message),
                None => return false,
            }
        }
        while let Ok(message) = self.inbox.try_recv() {
            self.take(message);
        }
        true
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Run(sequence) => {
                self.waiting.insert(sequence.rank(), *sequence);
            }
            Message::FlushCache => {
                self.store.flush();
                self.drafter.iter_mut().for_each(Drafter::flush);
            }
        }
    }

    /// Drops sequences that ended or that nobody listens to, and takes their pages back.
    fn retire(&mut self) {
        let now = Instant::now();
        let is_over = |sequence: &mut Sequence| {
            sequence.check_deadline(now);
            if !sequence.is_finished() && sequence.is_abandoned() {
                self.stats.cancelled.add(1);
            }
            let is_over = sequence.is_finished() || sequence.is_abandoned();
            if is_over && sequence.is_new() {
                self.stats.waiting.leave();
            }
            is_over
        };
        self.waiting.retain(|_, sequence| !is_over(sequence));
        for mut over in self.running.extract_if(.., |sequence| is_over(sequence)) {
            over.release(&mut self.store);
        }
    }

    /// Starts waiting sequences, in turn, while there is room for all of their tokens.
    fn admit(&mut self) {
        let ranks: Vec<_> = self.waiting.keys().copied().collect();
        let mut promised = 0;
        for rank in ranks {
            let next = &self.waiting[&rank];
            if self.running.len() >= self.max_running {
                break;
            }
            // What another is just computing need not be computed twice.
            if self.running.iter().any(|running| next.should_wait_for(running, &self.store)) {
                continue;
            }
            let need = next.pages_to_go_on(&self.store);
            if promised + need > self.store.available() {
                break;
            }
            promised += need;
            let mut next = self.waiting.remove(&rank).expect("it was just seen");
            let is_new = next.is_new();
            let cached = next.start(&mut self.store);
            if is_new {
                self.stats.waiting.leave();
                self.stats.prompt_tokens.add(next.prompt_len());
                self.stats.cached_tokens.add(cached);
            }
            let turn = self.running.partition_point(|running| running.rank() < rank);
            self.running.insert(turn, next);
        }
    }

    fn step(&mut self) {
        let started = Instant::now();
        self.draft();
        let plans = self.plan();
        let vocab_len = self.model.config().vocab_len;
        for (sequence, plan) in self.running.iter_mut().zip(&plans) {
            plan.iter().for_each(|plan| sequence.look_ahead(plan, vocab_len));
        }
        let planned = || self.running.iter().zip(&plans);
        let batch: Vec<_> =
            planned().filter_map(|(seq, plan)| Some(seq.segment(plan.as_ref()?))).collect();
        if batch.is_empty() {
            drop(batch);
            // Nobody is served by anyone's waiting.
            self.running.iter_mut().for_each(Sequence::forgive);
            return;
        }
        self.model.forward(&batch, &mut self.logits);
        self.stats.steps.add(1);

        let (mut row, mut token) = (0, 0);
        for (sequence, plan) in self.running.iter_mut().zip(&plans) {
            let Some(plan) = plan else { continue };
            for pooled in sequence.pooled(plan) {
                self.model.hidden_state(token + pooled, &mut self.hidden);
                sequence.pool(&self.hidden);
            }
            token += plan.tokens.len();
            let scores = self.logits.rows_mut(row, plan.want.len());
            let before = sequence.work();
            self.stats.reply_tokens.add(sequence.absorb(plan, scores, &mut self.store));
            self.stats.add_work(before, sequence.work());
            row += plan.want.len();
        }
        let took = started.elapsed();
        self.running.iter_mut().for_each(|sequence| sequence.pay(took));
    }

    /// Lets the draft model guess for those who want it.
    fn draft(&mut self) {
        let Some(drafter) = &mut self.drafter else { return };
        let asks = self.running.iter_mut().filter_map(Sequence::ask).collect();
        let mut guesses = drafter.guess(asks);
        for sequence in &mut self.running {
            guesses.remove(&sequence.rank()).into_iter().for_each(|g| sequence.take_guesses(g));
        }
    }

    /// A plan for each running sequence that gets a share of this step and has its pages.
    ///
    /// When pages run out the last in turn gives its own up and waits, so the first always goes on.
    fn plan(&mut self) -> Vec<Option<Plan>> {
        let needs: Vec<_> = self.running.iter().map(Sequence::need).collect();
        let shares = shares(&needs, self.model.max_batch_tokens());
        let mut plans = Vec::with_capacity(shares.len());
        // Among themselves, nobody has to let others go first.
        let all_in_debt = self.running.iter().all(Sequence::is_in_debt);
        while plans.len() < self.running.len() {
            let at = plans.len();
            plans.push(match shares[at] {
                0 => None,
                _ if self.running[at].is_in_debt() && !all_in_debt => None,
                share => {
                    let plan = self.running[at].plan(share);
                    self.make_room(at, &plan).then_some(plan)
                }
            });
        }
        plans
    }

    /// Takes the pages that the plan of sequence `at` lacks, from later ones if need be.
    fn make_room(&mut self, at: usize, plan: &Plan) -> bool {
        while !self.running[at].make_room(plan, &mut self.store) {
            if self.running.len() == at + 1 {
                return false;
            }
            let mut last = self.running.pop().expect("later than `at`");
            last.release(&mut self.store);
            self.waiting.insert(last.rank(), last);
            self.stats.preemptions.add(1);
        }
        true
    }

    /// A step panicked: nobody knows what its pages hold. Its requests end, and all pages are free.
    fn fail_running(&mut self) {
        self.stats.failed_steps.add(1);
        for mut sequence in self.running.drain(..) {
            sequence.finish(FinishReason::Failed);
        }
        self.store = PageStore::new(self.model.pages());
        self.drafter.iter_mut().for_each(Drafter::reset);
    }

    fn report(&self) {
        self.stats.running.set(self.running.iter().filter(|s| !s.is_finished()).count());
        self.stats.pages_in_use.set(self.store.in_use());
        self.stats.pages_kept.set(self.store.kept());
        let zeros = self.model.zeros_seen();
        self.stats.neurons.set(zeros.neurons);
        self.stats.closed_gates.set(zeros.closed_gates);
        self.stats.zero_codes.set(zeros.zero_codes);
    }
}
