//! A text has one vector: whatever else runs, however it is cut, wherever its K/V comes from.
//!
//! The fake model's hidden states depend on every token a row sees, read back through the pages.
//! The demo model shows the same of real arithmetic, bit for bit.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use std::path::Path;

use wf_engine::fake::FakeModel;
use wf_engine::{
    Embed, EngineHandle, EngineOptions, Event, Events, FinishReason, Frontend, Generate, Input,
    Limits, ModelSource, Pooling, Refused, Request, RunOptions, TokenId, open_model,
};
use wf_model::{BlockDiffusion, Compute};

const VOCAB: usize = 50;

fn engine(model: FakeModel, max_running: usize) -> EngineHandle {
    EngineHandle::start(model, EngineOptions { max_running, ..EngineOptions::default() }).unwrap()
}

fn plain(pages: usize, max_batch_tokens: usize) -> FakeModel {
    FakeModel::new(VOCAB, pages, max_batch_tokens)
}

/// A model whose tokens see the whole of their block.
fn blocks(pages: usize, max_batch_tokens: usize) -> FakeModel {
    plain(pages, max_batch_tokens).with_blocks(BlockDiffusion {
        mask_token: 49,
        block_len: 8,
        sub_block_len: None,
        token_shift: false,
        causal_context: false,
    })
}

/// Texts of many lengths; some begin alike.
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
    let embed = |tokens| engine.embed(pooling, Embed::new(tokens)).unwrap();
    let events: Vec<_> = texts().into_iter().map(embed).collect();
    events.into_iter().map(vector).collect()
}

#[test]
fn a_vector_is_what_its_tokens_came_to() {
    let alone = |pooling, tokens: &[TokenId]| {
        let engine = engine(plain(64, 512), 1);
        vector(engine.embed(pooling, Embed::new(tokens.to_vec())).unwrap())
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
fn replies_beside_it_change_nothing_and_are_not_changed() {
    let request = |i: usize| Request {
        prompt: texts()[i].clone(),
        limits: Limits { max_tokens: 40, ..Limits::default() },
        ..Request::default()
    };
    let tokens = |mut events: Events| {
        let mut tokens = Vec::new();
        while let Some(event) = events.next_blocking() {
            if let Event::Tokens { picked, .. } = event {
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
fn a_text_may_fill_the_context_and_no_more() {
    let engine = engine(plain(2, 16), 1);
    let embed = |tokens| engine.embed(Pooling::Last, Embed::new(tokens));
    assert_eq!(vector(embed(vec![1; 64]).unwrap()).len(), 4);
    let refused = |tokens| embed(tokens).err();
    assert_eq!(refused(vec![1; 65]), Some(Refused::TextTooLong { tokens: 65, limit: 64 }));
    assert_eq!(refused(Vec::new()), Some(Refused::EmptyPrompt));
    assert_eq!(refused(vec![1, 50]), Some(Refused::UnknownToken { token: 50, last: 49 }));
}

#[test]
fn a_gone_listener_frees_its_place() {
    let engine = engine(plain(4, 1), 1);
    for _ in 0..50 {
        drop(engine.embed(Pooling::Last, Embed::new(vec![1; 120])).unwrap());
    }
    vector(engine.embed(Pooling::Last, Embed::new(vec![2; 120])).unwrap());
    assert!(engine.stats().steps < 51 * 120, "those whom nobody waits for are not read to the end");
}

fn demo(options: &RunOptions) -> Frontend {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    open_model(&ModelSource::Path(path), options, &mut |_| {}).unwrap().frontend
}

/// The bits of vectors of three texts by every pooling, all asked for at once.
fn demo_vectors(frontend: &Frontend) -> Vec<Vec<u32>> {
    let long = "A dog ran after the cat. ".repeat(4);
    let texts = ["A cat", &long, "Once upon a time, a dog ran after a cat"];
    let started = Pooling::ALL.map(|pooling| {
        texts.map(|text| {
            let tokens = frontend.text().embed_ids(text);
            frontend.embed(Embed { pooling: Some(pooling), ..Embed::new(tokens) }).unwrap()
        })
    });
    let bits = |vector: Vec<f32>| vector.into_iter().map(f32::to_bits).collect();
    started.into_iter().flatten().map(|one| bits(one.vector_blocking().unwrap())).collect()
}

#[test]
fn the_demo_model_says_the_same_bits_on_every_cpu_and_under_every_load() {
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
fn vectors_have_length_one_and_as_many_numbers_as_asked_for() {
    let frontend = demo(&RunOptions::default());
    let tokens = frontend.text().embed_ids("Once upon a time there was a cat");
    let vector = |dimensions| {
        let embed = Embed { dimensions, ..Embed::new(tokens.clone()) };
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
fn what_a_vector_computes_helps_a_reply() {
    let frontend = demo(&RunOptions::default());
    let text = "One day a small dog went to the park with his mom. ".repeat(4);
    let tokens = frontend.text().embed_ids(&text);
    frontend.embed(Embed::new(tokens)).unwrap().vector_blocking().unwrap();
    let generate = Generate { max_tokens: Some(1), ..Generate::new(Input::Raw(text)) };
    let mut reply = frontend.generate(generate).unwrap();
    reply.by_ref().for_each(|piece| drop(piece.unwrap()));
    assert!(reply.timings().cached_tokens >= 32, "{:?}", reply.timings());
}
