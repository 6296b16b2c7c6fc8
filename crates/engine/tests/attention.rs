//! Selected pages through the engine: load changes when tokens arrive, never which.
//!
//! Prompts of several pages share prefixes; cached pages come with their summaries, preempted sequences compute
//! theirs again, and drafts that are not accepted leave none.

use std::path::Path;

use wf_engine::{
    DecodeMode, DraftParams, EngineHandle, EngineOptions, ModelSource, Request, RunOptions,
    TokenId, load_model,
};
use wf_model::{AttentionMode, Model};

use crate::common::{collect, request, run_together};

/// Each skips some of the pages of the longer requests.
const MODES: [AttentionMode; 3] =
    [AttentionMode::TopK(3), AttentionMode::Dynamic(0.2), AttentionMode::Threshold(0.5)];

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
    threads: 1,
    decode: DecodeMode::Autoregressive,
};

fn model(attention: AttentionMode, conditions: Conditions) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/weight_only/ternary-yarn.gguf");
    let file = ModelSource::from(path.as_path()).open(&RunOptions::default().open).unwrap();
    let page =
        wf_model::KvPool::size_for_mode(file.network(), wf_model::KvDtype::F32, 1, attention);
    let options = RunOptions {
        kv: wf_model::KvDtype::F32,
        attention,
        threads: conditions.threads,
        max_batch_tokens: conditions.max_batch_tokens,
        kv_capacity: wf_engine::KvCapacity::Bytes(page * conditions.pages),
        ..RunOptions::default()
    };
    load_model(&file, &options, &mut |_| {}).unwrap()
}

fn engine(attention: AttentionMode, conditions: Conditions) -> EngineHandle {
    let options = EngineOptions { max_running: conditions.max_running, ..EngineOptions::default() };
    EngineHandle::start(model(attention, conditions), options).unwrap()
}

/// Returns requests of up to eight pages, greedy and sampled; some share a prefix.
fn requests(decode: DecodeMode) -> Vec<Request> {
    (0..8)
        .map(|i| {
            let start = if i % 3 == 2 { 0 } else { i * 17 };
            Request { decode, ..request(i, start, 60 + i * 53 % 170, 20 + i * 13 % 40) }
        })
        .collect()
}

/// Runs each request after the other, without the pages of those before.
fn solo(attention: AttentionMode) -> Vec<Vec<TokenId>> {
    let run = |request| collect(engine(attention, ALONE).submit(request).unwrap());
    requests(ALONE.decode).into_iter().map(run).collect()
}

#[test]
fn threads_batches_chunks_preemption_cached_prefixes_and_drafts_change_nothing() {
    let all = Conditions { pages: 256, max_running: 8, threads: 2, ..ALONE };
    let lookup = DecodeMode::Drafted(DraftParams::from_sources(false, true));
    let cases = [
        all,
        Conditions { threads: 3, max_batch_tokens: 25, ..all },
        // Pages for little more than one of the longer requests at a time.
        Conditions { pages: 10, max_batch_tokens: 64, ..all },
        Conditions { decode: lookup, ..all },
    ];
    let dense = solo(AttentionMode::Dense);
    for mode in MODES {
        let expected = solo(mode);
        assert!(expected.iter().map(Vec::len).sum::<usize>() > 150, "{mode}: too little");
        if mode == AttentionMode::TopK(3) {
            assert!(expected != dense, "{mode} skips nothing");
        }
        for case in cases {
            let engine = engine(mode, case);
            assert_eq!(run_together(&engine, requests(case.decode)), expected, "{mode}: {case:?}");
            let again = run_together(&engine, requests(case.decode));
            assert_eq!(again, expected, "{mode}: {case:?}, with the prefixes of the first run");
        }
    }
}

#[test]
fn as_many_pages_as_a_sequence_has_are_dense_attention() {
    assert_eq!(solo(AttentionMode::TopK(64)), solo(AttentionMode::Dense));
}
