//! A draft model may guess well, badly or not at all: the replies are those of the first model alone.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use wf_engine::fake::FakeModel;
use wf_engine::{
    DecodeMode, Drafting, EngineHandle, EngineOptions, Event, Limits, Request, SamplingParams,
    TokenId, Work,
};
use wf_formats::ModelConfig;
use wf_model::{Forward, Logits, Segment};

const VOCAB: usize = 50;

/// The fake model, which now and then says something else.
struct Forgetful {
    fake: FakeModel,
    /// At every position that this divides.
    every: usize,
}

impl Forward for Forgetful {
    fn config(&self) -> &ModelConfig {
        self.fake.config()
    }

    fn max_batch_tokens(&self) -> usize {
        self.fake.max_batch_tokens()
    }

    fn pages(&self) -> usize {
        self.fake.pages()
    }

    fn hidden_state(&self, token: usize, out: &mut [f32]) {
        self.fake.hidden_state(token, out);
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        self.fake.forward(batch, logits);
        let rows = batch.iter().flat_map(|s| s.want.iter().map(|want| s.start + want));
        for (row, position) in rows.collect::<Vec<_>>().into_iter().enumerate() {
            if (position + 1) % self.every == 0 {
                logits.rows_mut(row, 1).reverse();
            }
        }
    }
}

/// A draft model that agrees but at every `every`th position.
fn draft(every: usize, vocab: usize, pages: usize, step: usize) -> Box<dyn Forward> {
    Box::new(Forgetful { fake: FakeModel::new(vocab, pages, step), every })
}

fn engine(draft: Option<Box<dyn Forward>>, pages: usize, step: usize) -> EngineHandle {
    let model = FakeModel::new(VOCAB, pages, step);
    EngineHandle::start_with_draft(model, draft, EngineOptions::default()).unwrap()
}

/// A reply, and what it took.
fn reply(events: &mut wf_engine::Events) -> (Vec<TokenId>, Work) {
    let (mut tokens, mut last) = (Vec::new(), Work::default());
    loop {
        match events.next_blocking().expect("a reply ends with Done") {
            Event::Tokens { picked, work } => {
                tokens.extend(picked.iter().map(|p| p.token));
                last = work;
            }
            Event::Done(_) => return (tokens, last),
            _ => {}
        }
    }
}

fn replies(engine: &EngineHandle, decode: DecodeMode) -> Vec<(Vec<TokenId>, Work)> {
    let requests = (0..24_usize).map(|i| {
        let sampling = SamplingParams {
            temperature: [0.0, 0.7, 1.5][i % 3],
            seed: i as u64,
            top_k: if i % 4 == 2 { 7 } else { 0 },
            repetition_penalty: if i % 5 == 0 { 1.3 } else { 1.0 },
            logit_bias: if i % 7 == 0 { vec![(49, 2.0)] } else { vec![] },
            ..SamplingParams::default()
        };
        let max_tokens = 1 + i * 13 % 60;
        let limits = Limits { max_tokens, stop_tokens: vec![i as TokenId], ..Limits::default() };
        // Some begin alike, over more than a page.
        let prompt = (0..1 + i * 37 % 150).map(|at| (at * 31 % 47) as TokenId).collect();
        Request { prompt, sampling, limits, decode, ..Request::default() }
    });
    let events: Vec<_> = requests.map(|request| engine.submit(request).unwrap()).collect();
    events.into_iter().map(|mut events| reply(&mut events)).collect()
}

fn tokens(replies: &[(Vec<TokenId>, Work)]) -> Vec<&[TokenId]> {
    replies.iter().map(|(tokens, _)| &tokens[..]).collect()
}

#[test]
fn no_draft_model_changes_a_reply() {
    let plain = replies(&engine(None, 256, 128), DecodeMode::Autoregressive);
    let modes = ["drafted", "drafted+lookup", "lookup", "autoregressive"].map(DecodeMode::named);
    let fixed = DecodeMode::Drafted(Drafting {
        adapts: false,
        most: 5,
        ..Drafting::from_sources(true, false)
    });
    for mode in modes.into_iter().flatten().chain([fixed]) {
        // Always right; often; never. One that knows fewer tokens, or more. One with hardly any room.
        for (every, vocab, pages, step) in [
            (usize::MAX, VOCAB, 256, 128),
            (4, VOCAB, 256, 16),
            (1, VOCAB, 256, 128),
            (3, VOCAB - 20, 256, 128),
            (3, VOCAB + 20, 256, 128),
            (5, VOCAB, 3, 7),
        ] {
            // Much room, or so little that sequences give their pages up.
            for (own_pages, own_step) in [(256, 128), (8, 32)] {
                let engine = engine(Some(draft(every, vocab, pages, step)), own_pages, own_step);
                let ours = replies(&engine, mode);
                assert_eq!(tokens(&ours), tokens(&plain), "{mode:?}, {every}, {vocab}, {pages}");
            }
        }
    }
}

#[test]
fn a_model_that_agrees_is_always_right_at_any_temperature() {
    let engine = engine(Some(draft(usize::MAX, VOCAB, 256, 128)), 256, 128);
    let mut passes = 0;
    let mut written = 0;
    let replies = replies(&engine, DecodeMode::named("drafted").unwrap());
    for (i, (tokens, work)) in replies.into_iter().enumerate() {
        // Penalties count what was picked, and guesses are not picked yet.
        assert!(i % 5 == 0 || work.agreed == work.drafted, "{i}: {work:?}");
        passes += work.passes;
        written += tokens.len();
    }
    assert!(passes * 3 < written, "{passes} passes for {written} tokens");
}

#[test]
fn a_model_that_is_always_wrong_is_asked_less_and_less() {
    let engine = engine(Some(draft(1, VOCAB, 64, 64)), 64, 64);
    let limits = Limits { max_tokens: 200, ..Limits::default() };
    let decode = DecodeMode::named("drafted").unwrap();
    let request = Request { prompt: vec![1, 2], limits, decode, ..Request::default() };
    let (tokens, work) = reply(&mut engine.submit(request).unwrap());
    assert_eq!((tokens.len(), work.passes), (200, 200));
    assert!(work.drafted < 30, "{work:?}");
}

#[test]
fn it_guesses_where_the_model_itself_cannot() {
    let drafted = DecodeMode::named("drafted").unwrap();
    assert!(engine(None, 8, 8).check_mode(drafted).is_err());
    assert!(engine(Some(draft(1, VOCAB, 8, 8)), 8, 8).check_mode(drafted).is_ok());
}
