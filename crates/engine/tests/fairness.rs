//! No caller keeps others waiting, whatever it asks for: a short request is computed within two steps,
//! beside every kind of abuser.

use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};

use wf_core::Network;
use wf_engine::{
    DecodeMode, DiffusionParams, DraftParams, EngineHandle, EngineOptions, Event, Events,
    FinishReason, Limits, Origin, Request, TokenId, UnmaskRule,
};
use wf_formats::{BlockDiffusion, ModelInfo};
use wf_model::{Forward, HiddenStates, Logits, Segment};

use crate::fake::FakeModel;

const ROWS: usize = 256;
const VOCAB: usize = 100;

const BLOCKS: BlockDiffusion = BlockDiffusion {
    mask_token: VOCAB as TokenId - 1,
    block_len: 32,
    sub_block_len: None,
    token_shift: true,
    causal_context: true,
};

/// Model that computes a step only when it is told to.
struct Gated {
    model: FakeModel,
    entered: Sender<usize>,
    go: Receiver<()>,
}

impl Forward for Gated {
    fn network(&self) -> &Network {
        self.model.network()
    }

    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn max_batch_tokens(&self) -> usize {
        self.model.max_batch_tokens()
    }

    fn pages(&self) -> usize {
        self.model.pages()
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        // A test that is over lets the engine run freely.
        let _ = self.entered.send(batch.len());
        let _ = self.go.recv();
        self.model.forward(batch, logits)
    }
}

struct Stepper {
    engine: EngineHandle,
    entered: Receiver<usize>,
    go: Sender<()>,
}

impl Stepper {
    fn new(pages: usize, options: EngineOptions) -> Self {
        let (entered, has_entered) = channel();
        let (go, goes) = channel();
        let model = FakeModel::new(VOCAB, pages, ROWS).with_blocks(BLOCKS);
        let model = Gated { model, entered, go: goes };
        let engine = EngineHandle::start(model, options).unwrap();
        Self { engine, entered: has_entered, go }
    }

    /// Waits until the engine is about to compute a step. Returns its number of sequences.
    fn wait(&self) -> usize {
        self.entered.recv().unwrap()
    }

    /// Computes the step that the engine waits for, and waits for the next.
    fn step(&self) -> usize {
        self.go.send(()).unwrap();
        self.wait()
    }

    /// Submits a short request and returns the number of steps until its first token.
    fn steps_to_first_token(&self, origin: Origin) -> usize {
        let mut events = self.engine.submit(request(origin, vec![5, 6, 7], 3)).unwrap();
        // The step that the engine waits to compute was planned before.
        for steps in 0..200 {
            self.step();
            if has_tokens(&mut events) {
                return steps;
            }
        }
        panic!("no token");
    }
}

/// Returns `true` if a token is among the events that have happened.
fn has_tokens(events: &mut Events) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some((_, event))) = pin!(events.next()).poll(&mut cx) {
        if matches!(event, Event::Tokens { .. }) {
            return true;
        }
    }
    false
}

fn request(origin: Origin, prompt: Vec<TokenId>, max_tokens: usize) -> Request {
    let limits = Limits { max_tokens, ..Limits::default() };
    Request { prompt, limits, origin, ..Request::default() }
}

/// Blocks of a whole step, filled token by token.
fn endless_diffusion(origin: Origin) -> Request {
    let rule = UnmaskRule::Threshold(1.0);
    let params = DiffusionParams { block_len: Some(ROWS), rule, ..DiffusionParams::DEFAULT };
    Request { decode: DecodeMode::Diffusion(params), ..request(origin, vec![1, 2, 3], 2000) }
}

fn many_drafts(origin: Origin) -> Request {
    let params = DraftParams { max_tokens: 64, adaptive: false, ..DraftParams::MODEL };
    Request { decode: DecodeMode::Drafted(params), ..request(origin, vec![1, 2, 3], 2000) }
}

/// One of many long prompts, all different.
fn long_prompt(origin: Origin, number: usize) -> Request {
    let token = |at: usize| ((at * 7 + number * 13 + at / 50 * number) % 98) as TokenId;
    request(origin, (0..2000).map(token).collect(), 50)
}

fn of(caller: u64, request: u64) -> Origin {
    Origin { caller, request, tier: 0 }
}

/// Returns the steps to the first token of a short request beside `abusers`, first of another caller, then of the
/// same.
fn beside(abusers: &[Request], pages: usize) -> [usize; 2] {
    let options = EngineOptions { max_running: 32, ..EngineOptions::default() };
    [2, 1].map(|caller| {
        let stepper = Stepper::new(pages, options);
        let submit = |request: &Request| stepper.engine.submit(request.clone()).unwrap();
        let _events: Vec<_> = abusers.iter().map(submit).collect();
        stepper.wait();
        (0..7).for_each(|_| assert!(stepper.step() > 0));
        (0..5).map(|at| stepper.steps_to_first_token(of(caller, 50 + at))).max().unwrap()
    })
}

