//! A draft model may draft well, badly or not at all: the output is that of the main model alone.

use wf_core::Network;
use wf_engine::{
    DecodeMode, DecodeStats, DraftParams, EngineHandle, EngineOptions, Event, Limits, Request,
    SamplingParams, TokenId,
};
use wf_formats::ModelInfo;
use wf_model::{Forward, HiddenStates, Logits, LogitsRow, Segment};

use crate::fake::FakeModel;

const VOCAB: usize = 50;

/// Drafts of five tokens, whatever became of those before.
const FIXED: DecodeMode =
    DecodeMode::Drafted(DraftParams { adaptive: false, max_tokens: 5, ..DraftParams::MODEL });

/// The fake model with different logits at some positions.
struct Forgetful {
    fake: FakeModel,
    /// Divisor of those positions.
    every: usize,
}

impl Forward for Forgetful {
    fn network(&self) -> &Network {
        self.fake.network()
    }

    fn info(&self) -> &ModelInfo {
        self.fake.info()
    }

    fn max_batch_tokens(&self) -> usize {
        self.fake.max_batch_tokens()
    }

    fn pages(&self) -> usize {
        self.fake.pages()
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        self.fake.forward(batch, logits);
        let last = self.fake.network().vocab_len as u32 - 1;
        let rows = batch.iter().flat_map(|s| s.scored.iter().map(|want| s.start + want));
        for (row, position) in rows.collect::<Vec<_>>().into_iter().enumerate() {
            if (position + 1) % self.every == 0 {
                match logits.row_mut(row) {
                    LogitsRow::All(row) => row.reverse(),
                    LogitsRow::Some(row) => {
                        row.reverse();
                        row.iter_mut().for_each(|row| row.token = last - row.token);
                    }
                }
            }
        }
        &self.fake
    }
}

/// Returns a draft model that agrees except at every `every`th position.
fn draft(every: usize, vocab: usize, pages: usize, step: usize) -> Box<dyn Forward> {
    Box::new(Forgetful { fake: FakeModel::new(vocab, pages, step), every })
}

fn engine(draft: Option<Box<dyn Forward>>, pages: usize, step: usize) -> EngineHandle {
    let model = FakeModel::new(VOCAB, pages, step);
    EngineHandle::start_with_draft(model, draft, EngineOptions::default()).unwrap()
}

/// Returns the tokens and the counters of a completion.
fn reply(events: &mut wf_engine::Events) -> (Vec<TokenId>, DecodeStats) {
    let (mut tokens, mut last) = (Vec::new(), DecodeStats::default());
    loop {
        match events.next_blocking().expect("a reply ends with Done") {
            Event::Tokens { tokens: picked, stats: work } => {
                tokens.extend(picked.iter().map(|p| p.token));
                last = work;
            }
            Event::Done(_) => return (tokens, last),
            _ => {}
        }
    }
}

fn replies(engine: &EngineHandle, decode: DecodeMode) -> Vec<(Vec<TokenId>, DecodeStats)> {
    let requests = (0..24_usize).map(|i| {
        let sampling = SamplingParams {
            temperature: [0.0, 0.7, 1.5][i % 3],
            seed: i as u64,
            top_k: if i % 4 == 2 { 7 } else { 0 },
            repetition_penalty: if i % 5 == 0 { 1.3 } else { 1.0 },
            repeat_last_n: if i % 2 == 0 { 4 } else { -1 },
            logit_bias: if i % 7 == 0 { vec![(49, 2.0)] } else { vec![] },
            ..SamplingParams::default()
        };
        let max_tokens = 1 + i * 13 % 60;
        let limits = Limits { max_tokens, stop_tokens: vec![i as TokenId], ..Limits::default() };
        // Some share a prefix of more than a page.
        let prompt = (0..1 + i * 37 % 150).map(|at| (at * 31 % 47) as TokenId).collect();
        Request { prompt, sampling, limits, decode, ..Request::default() }
    });
    let events: Vec<_> = requests.map(|request| engine.submit(request).unwrap()).collect();
    events.into_iter().map(|mut events| reply(&mut events)).collect()
}

fn tokens(replies: &[(Vec<TokenId>, DecodeStats)]) -> Vec<&[TokenId]> {
    replies.iter().map(|(tokens, _)| &tokens[..]).collect()
}

