//! Scheduling order: higher priority first, then order of arrival; long prompts do not delay others.

use std::time::Instant;

use wf_engine::{EngineHandle, EngineOptions, Event, Events, Limits, Request, TokenId};

use crate::fake::FakeModel;

fn request(prompt: Vec<TokenId>, max_tokens: usize, priority: i32) -> Request {
    let limits = Limits { max_tokens, ..Limits::default() };
    Request { prompt, limits, priority, ..Request::default() }
}

/// Returns the next event and its time.
fn next(runtime: &tokio::runtime::Runtime, events: &mut Events) -> Option<(Instant, Event)> {
    runtime.block_on(events.next())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Returns the time at which a request started.
fn started(runtime: &tokio::runtime::Runtime, mut events: Events) -> Instant {
    match next(runtime, &mut events) {
        Some((time, Event::Started { .. })) => {
            // A started request must finish, or the next one would run for another reason.
            while next(runtime, &mut events).is_some() {}
            time
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_most_urgent_is_next_and_then_who_came_first() {
    let runtime = runtime();
    let options = EngineOptions { max_running: 1, ..EngineOptions::default() };
    let engine = EngineHandle::start(FakeModel::new(100, 64, 64), options).unwrap();
    // The others queue while this one runs.
    let mut first = engine.submit(request(vec![1], 1500, 0)).unwrap();
    assert!(matches!(next(&runtime, &mut first), Some((_, Event::Started { .. }))));
    let waiting: Vec<_> = [0, 5, -1, 5, 0]
        .into_iter()
        .map(|priority| engine.submit(request(vec![2, 3], 2, priority)).unwrap())
        .collect();
    while next(&runtime, &mut first).is_some() {}
    let times: Vec<_> = waiting.into_iter().map(|events| started(&runtime, events)).collect();
    let mut order: Vec<_> = (0..times.len()).collect();
    order.sort_by_key(|&at| times[at]);
    assert_eq!(order, [1, 3, 0, 4, 2]);
}

#[test]
fn a_long_prompt_delays_others_by_one_chunk_at_most() {
    let runtime = runtime();
    let chunk = 32;
    let options = EngineOptions { max_running: 4, ..EngineOptions::default() };
    let engine = EngineHandle::start(FakeModel::new(100, 256, chunk), options).unwrap();
    let mut writing = engine.submit(request(vec![1], 4000, 0)).unwrap();
    assert!(matches!(next(&runtime, &mut writing), Some((_, Event::Started { .. }))));
    let before = engine.stats();
    let prompt: Vec<TokenId> = (0..2000).map(|i| i % 97).collect();
    let mut reading = engine.submit(request(prompt, 1, 0)).unwrap();
    while !matches!(next(&runtime, &mut reading), Some((_, Event::Done(_)))) {}
    let after = engine.stats();
    // A step for every 31 tokens of the prompt at least, each with a token of the other reply.
    let (steps, tokens) =
        (after.steps - before.steps, after.completion_tokens - before.completion_tokens);
    assert!(steps >= 2000 / (chunk as u64 - 1), "{steps} steps");
    assert!(tokens + 2 >= steps, "{tokens} tokens in {steps} steps");
    assert!(engine.stats().running > 0, "the other reply was being written all the time");
}
