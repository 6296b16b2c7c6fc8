//! A text has one vector, independent of load, chunking and cache state.
//!
//! The fake model's hidden states depend on every token a row attends to, read back through the pages. The demo
//! model confirms it for real arithmetic, bit for bit.

use std::path::Path;

use wf_engine::{
    EmbeddingRequest, EngineHandle, EngineOptions, Event, Events, FinishReason, Frontend,
    GenerationRequest, Limits, ModelSource, Pooling, PromptInput, Request, RequestError,
    RunOptions, TokenId, open_model,
};
use wf_model::{BlockDiffusion, Compute};

use crate::fake::FakeModel;

const VOCAB: usize = 50;

fn engine(model: FakeModel, max_running: usize) -> EngineHandle {
    EngineHandle::start(model, EngineOptions { max_running, ..EngineOptions::default() }).unwrap()
}

fn plain(pages: usize, max_batch_tokens: usize) -> FakeModel {
    FakeModel::new(VOCAB, pages, max_batch_tokens)
}

/// Returns a model whose tokens attend to their whole block.
fn blocks(pages: usize, max_batch_tokens: usize) -> FakeModel {
    plain(pages, max_batch_tokens).with_blocks(BlockDiffusion {
        mask_token: 49,
        block_len: 8,
        sub_block_len: None,
        token_shift: false,
        causal_context: false,
    })
}

/// Returns texts of many lengths, some with common prefixes.
fn texts() -> Vec<Vec<TokenId>> {
    let text = |i: usize| {
        let token = move |at: usize| ((at * 31 + i % 4 * 17) % (VOCAB - 1)) as TokenId;
        (0..1 + i * 37 % 150).map(token).collect()
    };
    (0..24).map(text).collect()
}

