//! Exact algorithms of the output head give the same tokens.

use std::path::Path;

use wf_engine::{
    EngineHandle, EngineOptions, Event, Limits, Request, RunOptions, SamplingParams, TokenId,
    load_model,
};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{HeadCounts, HeadMode};

struct Demo {
    engine: EngineHandle,
    counts: Vec<(&'static str, std::sync::Arc<HeadCounts>)>,
}

fn demo(head: HeadMode) -> Demo {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let options = RunOptions {
        threads: 2,
        context_len: Some(256),
        max_batch_tokens: 64,
        head,
        ..RunOptions::default()
    };
    let model = load_model(&file, &options, &mut |_| {}).unwrap();
    let counts = model.head_counts();
    Demo { engine: EngineHandle::start(model, EngineOptions::default()).unwrap(), counts }
}

/// Returns requests: greedy, sampled from few and from many tokens, with and without penalties.
fn requests() -> Vec<Request> {
    (0..40_u64)
        .map(|seed| {
            let temperature = [0.0, 0.7, 1.0, 3.0][seed as usize % 4];
            let sampling = SamplingParams {
                temperature,
                top_k: [50, 1, 200, 7][seed as usize / 4 % 4],
                top_p: if seed % 3 == 1 { 0.9 } else { 1.0 },
                repetition_penalty: if seed % 5 == 2 { 1.2 } else { 1.0 },
                seed,
                ..SamplingParams::default()
            };
            let prompt = vec![1, 5 + seed as TokenId, 300 + 7 * seed as TokenId];
            let limits = Limits { max_tokens: 12, ..Limits::default() };
            Request { prompt, sampling, limits, ..Request::default() }
        })
        .collect()
}

fn replies(demo: &Demo) -> Vec<Vec<TokenId>> {
    // Together, so that one scan covers rows of different requests.
    let events: Vec<_> = requests().into_iter().map(|r| demo.engine.submit(r).unwrap()).collect();
    let reply = |mut events: wf_engine::Events| {
        let mut tokens = Vec::new();
        while let Some(event) = events.next_blocking() {
            if let Event::Tokens { tokens: picked, .. } = event {
                tokens.extend(picked.iter().map(|picked| picked.token));
            }
        }
        tokens
    };
    events.into_iter().map(reply).collect()
}

#[test]
fn scans_change_no_token() {
    let expected = replies(&demo(HeadMode::Full));
    assert!(expected.iter().all(|tokens| tokens.len() == 12));
    for mode in [HeadMode::Auto, HeadMode::Scan, HeadMode::Scan4] {
        assert_eq!(replies(&demo(mode)), expected, "{mode}");
    }
}

#[test]
fn a_head_check_compares_every_sampled_token() {
    let demo = demo(HeadMode::Check);
    assert_eq!(replies(&demo).len(), 40);
    assert_eq!(demo.counts.len(), 2);
    for (name, counts) in &demo.counts {
        assert_eq!(counts.checked.get(), 40 * 12, "{name}");
        assert_eq!(counts.picks.get() + counts.whole.get(), 40 * 12, "{name}");
        assert!(counts.candidates.get() >= counts.picks.get(), "{name}");
    }
}

#[test]
fn int8_logits_are_nearly_as_good() {
    let replies = replies(&demo(HeadMode::Int8));
    assert!(replies.iter().all(|tokens| tokens.len() == 12));
}
