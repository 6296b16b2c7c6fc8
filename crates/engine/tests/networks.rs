//! A mixture of experts through the engine: load changes when tokens arrive, never which. Tokens of other
//! requests share the experts of a step, and must not change each other.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use std::path::Path;

use wf_engine::{
    EngineHandle, EngineOptions, Event, Events, Limits, Request, SamplingParams, TokenId,
};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{Compute, HeadMode, KvDtype, Model, ModelOptions, SparseMode};

const VOCAB: usize = 259;

fn engine(pages: usize, max_batch_tokens: usize, max_running: usize) -> EngineHandle {
    let path = "../../tests/data/experts/renormalized.gguf";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let options = ModelOptions {
        kv: KvDtype::F32,
        pages,
        max_batch_tokens,
        head: HeadMode::Auto,
        sparse: SparseMode::Auto,
        context_len: None,
        activations: None,
    };
    let model = Model::load(&file, Compute::new(2), options, &mut |_| {}).unwrap();
    EngineHandle::start(model, EngineOptions { max_running, ..EngineOptions::default() }).unwrap()
}

/// Returns requests of many lengths, greedy and sampled; some share a prefix of two pages.
fn requests() -> Vec<Request> {
    (0..12)
        .map(|i| {
            let start = if i % 4 == 3 { 0 } else { i * 17 };
            let prompt = (0..1 + i * 23 % 90).map(|at| ((at * 31 + start) % VOCAB) as TokenId);
            let temperature = if i % 2 == 0 { 0.0 } else { 0.9 };
            let sampling =
                SamplingParams { temperature, seed: i as u64, ..SamplingParams::default() };
            let limits = Limits { max_tokens: 5 + i * 13 % 40, ..Limits::default() };
            Request { prompt: prompt.collect(), sampling, limits, ..Request::default() }
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

fn together(engine: &EngineHandle) -> Vec<Vec<TokenId>> {
    let events: Vec<_> = requests().into_iter().map(|r| engine.submit(r).unwrap()).collect();
    events.into_iter().map(collect).collect()
}

fn solo() -> Vec<Vec<TokenId>> {
    let engine = engine(64, 512, 1);
    requests().into_iter().map(|request| collect(engine.submit(request).unwrap())).collect()
}

#[test]
fn batches_chunks_preemption_and_cached_prefixes_change_nothing() {
    let expected = solo();
    assert!(expected.iter().all(|tokens| !tokens.is_empty()), "every request has a completion");
    let lengths: Vec<usize> = expected.iter().map(Vec::len).collect();
    assert!(lengths.iter().sum::<usize>() > 150, "too little to compare: {lengths:?}");
    // The last has pages for one of the longer requests at a time.
    for (pages, max_batch_tokens, max_running) in [(256, 512, 12), (256, 25, 12), (6, 64, 12)] {
        let engine = engine(pages, max_batch_tokens, max_running);
        let case = format!("{pages} pages, steps of {max_batch_tokens}");
        assert_eq!(together(&engine), expected, "{case}");
        assert_eq!(together(&engine), expected, "{case}, with the prefixes of the first run");
    }
}
