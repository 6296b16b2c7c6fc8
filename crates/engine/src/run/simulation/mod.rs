//! The engine loop under simulation: random requests, cancellations, panics, slow steps, a full queue, few pages.
//!
//! A run has one thread and a clock of its own, so it depends on its seed alone, and a failure names the seed:
//! `WF_SIMULATION_SEED=7 cargo test -p wf-engine simulation` runs that one again. `WF_SIMULATIONS` is the number
//! of seeds. The model is the fake one of the integration tests, whose logits depend on every token that a row
//! attends to, so a page in two hands changes a completion.

mod client;
#[path = "../../../tests/fake/mod.rs"]
mod fake;
mod faulty;
mod random;
mod report;
mod requests;
mod world;

use std::ops::Range;

use client::{Answer, Client};
use fake::FakeModel;
use faulty::{Fault, Faulty};
use report::Report;
use requests::{Task, VOCAB};
use wf_model::{Forward, Pooling, TokenId};
use world::World;

use super::Engine;
use crate::decode::{DecodeMode, DiffusionParams, UnmaskRule};
use crate::events::MAX_UNREAD;
use crate::handle::EngineHandle;
use crate::options::EngineOptions;
use crate::output::{FinishReason, Limits};
use crate::request::{EmbeddingRequest, Event, Request};
use crate::schedule::Origin;
use crate::sequence::OVERDUE;

/// Maximum number of turns until all requests have ended.
const MAX_TURNS: usize = 50_000;

#[expect(clippy::disallowed_methods, reason = "how long a test runs is the tester's choice")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn seeds() -> Range<u64> {
    match number("WF_SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WF_SIMULATIONS").unwrap_or(64),
    }
}

/// Runs the loop for some turns, or until nothing is left to do.
fn take_turns<F: Forward>(engine: &mut Engine<F>, max: usize) {
    for _ in 0..max {
        // An idle engine would wait for a message.
        if !engine.has_work() {
            return;
        }
        engine.receive();
        engine.turn();
    }
}

/// Requests of one caller with these lengths of prompt and completion.
fn clients<const N: usize>(handle: &EngineHandle, lens: [(usize, usize); N]) -> [Client; N] {
    lens.map(|(prompt_len, max_tokens)| {
        let limits = Limits { max_tokens, ..Limits::default() };
        let origin = Origin { request: prompt_len as u64, ..Origin::default() };
        let prompt = (0..prompt_len).map(|at| (at % VOCAB) as TokenId).collect();
        let task =
            Task::Generate(Box::new(Request { prompt, limits, origin, ..Request::default() }));
        let events = task.submit(handle).unwrap();
        Client::new(task.clone(), task.alone(handle), events)
    })
}

/// Runs a seed. The panics of the model print nothing, so a message on the terminal is a failure.
fn simulate(seed: u64) -> Report {
    let run = std::panic::catch_unwind(|| World::new(seed).run());
    run.unwrap_or_else(|_| panic!("run it again with WF_SIMULATION_SEED={seed}"))
}

#[test]
fn requests_end_once_and_as_alone_whatever_happens() {
    let mut total = Report::default();
    seeds().for_each(|seed| total.merge(&simulate(seed)));
    println!("{total:#?}");
    if seeds().count() >= 64 {
        total.assert_complete();
    }
}

#[test]
fn requests_with_a_window_end_as_alone_whatever_happens() {
    let mut total = Report::default();
    for seed in seeds() {
        let run = std::panic::catch_unwind(|| World::sliding(seed).run());
        let report = run.unwrap_or_else(|_| panic!("run it again with WF_SIMULATION_SEED={seed}"));
        total.merge(&report);
    }
    println!("{total:#?}");
    if seeds().count() >= 64 {
        total.assert_complete();
    }
}

#[test]
fn a_seed_reproduces_its_run() {
    for seed in seeds().take(8) {
        assert_eq!(simulate(seed), simulate(seed), "seed {seed}");
    }
}

#[test]
fn a_request_that_ended_before_its_step_panicked_ends_once() {
    let model = Faulty::once(FakeModel::new(VOCAB, 8, 64), Fault::WhileRead);
    let (handle, mut engine) = EngineHandle::create(model, None, EngineOptions::default());
    let limits = Limits { max_tokens: 1, ..Limits::default() };
    let short = Request { prompt: vec![1, 2], limits, ..Request::default() };
    let tasks = [
        Task::Generate(Box::new(short)),
        Task::Embed(Pooling::Last, EmbeddingRequest::new(vec![3, 4])),
    ];
    let mut clients = tasks.map(|task| {
        let events = task.submit(&handle).unwrap();
        Client::new(task, Answer::default(), events)
    });
    take_turns(&mut engine, 1);
    clients.iter_mut().for_each(Client::receive);
    let reasons = clients.map(|client| client.seen.reason);
    assert_eq!(reasons, [Some(FinishReason::Length), Some(FinishReason::Failed)]);
}

