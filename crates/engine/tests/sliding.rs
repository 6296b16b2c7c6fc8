//! A window that slides over sequences longer than the context and the K/V cache: load changes when tokens arrive,
//! never which.

use std::path::Path;

use wf_engine::{
    DecodeMode, DiffusionParams, DraftParams, EmbeddingRequest, EngineHandle, EngineOptions, Event,
    GenerationRequest, Limits, ModelSource, OpenedModel, PromptInput, Request, RequestError,
    RunOptions, SamplingParams, TokenId, load_model, open_with_draft, state_count,
};
use wf_model::{AttentionMode, Forward, KvDtype, KvPool, Model, Pooling, Window};

use crate::common::{VOCAB, collect, request, run_together};

/// Neither is a whole number of pages.
const WINDOW: AttentionMode = AttentionMode::Window(Window { len: 70, sinks: 5 });

/// A sixth of the longest request.
const CONTEXT: usize = 128;

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
    max_batch_tokens: 128,
    max_running: 1,
    threads: 1,
    decode: DecodeMode::Autoregressive,
};

/// A network without recurrent layers.
const PLAIN: &str = "weight_only/ternary-yarn.gguf";

fn load(attention: AttentionMode, conditions: Conditions) -> Result<Model, String> {
    load_file(PLAIN, attention, conditions)
}

fn load_file(
    name: &str,
    attention: AttentionMode,
    conditions: Conditions,
) -> Result<Model, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name);
    let file = ModelSource::from(path.as_path()).open(&RunOptions::default().open).unwrap();
    let page = KvPool::size_for_mode(file.network(), KvDtype::F32, 1, attention);
    let context_len = Some(CONTEXT.min(file.info().context_len));
    let mut options = RunOptions {
        kv: KvDtype::F32,
        attention,
        context_len,
        threads: conditions.threads,
        max_batch_tokens: conditions.max_batch_tokens,
        max_running: conditions.max_running,
        ..RunOptions::default()
    };
    // States of recurrent layers are part of the K/V memory.
    let states = state_count(file.network(), &options).unwrap();
    let states = 2 * states * Model::state_bytes(file.network());
    options.kv_capacity = wf_engine::KvCapacity::Bytes(page * conditions.pages + states);
    load_model(&file, &options, &mut |_| {}).map_err(|error| error.to_string())
}

fn engine(attention: AttentionMode, conditions: Conditions) -> EngineHandle {
    let options = EngineOptions {
        max_running: conditions.max_running,
        context_len: Some(CONTEXT),
        ..EngineOptions::default()
    };
    EngineHandle::start(load(attention, conditions).unwrap(), options).unwrap()
}