#[test]
fn blocks_that_fill_every_step_delay_others_by_one_step() {
    let abusers: Vec<_> = (0..4).map(|at| endless_diffusion(of(1, at))).collect();
    let steps = beside(&abusers, 1024);
    assert!(steps.iter().all(|steps| *steps <= 2), "{steps:?}");
}

#[test]
fn drafts_delay_others_by_one_step() {
    let abusers: Vec<_> = (0..4).map(|at| many_drafts(of(1, at))).collect();
    let steps = beside(&abusers, 1024);
    assert!(steps.iter().all(|steps| *steps <= 2), "{steps:?}");
}

#[test]
fn a_request_of_256_long_prompts_delays_others_by_one_step() {
    let abusers: Vec<_> = (0..256).map(|at| long_prompt(of(1, 0), at)).collect();
    let steps = beside(&abusers, 4096);
    assert!(steps.iter().all(|steps| *steps <= 2), "{steps:?}");
}

#[test]
fn a_caller_that_holds_all_pages_makes_room() {
    // Three of the long prompts fill the pool.
    let stepper = Stepper::new(200, EngineOptions::default());
    let long: Vec<_> = (0..16).map(|at| long_prompt(of(1, 0), at)).collect();
    let _events: Vec<_> = long.iter().map(|r| stepper.engine.submit(r.clone()).unwrap()).collect();
    stepper.wait();
    while stepper.engine.stats().pages_in_use < 150 {
        stepper.step();
    }
    let prompt = (0..1000).map(|at| (at % 90) as TokenId).collect();
    let mut events = stepper.engine.submit(request(of(2, 0), prompt, 2)).unwrap();
    let steps = (0..100).find(|_| {
        stepper.step();
        has_tokens(&mut events)
    });
    // 1000 tokens at half of 256 rows in each step.
    assert!(steps.unwrap() <= 10, "{steps:?} steps");
}

#[test]
fn a_full_queue_has_room_for_another_caller() {
    let options = EngineOptions { max_running: 2, max_waiting: 8, ..EngineOptions::default() };
    let stepper = Stepper::new(256, options);
    let mut events = Vec::new();
    while let Ok(more) = stepper.engine.submit(long_prompt(of(1, 0), events.len())) {
        events.push(more);
    }
    assert!(events.len() >= 8);
    assert!(stepper.engine.submit(request(of(2, 0), vec![1], 1)).is_ok());
    assert!(stepper.engine.submit(request(of(1, 0), vec![1], 1)).is_err());
}

/// Load by other callers changes when tokens arrive, and never which.
#[test]
fn answers_do_not_depend_on_who_else_asks() {
    let answers = |max_running: usize, pages: usize, crowd: bool| {
        let model = FakeModel::new(VOCAB, pages, 64).with_blocks(BLOCKS);
        let options = EngineOptions { max_running, ..EngineOptions::default() };
        let engine = EngineHandle::start(model, options).unwrap();
        let mut all = Vec::new();
        for at in 0..12 {
            let origin = of(at % 3, at);
            let prompt: Vec<TokenId> =
                (0..1 + at * 11 % 70).map(|i| ((i * 3 + at) % 90) as u32).collect();
            let mut one = request(origin, prompt, 40);
            one.decode = match at % 3 {
                0 => DecodeMode::Autoregressive,
                1 => many_drafts(origin).decode,
                _ => DecodeMode::Diffusion(DiffusionParams {
                    block_len: Some(64),
                    ..DiffusionParams::DEFAULT
                }),
            };
            let events = engine.submit(one).unwrap();
            match crowd {
                true => all.push(Err(events)),
                false => all.push(Ok(collect(events))),
            }
        }
        let finish = |answer: Result<_, Events>| answer.unwrap_or_else(collect);
        all.into_iter().map(finish).collect::<Vec<_>>()
    };
    let alone = answers(1, 64, false);
    assert_eq!(answers(4, 64, true), alone);
    assert_eq!(answers(2, 8, true), alone, "with few pages");
}

fn collect(mut events: Events) -> (Vec<TokenId>, FinishReason) {
    let mut tokens = Vec::new();
    loop {
        match events.next_blocking().unwrap() {
            Event::Tokens { tokens: more, .. } => tokens.extend(more.iter().map(|t| t.token)),
            Event::Done(reason) => return (tokens, reason),
            _ => {}
        }
    }
}