fn vector(mut events: Events) -> Vec<f32> {
    let mut found = None;
    loop {
        match events.next_blocking().expect("it ends with Done") {
            Event::Started { .. } | Event::Progress { .. } => assert!(found.is_none()),
            Event::Embedding(vector) => assert!(found.replace(vector).is_none()),
            Event::Done(FinishReason::Stop) => return found.unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

fn together(engine: &EngineHandle, pooling: Pooling) -> Vec<Vec<f32>> {
    let embed = |tokens| engine.embed(pooling, EmbeddingRequest::new(tokens)).unwrap();
    let events: Vec<_> = texts().into_iter().map(embed).collect();
    events.into_iter().map(vector).collect()
}

#[test]
fn a_vector_pools_the_hidden_states_of_its_tokens() {
    let alone = |pooling, tokens: &[TokenId]| {
        let engine = engine(plain(64, 512), 1);
        vector(engine.embed(pooling, EmbeddingRequest::new(tokens.to_vec())).unwrap())
    };
    let text = &texts()[2];
    // In a causal model, a token's hidden state is the last one of the text that ends with it.
    let states: Vec<_> = (1..=text.len()).map(|len| alone(Pooling::Last, &text[..len])).collect();
    assert_eq!(alone(Pooling::First, text), states[0]);
    assert_eq!(alone(Pooling::Last, text), states[text.len() - 1]);
    let sum = |at: usize| states.iter().map(|state| state[at]).fold(0.0, |sum, one| sum + one);
    let mean: Vec<f32> = (0..4).map(|at| sum(at) / text.len() as f32).collect();
    assert_eq!(alone(Pooling::Mean, text), mean);
    assert!(states.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn load_chunks_pages_and_cache_change_nothing() {
    for fake in [plain, blocks] {
        for pooling in Pooling::ALL {
            let alone = engine(fake(64, 512), 1);
            let solo = together(&alone, pooling);
            assert_eq!(together(&alone, pooling), solo, "from the cache");
            for (pages, batch, running) in [(256, 512, 24), (256, 64, 24), (64, 8, 24), (6, 48, 9)]
            {
                let busy = engine(fake(pages, batch), running);
                let found = together(&busy, pooling);
                assert_eq!(found, solo, "{pooling:?}: {pages} pages, steps of {batch}");
            }
        }
    }
}

#[test]
fn only_the_last_hidden_state_needs_no_tokens_that_are_cached() {
    let cached = |engine: &EngineHandle, pooling| {
        let request = EmbeddingRequest::new((0..100).map(|at| at % 49).collect());
        let mut events = engine.embed(pooling, request).unwrap();
        let started = events.next_blocking();
        while events.next_blocking().is_some() {}
        match started {
            Some(Event::Started { cached }) => cached,
            other => panic!("{other:?}"),
        }
    };
    for (pooling, expected) in [(Pooling::Last, 96), (Pooling::Mean, 0), (Pooling::First, 0)] {
        let engine = engine(plain(64, 512), 1);
        assert_eq!((cached(&engine, pooling), cached(&engine, pooling)), (0, expected));
    }
}

#[test]
fn completions_and_embeddings_do_not_affect_each_other() {
    let request = |i: usize| Request {
        prompt: texts()[i].clone(),
        limits: Limits { max_tokens: 40, ..Limits::default() },
        ..Request::default()
    };
    let tokens = |mut events: Events| {
        let mut tokens = Vec::new();
        while let Some(event) = events.next_blocking() {
            if let Event::Tokens { tokens: picked, .. } = event {
                tokens.extend(picked.iter().map(|picked| picked.token));
            }
        }
        tokens
    };
    let alone = engine(plain(64, 512), 1);
    let solo = together(&alone, Pooling::Mean);
    let replies: Vec<_> = (0..8).map(|i| tokens(alone.submit(request(i)).unwrap())).collect();
    assert!(replies.iter().all(|tokens| tokens.len() == 40));

    let busy = engine(plain(24, 32), 16);
    let writing: Vec<_> = (0..8).map(|i| busy.submit(request(i)).unwrap()).collect();
    assert_eq!(together(&busy, Pooling::Mean), solo);
    assert_eq!(writing.into_iter().map(tokens).collect::<Vec<_>>(), replies);
}

#[test]
fn a_text_may_fill_the_context_but_not_exceed_it() {
    let engine = engine(plain(2, 16), 1);
    let embed = |tokens| engine.embed(Pooling::Last, EmbeddingRequest::new(tokens));
    assert_eq!(vector(embed(vec![1; 64]).unwrap()).len(), 4);
    let refused = |tokens| embed(tokens).err();
    assert_eq!(refused(vec![1; 65]), Some(RequestError::TextTooLong { tokens: 65, limit: 64 }));
    assert_eq!(refused(Vec::new()), Some(RequestError::EmptyPrompt));
    assert_eq!(refused(vec![1, 50]), Some(RequestError::UnknownToken { token: 50, last: 49 }));
}

#[test]
fn an_abandoned_request_frees_its_slot() {
    let engine = engine(plain(4, 1), 1);
    for _ in 0..50 {
        drop(engine.embed(Pooling::Last, EmbeddingRequest::new(vec![1; 120])).unwrap());
    }
    vector(engine.embed(Pooling::Last, EmbeddingRequest::new(vec![2; 120])).unwrap());
    assert!(engine.stats().steps < 51 * 120, "abandoned requests are not processed to the end");
}

fn demo(options: &RunOptions) -> Frontend {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    open_model(&ModelSource::Path(path), options, &mut |_| {}).unwrap().frontend
}

/// Returns the bits of the vectors of three texts by every pooling, computed together.
fn demo_vectors(frontend: &Frontend) -> Vec<Vec<u32>> {
    let long = "A dog ran after the cat. ".repeat(4);
    let texts = ["A cat", &long, "Once upon a time, a dog ran after a cat"];
    let started = Pooling::ALL.map(|pooling| {
        texts.map(|text| {
            let tokens = frontend.text().embed_ids(text);
            frontend
                .embed(EmbeddingRequest { pooling: Some(pooling), ..EmbeddingRequest::new(tokens) })
                .unwrap()
        })
    });
    let bits = |vector: Vec<f32>| vector.into_iter().map(f32::to_bits).collect();
    started.into_iter().flatten().map(|one| bits(one.vector_blocking().unwrap())).collect()
}

#[test]
fn the_demo_model_gives_the_same_bits_on_every_cpu_and_load() {
    let first = demo_vectors(&demo(&RunOptions { max_running: 1, ..RunOptions::default() }));
    for (at, isa) in Compute::supported().enumerate() {
        let (threads, max_batch_tokens) = [(1, 64), (2, 7)][at % 2];
        let options =
            RunOptions { isa: Some(isa), threads, max_batch_tokens, ..RunOptions::default() };
        let frontend = demo(&options);
        assert_eq!(demo_vectors(&frontend), first, "{isa}, {threads} threads");
        assert_eq!(demo_vectors(&frontend), first, "{isa}, from the cache");
    }
}

#[test]
fn vectors_have_length_one_and_the_requested_dimensions() {
    let frontend = demo(&RunOptions::default());
    let tokens = frontend.text().embed_ids("Once upon a time there was a cat");
    let vector = |dimensions| {
        let embed = EmbeddingRequest { dimensions, ..EmbeddingRequest::new(tokens.clone()) };
        frontend.embed(embed).unwrap().vector_blocking().unwrap()
    };
    let whole = vector(None);
    assert_eq!(whole.len(), frontend.embedding_len());
    let short = vector(Some(16));
    assert_eq!(short.len(), 16);
    for vector in [&whole, &short] {
        let square: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
        assert!((square - 1.0).abs() < 1e-6, "{square}");
    }
    // The same direction in fewer dimensions.
    let ratio = f64::from(whole[0]) / f64::from(short[0]);
    let same =
        |(long, short): (&f32, &f32)| (f64::from(*long) - ratio * f64::from(*short)).abs() < 1e-6;
    assert!(whole.iter().zip(&short).all(same));
}

#[test]
fn an_embedding_fills_the_cache_for_completions() {
    let frontend = demo(&RunOptions::default());
    let text = "One day a small dog went to the park with his mom. ".repeat(4);
    let tokens = frontend.text().embed_ids(&text);
    frontend.embed(EmbeddingRequest::new(tokens)).unwrap().vector_blocking().unwrap();
    let generate = GenerationRequest {
        max_tokens: Some(1),
        ..GenerationRequest::new(PromptInput::Text(text))
    };
    let mut reply = frontend.generate(generate).unwrap();
    reply.by_ref().for_each(|piece| drop(piece.unwrap()));
    assert!(reply.timings().cached_tokens >= 32, "{:?}", reply.timings());
}