/// Returns requests of up to six contexts, greedy and sampled; some share a prefix.
fn requests(decode: DecodeMode) -> Vec<Request> {
    (0..8)
        .map(|i| {
            let start = if i % 3 == 2 { 0 } else { i * 17 };
            Request { decode, ..request(i, start, 40 + i * 191 % 600, 30 + i * 53 % 150) }
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
    let few = Conditions { pages: 7, max_batch_tokens: 64, ..all };
    let cases = [
        all,
        Conditions { threads: 3, max_batch_tokens: 25, ..all },
        // Pages for one sequence at a time, and for the start of others.
        few,
        Conditions { pages: 8, ..few },
        Conditions { pages: 10, ..few },
        Conditions { pages: 9, decode: lookup, ..few },
        Conditions { decode: lookup, ..all },
    ];
    let expected = solo(WINDOW);
    assert!(expected.iter().map(Vec::len).sum::<usize>() > 400, "too little");
    let longer = AttentionMode::Window(Window { len: 100, sinks: 5 });
    assert!(solo(longer) != expected, "it does not slide");
    let mut preemptions = 0;
    for case in cases {
        let engine = engine(WINDOW, case);
        assert_eq!(run_together(&engine, requests(case.decode)), expected, "{case:?}");
        let again = run_together(&engine, requests(case.decode));
        assert_eq!(again, expected, "{case:?}, with the prefixes of the first run");
        preemptions += engine.stats().preemptions;
    }
    assert!(preemptions > 0, "pages run out");
}

/// A conversation goes on: what was computed for it is used again, although most of its pages are gone.
#[test]
fn a_prompt_that_goes_on_starts_where_the_last_one_ended() {
    let engine = engine(WINDOW, Conditions { pages: 10, ..ALONE });
    let mut prompt: Vec<TokenId> = (0..50).map(|at| (at * 7 % VOCAB) as TokenId).collect();
    let mut cached_tokens = Vec::new();
    for _ in 0..8 {
        let limits = Limits { max_tokens: 100, ..Limits::default() };
        let sampling = SamplingParams { temperature: 0.9, seed: 3, ..SamplingParams::default() };
        let request = Request { prompt: prompt.clone(), limits, sampling, ..Request::default() };
        let mut events = engine.submit(request).unwrap();
        let Some(Event::Started { cached }) = events.next_blocking() else {
            panic!("a request starts");
        };
        cached_tokens.push((cached, prompt.len()));
        prompt.extend(collect(events));
        prompt.extend(5..20);
    }
    assert!(prompt.len() > 5 * CONTEXT, "{} tokens", prompt.len());
    for (cached, len) in &cached_tokens[1..] {
        assert!(len - cached < 2 * 32 + 15, "{cached_tokens:?}");
    }
}

#[test]
fn a_sequence_within_the_window_is_dense() {
    let window = AttentionMode::Window(Window { len: 120, sinks: 8 });
    let request = || {
        let limits = Limits { max_tokens: 88, ..Limits::default() };
        Request { prompt: (3..43).collect(), limits, ..Request::default() }
    };
    let run = |attention| collect(engine(attention, ALONE).submit(request()).unwrap());
    assert_eq!(run(window), run(AttentionMode::Dense));
}

#[test]
fn limits_are_those_of_the_window() {
    let tokens = |len: usize| vec![7; len];
    let dense = engine(AttentionMode::Dense, ALONE);
    let request = || Request { prompt: tokens(CONTEXT + 1), ..Request::default() };
    assert!(matches!(dense.submit(request()), Err(RequestError::PromptTooLong { .. })));
    let sliding = engine(WINDOW, ALONE);
    assert_eq!((sliding.context_len(), sliding.max_len()), (CONTEXT, 1 << 20));
    let whole = Request { prompt: tokens((1 << 20) + 1), ..Request::default() };
    let Err(RequestError::PromptTooLong { limit, .. }) = sliding.submit(whole) else {
        panic!("a limit remains");
    };
    assert_eq!(limit, 1 << 20);
    // A caller with less memory than a window has what it would have without.
    assert_eq!(sliding.max_len_within(Some(74)), 74);
    assert_eq!(sliding.max_len_within(Some(75)), 1 << 20);
    let limits = Limits { max_tokens: usize::MAX, ..Limits::default() };
    let unlimited = sliding.submit(Request { limits, ..request() }).unwrap();
    assert!(collect(unlimited).len() <= CONTEXT, "no endless completion without a limit");
}

/// Opens the demo model, which fills masks, with a draft model or without.
fn demo(window: Window, draft: bool, max_batch_tokens: usize) -> OpenedModel {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let source = ModelSource::Path(path);
    let options = RunOptions {
        threads: 2,
        context_len: Some(CONTEXT),
        attention: AttentionMode::Window(window),
        max_batch_tokens,
        ..RunOptions::default()
    };
    let draft = draft.then_some(&source);
    open_with_draft(&source, draft, &options, &mut |_| {}).unwrap()
}

#[test]
fn blocks_and_draft_models_slide_as_well() {
    let window = Window { len: 70, sinks: 5 };
    let prompt: Vec<TokenId> = (0..300).map(|at| (at * 31 % 900 + 50) as TokenId).collect();
    let reply = |model: &OpenedModel, decode| {
        let generate = GenerationRequest {
            decode,
            max_tokens: Some(150),
            ignore_eos: true,
            ..GenerationRequest::new(PromptInput::Tokens(prompt.clone()))
        };
        let mut stream = model.frontend.generate(generate).unwrap();
        stream.by_ref().for_each(|piece| drop(piece.unwrap()));
        assert_eq!(stream.timings().out_of_sight, prompt.len() + stream.ids().len() + 1 - 75);
        (stream.ids().to_vec(), stream.timings().stats)
    };
    let (alone, drafted) = (demo(window, false, 128), demo(window, true, 40));
    let (plain, _) = reply(&alone, DecodeMode::Autoregressive);
    let by_model = DecodeMode::Drafted(DraftParams { adaptive: false, ..DraftParams::MODEL });
    let (same, stats) = reply(&drafted, by_model);
    assert_eq!(same, plain);
    assert!(stats.accepted * 2 > stats.drafted && stats.drafted > 50, "{stats:?}");

    let diffusion = DecodeMode::Diffusion(DiffusionParams::DEFAULT);
    let (blocks, _) = reply(&alone, diffusion);
    assert_eq!(reply(&demo(window, false, 33), diffusion).0, blocks);
    let long = DiffusionParams { block_len: Some(128), ..DiffusionParams::DEFAULT };
    let refused = alone.frontend.engine().check_mode(DecodeMode::Diffusion(long));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("blocks of 128, but --attention reads a window of 70"), "{message}");
}

/// Recurrent layers keep their state of the whole text while attention forgets.
#[test]
fn hybrids_of_recurrent_layers_slide_as_well() {
    let run = |conditions: Conditions| {
        let window = AttentionMode::Window(Window { len: 40, sinks: 5 });
        let model = load_file("qwen35/tiled.gguf", window, conditions).unwrap();
        let vocab_len = model.network().vocab_len as TokenId;
        let options = EngineOptions { max_running: 4, ..EngineOptions::default() };
        let engine = EngineHandle::start(model, options).unwrap();
        let request = |start: TokenId| {
            let prompt = (0..300).map(|at| (at * 31 + start) % vocab_len).collect();
            let limits = Limits { max_tokens: 60, ..Limits::default() };
            Request { prompt, limits, decode: conditions.decode, ..Request::default() }
        };
        let events: Vec<_> = [3, 5, 3].map(|start| engine.submit(request(start)).unwrap()).into();
        events.into_iter().map(collect).collect::<Vec<_>>()
    };
    let expected = run(ALONE);
    assert!(expected.iter().all(|tokens| !tokens.is_empty()) && expected[0] == expected[2]);
    let narrow = Conditions { max_batch_tokens: 30, pages: 7, ..ALONE };
    assert_eq!(run(narrow), expected);
    let decode = DecodeMode::from_name("lookup").unwrap();
    assert_eq!(run(Conditions { decode, ..ALONE }), expected);
    assert_eq!(run(Conditions { decode, ..narrow }), expected);
}

#[test]
fn texts_beyond_the_context_are_embedded() {
    let embed = |conditions| {
        let engine = engine(WINDOW, conditions);
        let tokens = (0..700).map(|at| (at * 31 % VOCAB) as TokenId).collect();
        let request = EmbeddingRequest::new(tokens);
        let mut events = engine.embed(Pooling::Mean, request).unwrap();
        let mut vectors = std::iter::from_fn(|| events.next_blocking());
        vectors.find_map(|event| match event {
            Event::Embedding(vector) => Some(vector),
            _ => None,
        })
    };
    let expected = embed(ALONE).unwrap();
    assert_eq!(embed(Conditions { pages: 7, max_batch_tokens: 30, ..ALONE }).unwrap(), expected);
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    let refused = |attention, pages| {
        load(attention, Conditions { pages, ..ALONE }).err().expect("it is refused")
    };
    let long = AttentionMode::Window(Window { len: 125, sinks: 4 });
    let message = refused(long, 64);
    assert!(
        message.contains(
            "--attention window=125,sinks=4 reads 129 positions: window and sinks must be at most the \
             context of 128 tokens together"
        ),
        "{message}"
    );
    let message = refused(WINDOW, 7);
    assert!(
        message.contains("for --attention window=70,sinks=5, 9 pages of 32 tokens"),
        "{message}"
    );
    let own = load_file("gemma3/windows.gguf", WINDOW, ALONE).err().expect("it is refused");
    assert!(own.contains("layers of the model have windows of their own"), "{own}");
    let model = load(WINDOW, ALONE).unwrap();
    assert_eq!(model.attention(), WINDOW);
}