/// A reader that never reads holds the tokens of its completion, and a bounded number of other events.
#[test]
fn an_unread_request_holds_its_tokens_and_few_reports() {
    let model = FakeModel::new(VOCAB, 32, 16).with_blocks(requests::BLOCKS);
    let (handle, mut engine) = EngineHandle::create(model, None, EngineOptions::default());
    let slow = DiffusionParams {
        preview: true,
        rule: UnmaskRule::Threshold(1.0),
        ..DiffusionParams::DEFAULT
    };
    let limits = Limits { max_tokens: 400, ..Limits::default() };
    let decode = DecodeMode::Diffusion(slow);
    let prompt = (0..200).map(|at| (at % VOCAB) as TokenId).collect();
    let request = Request { prompt, limits, decode, ..Request::default() };
    let mut events = handle.submit(request).unwrap();
    take_turns(&mut engine, MAX_TURNS);
    assert!(handle.stats().steps > 2 * MAX_UNREAD as u64, "{:?}", handle.stats());
    let (mut reports, mut tokens) = (0, 0);
    while let Some(event) = events.next_blocking() {
        match event {
            Event::Progress { .. } | Event::Preview(_) => reports += 1,
            Event::Tokens { tokens: more, .. } => tokens += more.len(),
            _ => {}
        }
    }
    assert_eq!(tokens, 400, "no token is lost");
    assert!((1..=MAX_UNREAD).contains(&reports), "{reports}");
}

/// With one sequence in each step, one that decodes comes before another that reads its prompt. If it then needs a
/// page that the other has, it must not keep that one from running.
#[test]
fn a_sequence_without_pages_does_not_stop_the_one_that_has_them() {
    let model = FakeModel::new(VOCAB, 4, 1);
    let options = EngineOptions { max_running: 1, ..EngineOptions::default() };
    let (handle, mut engine) = EngineHandle::create(model, None, options);
    let [mut long] = clients(&handle, [(90, 2)]);
    take_turns(&mut engine, 70);
    let [mut short] = clients(&handle, [(2, 60)]);
    // Both have waited for long, so neither gives up its pages.
    engine.running[0].steps_without_pages = OVERDUE;
    take_turns(&mut engine, 4 * OVERDUE);
    for client in [&mut long, &mut short] {
        client.receive();
        assert_eq!(client.seen.reason, Some(FinishReason::Length), "{:?}", handle.stats());
        client.check();
    }
}

#[test]
fn a_sequence_starts_when_there_are_pages_for_its_tokens_that_are_not_cached() {
    let request = |start: usize, len: usize| {
        let prompt = (start..start + len).map(|at| (at % VOCAB) as TokenId).collect();
        let limits = Limits { max_tokens: 2, ..Limits::default() };
        Request { prompt, limits, ..Request::default() }
    };
    // One of four pages is free, and 71 tokens need three. Two are cached if the prompts begin alike.
    for (start, running) in [(0, 2), (7, 1)] {
        let model = FakeModel::new(VOCAB, 4, 128);
        let (handle, mut engine) = EngineHandle::create(model, None, EngineOptions::default());
        let _first = handle.submit(request(0, 90)).unwrap();
        take_turns(&mut engine, 1);
        let _second = handle.submit(request(start, 70)).unwrap();
        engine.receive();
        engine.admit();
        assert_eq!(engine.running.len(), running, "a prompt from {start}");
    }
}

#[test]
fn the_last_of_several_has_no_share_while_it_lacks_more_pages_than_there_are() {
    let shares = |missing_pages: &[usize]| {
        let model = FakeModel::new(VOCAB, missing_pages.len() + 2, 64);
        let (handle, mut engine) = EngineHandle::create(model, None, EngineOptions::default());
        let _clients: Vec<_> =
            missing_pages.iter().flat_map(|_| clients(&handle, [(2, 50)])).collect();
        take_turns(&mut engine, 1);
        assert_eq!((engine.running.len(), engine.store.available()), (missing_pages.len(), 2));
        for (sequence, missing) in engine.running.iter_mut().zip(missing_pages) {
            sequence.missing_pages = *missing;
        }
        engine.divide()
    };
    assert_eq!(shares(&[0, 3]), [1, 0]);
    assert_eq!(shares(&[0, 2]), [1, 1], "as many as there are");
    assert_eq!(shares(&[3, 0]), [1, 1], "the first preempts the last");
    assert_eq!(shares(&[3]), [1], "nobody else could free a page");
}
