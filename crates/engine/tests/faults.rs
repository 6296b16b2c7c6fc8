//! A step that panics ends its own requests, and nobody else's.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use std::time::{Duration, Instant};

use wf_engine::fake::FakeModel;
use wf_engine::{EngineHandle, EngineOptions, Event, FinishReason, Limits, Request, TokenId};
use wf_formats::ModelConfig;
use wf_model::{Forward, Logits, Segment};

/// A model that panics when it sees this token.
const POISON: TokenId = 13;

struct Fragile(FakeModel);

impl Forward for Fragile {
    fn config(&self) -> &ModelConfig {
        self.0.config()
    }

    fn max_batch_tokens(&self) -> usize {
        self.0.max_batch_tokens()
    }

    fn pages(&self) -> usize {
        self.0.pages()
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        let is_poisoned = batch.iter().any(|segment| segment.tokens.contains(&POISON));
        // Half of the work is done by then: pages hold what nobody should see.
        self.0.forward(batch, logits);
        assert!(!is_poisoned, "poisoned, as this test wants it");
    }

    fn hidden_state(&self, token: usize, out: &mut [f32]) {
        self.0.hidden_state(token, out);
    }
}

fn engine() -> EngineHandle {
    EngineHandle::start(Fragile(FakeModel::new(100, 64, 64)), EngineOptions::default()).unwrap()
}

fn request(prompt: &[TokenId], max_tokens: usize) -> Request {
    let limits = Limits { max_tokens, ..Limits::default() };
    Request { prompt: prompt.to_vec(), limits, ..Request::default() }
}

/// The tokens of a reply, and why it ended.
fn reply(engine: &EngineHandle, request: Request) -> (Vec<TokenId>, FinishReason) {
    let mut events = engine.submit(request).unwrap();
    let mut tokens = Vec::new();
    while let Some(event) = events.next_blocking() {
        match event {
            Event::Tokens { picked, .. } => tokens.extend(picked.iter().map(|picked| picked.token)),
            Event::Done(reason) => return (tokens, reason),
            _ => {}
        }
    }
    panic!("no end");
}

/// A prompt whose reply never has the poison in it.
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
fn a_panic_ends_its_own_step_and_the_engine_goes_on() {
    let engine = engine();
    let expected = reply(&engine, wholesome());
    for _ in 0..3 {
        let poisoned = reply(&engine, request(&[1, POISON, 2], 5));
        assert_eq!(poisoned, (Vec::new(), FinishReason::Failed));
        assert_eq!(reply(&engine, wholesome()), expected);
    }
    // The engine tells of an end before it counts.
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
fn a_deadline_ends_who_waits_and_who_runs() {
    let engine = engine();
    let late = Limits { max_tokens: 5, deadline: Some(Instant::now()), ..Limits::default() };
    let (tokens, reason) = reply(&engine, Request { limits: late, ..request(&[1, 2], 5) });
    assert_eq!((tokens, reason), (Vec::new(), FinishReason::Deadline));
    let soon = Some(Instant::now() + Duration::from_secs(3600));
    let limits = Limits { max_tokens: 5, deadline: soon, ..Limits::default() };
    let in_time = Request { limits, ..wholesome() };
    assert_eq!(reply(&engine, in_time).1, FinishReason::Length);
}
