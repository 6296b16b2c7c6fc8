//! The loop: admit, plan, forward, absorb.

use std::collections::VecDeque;

use tokio::sync::mpsc::UnboundedReceiver;
use wf_model::{Forward, Logits};

use crate::decode::Plan;
use crate::pages::PagePool;
use crate::schedule::shares;
use crate::sequence::Sequence;

/// Everything that decides, owned by one thread.
pub(crate) struct Engine<F> {
    model: F,
    inbox: UnboundedReceiver<Sequence>,
    /// Not running: newcomers at the back, those who had to give their pages up at the front.
    waiting: VecDeque<Sequence>,
    /// Oldest first.
    running: Vec<Sequence>,
    pages: PagePool,
    logits: Logits,
    max_running: usize,
}

impl<F: Forward> Engine<F> {
    pub(crate) fn new(model: F, inbox: UnboundedReceiver<Sequence>, max_running: usize) -> Self {
        Self {
            pages: PagePool::new(model.pages()),
            logits: Logits::new(model.config().vocab_len),
            // Each running sequence can have at least one token in a step.
            max_running: max_running.min(model.max_batch_tokens()),
            model,
            inbox,
            waiting: VecDeque::new(),
            running: Vec::new(),
        }
    }

    /// Steps until every handle is gone and all work is done.
    pub(crate) fn run(mut self) {
        self.model.enter_thread();
        while self.receive() {
            self.retire();
            self.admit();
            self.step();
        }
    }

    /// Takes in what arrived; waits if there is nothing else to do. False when all is over.
    fn receive(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
            match self.inbox.blocking_recv() {
                Some(sequence) => self.waiting.push_back(sequence),
                None => return false,
            }
        }
        while let Ok(sequence) = self.inbox.try_recv() {
            self.waiting.push_back(sequence);
        }
        true
    }

    /// Drops sequences that ended or that nobody listens to, and takes their pages back.
    fn retire(&mut self) {
        self.waiting.retain(|sequence| !sequence.is_over());
        for mut over in self.running.extract_if(.., |sequence| sequence.is_over()) {
            self.pages.give(over.release());
        }
    }

    /// Starts waiting sequences, in order, while there is room for all of their tokens.
    fn admit(&mut self) {
        let mut free = self.pages.free();
        while let Some(next) = self.waiting.front() {
            let need = next.pages_to_go_on();
            if self.running.len() >= self.max_running || need > free {
                break;
            }
            free -= need;
            self.running.extend(self.waiting.pop_front());
        }
    }

    fn step(&mut self) {
        let plans = self.plan();
        let planned = || self.running.iter().zip(&plans);
        let batch: Vec<_> =
            planned().filter_map(|(seq, plan)| Some(seq.segment(plan.as_ref()?))).collect();
        self.model.forward(&batch, &mut self.logits);

        let mut row = 0;
        for (sequence, plan) in self.running.iter_mut().zip(&plans) {
            let Some(plan) = plan else { continue };
            sequence.absorb(plan, self.logits.rows_mut(row, plan.want.len()));
            row += plan.want.len();
        }
    }

    /// A plan for each running sequence that gets a share of this step and has its pages.
    ///
    /// When pages run out the youngest gives its own up and waits, so the oldest always goes on.
    fn plan(&mut self) -> Vec<Option<Plan>> {
        let pending: Vec<_> = self.running.iter().map(Sequence::pending).collect();
        let shares = shares(&pending, self.model.max_batch_tokens());
        let mut plans = Vec::with_capacity(shares.len());
        while plans.len() < self.running.len() {
            let at = plans.len();
            plans.push(match shares[at] {
                0 => None,
                share => {
                    let plan = self.running[at].plan(share);
                    self.make_room(at, &plan).then_some(plan)
                }
            });
        }
        plans
    }

    /// Takes the pages that the plan of sequence `at` lacks, from younger ones if need be.
    fn make_room(&mut self, at: usize, plan: &Plan) -> bool {
        let lacking = self.running[at].pages_lacking(plan);
        while !self.pages.take(lacking, self.running[at].pages_mut()) {
            if self.running.len() == at + 1 {
                return false;
            }
            let mut youngest = self.running.pop().expect("younger than `at`");
            self.pages.give(youngest.release());
            self.waiting.push_front(youngest);
        }
        true
    }
}