#[test]
fn no_draft_model_changes_the_output() {
    let plain = replies(&engine(None, 256, 128), DecodeMode::Autoregressive);
    let modes = ["drafted", "drafted+lookup", "lookup", "auto", "autoregressive"]
        .map(DecodeMode::from_name);
    for mode in modes.into_iter().flatten().chain([FIXED]) {
        // Always right; often; never. With fewer tokens, or more. With hardly any pages.
        for (every, vocab, pages, step) in [
            (usize::MAX, VOCAB, 256, 128),
            (4, VOCAB, 256, 16),
            (1, VOCAB, 256, 128),
            (3, VOCAB - 20, 256, 128),
            (3, VOCAB + 20, 256, 128),
            (5, VOCAB, 3, 7),
        ] {
            // Ample pages, or so few that sequences are preempted.
            for (own_pages, own_step) in [(256, 128), (8, 32)] {
                let engine = engine(Some(draft(every, vocab, pages, step)), own_pages, own_step);
                let ours = replies(&engine, mode);
                assert_eq!(tokens(&ours), tokens(&plain), "{mode:?}, {every}, {vocab}, {pages}");
            }
        }
    }
}

#[test]
fn drafts_of_an_agreeing_model_are_accepted_at_any_temperature() {
    let engine = engine(Some(draft(usize::MAX, VOCAB, 256, 128)), 256, 128);
    let mut passes = 0;
    let mut written = 0;
    let replies = replies(&engine, DecodeMode::from_name("drafted").unwrap());
    for (i, (tokens, work)) in replies.into_iter().enumerate() {
        // Penalties count sampled tokens, and draft tokens are not sampled yet.
        assert!(i % 5 == 0 || work.accepted == work.drafted, "{i}: {work:?}");
        passes += work.passes;
        written += tokens.len();
    }
    assert!(passes * 3 < written, "{passes} passes for {written} tokens");
}

#[test]
fn a_draft_model_that_is_always_wrong_runs_less_and_less() {
    let engine = engine(Some(draft(1, VOCAB, 64, 64)), 64, 64);
    let limits = Limits { max_tokens: 200, ..Limits::default() };
    let decode = DecodeMode::from_name("drafted").unwrap();
    let request = Request { prompt: vec![1, 2], limits, decode, ..Request::default() };
    let (tokens, work) = reply(&mut engine.submit(request).unwrap());
    assert_eq!((tokens.len(), work.passes), (200, 200));
    assert!(work.drafted < 30, "{work:?}");
}

#[test]
fn a_token_that_the_draft_model_lacks_means_no_draft() {
    // The draft model has all tokens but the last one.
    let engine = engine(Some(draft(usize::MAX, VOCAB - 1, 64, 64)), 64, 64);
    for (prompt, drafts) in [(vec![1, 48], true), (vec![1, 49], false)] {
        let limits = Limits { max_tokens: 8, ..Limits::default() };
        let logit_bias = vec![(49, -100.0)];
        let sampling = SamplingParams { logit_bias, ..SamplingParams::default() };
        let request = Request { prompt, sampling, limits, decode: FIXED, ..Request::default() };
        let (tokens, work) = reply(&mut engine.submit(request).unwrap());
        assert_eq!((tokens.len(), work.drafted > 0), (8, drafts));
    }
    assert_eq!(engine.stats().failed_steps, 0);
}

#[test]
fn a_draft_model_drafts_until_its_context_is_full() {
    // The draft model has pages for 64 tokens; of its draft, the last token does not run.
    let engine = engine(Some(draft(usize::MAX, VOCAB, 2, 128)), 64, 128);
    for (prompt_len, drafted) in [(61, 3), (62, 2), (63, 1), (64, 0)] {
        let limits = Limits { max_tokens: 8, ..Limits::default() };
        let request =
            Request { prompt: vec![1; prompt_len], limits, decode: FIXED, ..Request::default() };
        let (tokens, work) = reply(&mut engine.submit(request).unwrap());
        assert_eq!((tokens.len(), work.drafted, work.accepted), (8, drafted, drafted));
    }
}

#[test]
fn a_draft_model_drafts_for_models_without_masks() {
    let drafted = DecodeMode::from_name("drafted").unwrap();
    assert!(engine(None, 8, 8).check_mode(drafted).is_err());
    assert!(engine(Some(draft(1, VOCAB, 8, 8)), 8, 8).check_mode(drafted).is_ok());
}
