//! A step that panics ends only its own requests.

use std::time::{Duration, Instant};

use wf_core::Network;
use wf_engine::{EngineHandle, EngineOptions, Event, FinishReason, Limits, Request, TokenId};
use wf_formats::ModelInfo;
use wf_model::{Forward, HiddenStates, Logits, Segment};

use crate::fake::FakeModel;

/// Model that panics on this token.
const POISON: TokenId = 13;

struct Fragile(FakeModel);

impl Forward for Fragile {
    fn network(&self) -> &Network {
        self.0.network()
    }

    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn max_batch_tokens(&self) -> usize {
        self.0.max_batch_tokens()
    }

    fn pages(&self) -> usize {
        self.0.pages()
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        let is_poisoned = batch.iter().any(|segment| segment.tokens.contains(&POISON));
        // Half of the step is done by then: pages hold K/V that must not be shared.
        self.0.forward(batch, logits);
        assert!(!is_poisoned, "poisoned, as this test wants it");
        &self.0
    }
}

fn engine() -> EngineHandle {
    EngineHandle::start(Fragile(FakeModel::new(100, 64, 64)), EngineOptions::default()).unwrap()
}

fn request(prompt: &[TokenId], max_tokens: usize) -> Request {
    let limits = Limits { max_tokens, ..Limits::default() };
    Request { prompt: prompt.to_vec(), limits, ..Request::default() }
}

/// Returns the tokens and the finish reason of a completion.
fn reply(engine: &EngineHandle, request: Request) -> (Vec<TokenId>, FinishReason) {
    let mut events = engine.submit(request).unwrap();
    let mut tokens = Vec::new();
    while let Some(event) = events.next_blocking() {
        match event {
            Event::Tokens { tokens: picked, .. } => {
                tokens.extend(picked.iter().map(|picked| picked.token))
            }
            Event::Done(reason) => return (tokens, reason),
            _ => {}
        }
    }
    panic!("no end");
}

/// Returns a request whose completion never contains the poison.
fn wholesome() -> Request {
    let engine = engine();
    let harmless = |start: &TokenId| {
        let (_, reason) = reply(&engine, request(&[*start, 5, 7], 20));
        reason == FinishReason::Length
    };
    let start = (20..99).find(harmless).expect("one of them goes well");
    request(&[start, 5, 7], 20)
}

#[test]
fn a_panic_ends_the_requests_of_its_step_and_the_engine_continues() {
    let engine = engine();
    let expected = reply(&engine, wholesome());
    for _ in 0..3 {
        let poisoned = reply(&engine, request(&[1, POISON, 2], 5));
        assert_eq!(poisoned, (Vec::new(), FinishReason::Failed));
        assert_eq!(reply(&engine, wholesome()), expected);
    }
    // The engine sends the last event before it updates the counters.
    let at_rest = || {
        let stats = engine.stats();
        stats.running + stats.waiting + stats.pages_in_use == 0
    };
    while !at_rest() {
        std::thread::yield_now();
    }
    assert_eq!(engine.stats().failed_steps, 3);
}

#[test]
fn a_deadline_ends_waiting_and_running_requests() {
    let engine = engine();
    let late = Limits { max_tokens: 5, deadline: Some(Instant::now()), ..Limits::default() };
    let (tokens, reason) = reply(&engine, Request { limits: late, ..request(&[1, 2], 5) });
    assert_eq!((tokens, reason), (Vec::new(), FinishReason::Deadline));
    let soon = Some(Instant::now() + Duration::from_secs(3600));
    let limits = Limits { max_tokens: 5, deadline: soon, ..Limits::default() };
    let in_time = Request { limits, ..wholesome() };
    assert_eq!(reply(&engine, in_time).1, FinishReason::Length);
}
