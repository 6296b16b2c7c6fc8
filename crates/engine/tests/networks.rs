//! Networks with groups, experts and windows through the engine: load changes when tokens arrive, never which.
//!
//! Tokens of other requests share the experts of a step, and must not change each other; a layer with a window
//! reads part of the pages that a prefix left.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use std::path::Path;

use wf_engine::{
    DecodeMode, DraftParams, EngineHandle, EngineOptions, Event, Events, Limits, Request,
    SamplingParams, TokenId,
};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{Compute, Forward, HeadMode, KvDtype, Model, ModelOptions, SparseMode};

const VOCAB: usize = 259;

/// A dense network with scales by group, experts, and experts with windows.
const MODELS: [&str; 3] = ["weight_only/ternary-yarn", "experts/renormalized", "maple/windows"];

/// The conditions that requests run under.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    pages: usize,
    max_batch_tokens: usize,
    max_running: usize,
    threads: usize,
    decode: DecodeMode,
}

const ALONE: Conditions = Conditions {
    pages: 64,
    max_batch_tokens: 512,
    max_running: 1,
    threads: 2,
    decode: DecodeMode::Autoregressive,
};

const TOGETHER: Conditions = Conditions { pages: 256, max_running: 12, ..ALONE };

fn model(name: &str, conditions: Conditions) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let path = folder.join(name).with_extension("gguf");
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let options = ModelOptions {
        kv: KvDtype::F32,
        pages: conditions.pages,
        max_batch_tokens: conditions.max_batch_tokens,
        head: HeadMode::Auto,
        sparse: SparseMode::Auto,
        context_len: None,
        activations: None,
    };
    Model::load(&file, Compute::new(conditions.threads), options, &mut |_| {}).unwrap()
}

fn engine(name: &str, draft: Option<&str>, conditions: Conditions) -> EngineHandle {
    let draft = draft.map(|name| Box::new(model(name, conditions)) as Box<dyn Forward>);
    let options = EngineOptions { max_running: conditions.max_running, ..EngineOptions::default() };
    EngineHandle::start_with_draft(model(name, conditions), draft, options).unwrap()
}

/// Returns requests of many lengths, greedy and sampled; some share a prefix of two pages.
fn requests(decode: DecodeMode) -> Vec<Request> {
    (0..12)
        .map(|i| {
            let start = if i % 4 == 3 { 0 } else { i * 17 };
            let prompt = (0..1 + i * 23 % 90).map(|at| ((at * 31 + start) % VOCAB) as TokenId);
            let temperature = if i % 2 == 0 { 0.0 } else { 0.9 };
            let sampling =
                SamplingParams { temperature, seed: i as u64, ..SamplingParams::default() };
            let limits = Limits { max_tokens: 5 + i * 13 % 40, ..Limits::default() };
            Request { prompt: prompt.collect(), sampling, limits, decode, ..Request::default() }
        })
        .collect()
}

fn collect(mut events: Events) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    while let Some(event) = events.next_blocking() {
        if let Event::Tokens { tokens: picked, .. } = event {
            tokens.extend(picked.iter().map(|pick| pick.token));
        }
    }
    tokens
}

fn together(engine: &EngineHandle, decode: DecodeMode) -> Vec<Vec<TokenId>> {
    let events: Vec<_> = requests(decode).into_iter().map(|r| engine.submit(r).unwrap()).collect();
    events.into_iter().map(collect).collect()
}

/// Runs each request after the other on one thread.
fn solo(name: &str) -> Vec<Vec<TokenId>> {
    let engine = engine(name, None, Conditions { threads: 1, ..ALONE });
    let requests = requests(ALONE.decode).into_iter();
    requests.map(|request| collect(engine.submit(request).unwrap())).collect()
}

#[test]
fn threads_batches_chunks_preemption_and_cached_prefixes_change_nothing() {
    let cases = [
        TOGETHER,
        Conditions { threads: 3, ..TOGETHER },
        Conditions { max_batch_tokens: 25, ..TOGETHER },
        // Pages for one of the longer requests at a time.
        Conditions { pages: 6, max_batch_tokens: 64, ..TOGETHER },
    ];
    for name in MODELS {
        let expected = solo(name);
        let lengths: Vec<usize> = expected.iter().map(Vec::len).collect();
        assert!(lengths.iter().sum::<usize>() > 150, "{name}: too little to compare: {lengths:?}");
        for case in cases {
            let engine = engine(name, None, case);
            let found = together(&engine, case.decode);
            assert_eq!(found, expected, "{name}: {case:?}");
            let again = together(&engine, case.decode);
            assert_eq!(again, expected, "{name}: {case:?}, with the prefixes of the first run");
        }
    }
}

#[test]
fn drafts_of_a_model_and_of_the_prompt_change_nothing() {
    for name in MODELS {
        let expected = solo(name);
        // The first model drafts badly for the others, and perfectly for itself.
        for (by_model, by_lookup) in [(true, false), (false, true), (true, true)] {
            let decode = DecodeMode::Drafted(DraftParams::from_sources(by_model, by_lookup));
            let case = Conditions { decode, ..TOGETHER };
            let engine = engine(name, Some(MODELS[0]), case);
            assert_eq!(together(&engine, decode), expected, "{name}: {decode:?}");
        }
    }
}
