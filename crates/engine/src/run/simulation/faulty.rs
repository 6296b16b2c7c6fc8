//! A model that panics, or takes long, at random.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use wf_core::{Mtp, Network};
use wf_formats::ModelInfo;
use wf_model::{AttentionMode, Forward, HiddenStates, Logits, Segment};

use super::fake::FakeModel;
use super::random::Random;
use crate::clock;

/// Time of a step, and of each of its rows.
const STEP: Duration = Duration::from_micros(800);
const ROW: Duration = Duration::from_micros(90);

/// Counts of the faults inside the models of an engine.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    pub(super) panics: AtomicU64,
    pub(super) slow_steps: AtomicU64,
}

/// The fake model with faults.
///
/// It has a prediction head that says what the model says, through the same pages.
pub(super) struct Faulty {
    model: FakeModel,
    network: Network,
    random: Random,
    /// Once in so many steps the model panics.
    rarity: usize,
    incidents: Arc<Incidents>,
    /// Fault of the next step.
    next: Option<Fault>,
    /// True if the hidden states of the last step cannot be read.
    hides: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing is computed.
    Before,
    /// The pages hold K/V that was not requested.
    After,
    /// Some sequences of the step have absorbed their results already.
    WhileRead,
}

impl Faulty {
    pub(super) fn new(
        model: FakeModel,
        random: Random,
        rarity: usize,
        incidents: Arc<Incidents>,
    ) -> Self {
        let hides = AtomicBool::new(false);
        let network = Network { mtp: Some(Mtp::default()), ..model.network().clone() };
        Self { model, network, random, rarity, incidents, next: None, hides }
    }

    /// Returns a model with one fault, in its first step.
    pub(super) fn once(model: FakeModel, fault: Fault) -> Self {
        let random = Random::new(0, 0);
        let never = usize::MAX - 1;
        Self { next: Some(fault), ..Self::new(model, random, never, Arc::default()) }
    }

    fn next_fault(&mut self) -> Option<Fault> {
        const FAULTS: [Fault; 3] = [Fault::Before, Fault::After, Fault::WhileRead];
        let random = self.random.once_in(self.rarity).then(|| self.random.pick(&FAULTS));
        self.next.take().or(random)
    }

    /// Panics without a message on the terminal.
    fn fail(&self) -> ! {
        self.incidents.panics.fetch_add(1, Relaxed);
        resume_unwind(Box::new("injected"))
    }
}

impl Forward for Faulty {
    fn network(&self) -> &Network {
        &self.network
    }

    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn max_batch_tokens(&self) -> usize {
        self.model.max_batch_tokens()
    }

    fn attention(&self) -> AttentionMode {
        self.model.attention()
    }

    fn pages(&self) -> usize {
        self.model.pages()
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        let rows: usize = batch.iter().map(|segment| segment.tokens.len()).sum();
        clock::advance(STEP + ROW * rows as u32);
        if self.random.once_in(40) {
            self.incidents.slow_steps.fetch_add(1, Relaxed);
            clock::advance(Duration::from_millis(self.random.between(100, 5000) as u64));
        }
        let fault = self.next_fault();
        if fault == Some(Fault::Before) {
            self.fail();
        }
        self.model.forward(batch, logits);
        if fault == Some(Fault::After) {
            self.fail();
        }
        self.hides.store(fault == Some(Fault::WhileRead), Relaxed);
        self
    }

    fn predict(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        clock::advance(STEP / 16);
        let fault = self.next_fault();
        if fault == Some(Fault::Before) {
            self.fail();
        }
        self.model.forward(batch, logits);
        if fault.is_some() {
            self.fail();
        }
    }
}

impl HiddenStates for Faulty {
    fn read(&self, token: usize, out: &mut [f32]) {
        if self.hides.load(Relaxed) {
            self.fail();
        }
        self.model.read(token, out);
    }
}
