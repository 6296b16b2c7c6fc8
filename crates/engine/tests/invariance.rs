//! Load changes when tokens arrive, never which: requests run in two ways, and the tokens are compared.
//!
//! The fake model's logits depend on every token a row attends to, read back through the pages, so a lost page, a
//! stale token or a wrong position changes the output.

use wf_engine::{
    EngineHandle, EngineOptions, Event, Events, FinishReason, Limits, Request, RequestError,
    SamplingParams, TokenId,
};

use crate::fake::FakeModel;

const VOCAB: usize = 50;

fn engine(pages: usize, max_batch_tokens: usize, max_running: usize) -> EngineHandle {
    let model = FakeModel::new(VOCAB, pages, max_batch_tokens);
    EngineHandle::start(model, EngineOptions { max_running, ..EngineOptions::default() }).unwrap()
}

/// Returns requests of many lengths, greedy and sampled.
fn requests() -> Vec<Request> {
    (0..24)
        .map(|i| {
            let prompt = (0..1 + i * 7 % 90).map(|at| ((at * 31 + i * 17) % VOCAB) as TokenId);
            let temperature = if i % 3 == 0 { 0.0 } else { 0.5 + i as f32 / 20.0 };
            let sampling = SamplingParams {
                temperature,
                seed: i as u64,
                top_p: if i % 4 == 1 { 0.8 } else { 1.0 },
                top_k: if i % 4 == 2 { 7 } else { 0 },
                repetition_penalty: if i % 5 == 0 { 1.3 } else { 1.0 },
                repeat_last_n: if i % 2 == 0 { 4 } else { -1 },
                ..SamplingParams::default()
            };
            let limits = Limits {
                max_tokens: 1 + i * 13 % 80,
                stop_tokens: vec![(i % VOCAB) as TokenId],
                min_tokens: i % 6,
                deadline: None,
            };
            Request { prompt: prompt.collect(), sampling, limits, ..Request::default() }
        })
        .collect()
}

fn collect(mut events: Events) -> (Vec<TokenId>, FinishReason) {
    let mut tokens = Vec::new();
    loop {
        match events.next_blocking().expect("a reply ends with Done") {
            Event::Started { cached } => assert!(cached < 90),
            Event::PromptLogprobs(_) => panic!("not requested"),
            Event::Progress { done, total } => assert!(done <= total),
            Event::Preview(_) | Event::Embedding(_) => panic!("not requested"),
            Event::Tokens { tokens: picked, .. } => tokens.extend(picked.iter().map(|p| p.token)),
            Event::Done(reason) => {
                assert!(events.next_blocking().is_none(), "nothing comes after Done");
                return (tokens, reason);
            }
        }
    }
}

/// Runs each request alone, in steps large enough for any of them.
fn solo() -> Vec<(Vec<TokenId>, FinishReason)> {
    let engine = engine(64, 512, 1);
    requests().into_iter().map(|request| collect(engine.submit(request).unwrap())).collect()
}

fn together(engine: &EngineHandle) -> Vec<(Vec<TokenId>, FinishReason)> {
    let events: Vec<_> = requests().into_iter().map(|r| engine.submit(r).unwrap()).collect();
    events.into_iter().map(collect).collect()
}

#[test]
fn outputs_are_worth_comparing() {
    let replies = solo();
    let long = replies.iter().filter(|(tokens, _)| tokens.len() > 10).count();
    assert!(long > 5, "too few long replies: {long}");
    for reason in [FinishReason::Stop, FinishReason::Length] {
        assert!(replies.iter().any(|(_, r)| *r == reason), "no reply ended by {reason:?}");
    }
}

#[test]
fn logits_that_are_not_required_change_nothing() {
    let model = FakeModel::new(VOCAB, 256, 512).with_all_logits();
    let options = EngineOptions { max_running: 24, ..EngineOptions::default() };
    assert_eq!(together(&EngineHandle::start(model, options).unwrap()), solo());
}

#[test]
fn a_batch_changes_nothing() {
    assert_eq!(together(&engine(256, 512, 24)), solo());
}

#[test]
fn chunks_change_nothing() {
    for max_batch_tokens in [24, 25, 31, 64] {
        assert_eq!(together(&engine(256, max_batch_tokens, 24)), solo(), "{max_batch_tokens}");
    }
}

#[test]
fn steps_of_one_token_change_nothing() {
    assert_eq!(together(&engine(64, 1, 24)), solo());
}

#[test]
fn a_full_pool_changes_nothing() {
    // The longest request needs 6 pages: the pool holds little more than one of them.
    for pages in [6, 7, 11] {
        assert_eq!(together(&engine(pages, 48, 24)), solo(), "{pages} pages");
    }
}

#[test]
fn an_abandoned_request_frees_its_slot() {
    let engine = engine(8, 16, 1);
    let endless = Request {
        prompt: vec![1, 2, 3],
        limits: Limits { max_tokens: 200, ..Limits::default() },
        ..Request::default()
    };
    for _ in 0..50 {
        drop(engine.submit(endless.clone()).unwrap());
    }
    let (tokens, reason) = collect(engine.submit(endless).unwrap());
    assert_eq!((tokens.len(), reason), (200, FinishReason::Length));
}

#[test]
fn a_reply_ends_where_the_context_does() {
    let engine = engine(2, 16, 1);
    assert_eq!(engine.context_len(), 64);
    let request = Request {
        prompt: vec![1; 60],
        limits: Limits { max_tokens: 1000, ..Limits::default() },
        ..Request::default()
    };
    let (tokens, reason) = collect(engine.submit(request).unwrap());
    assert_eq!((tokens.len(), reason), (4, FinishReason::Length));
}

#[test]
fn invalid_requests_are_rejected_on_submission() {
    let engine = engine(2, 16, 1);
    let valid = Request {
        prompt: vec![1],
        limits: Limits { max_tokens: 4, ..Limits::default() },
        ..Request::default()
    };
    let refused = |change: fn(&mut Request)| {
        let mut request = valid.clone();
        change(&mut request);
        engine.submit(request).err()
    };
    assert_eq!(refused(|_| ()), None);
    assert_eq!(refused(|r| r.prompt.clear()), Some(RequestError::EmptyPrompt));
    let too_long = RequestError::PromptTooLong { tokens: 64, limit: 64 };
    assert_eq!(refused(|r| r.prompt = vec![1; 64]), Some(too_long));
    assert_eq!(refused(|r| r.limits.max_tokens = 0), Some(RequestError::ZeroMaxTokens));
    let unknown = Some(RequestError::UnknownToken { token: 50, last: 49 });
    assert_eq!(refused(|r| r.prompt = vec![50]), unknown);
    assert_eq!(refused(|r| r.limits.stop_tokens = vec![50]), unknown);
    assert!(matches!(refused(|r| r.sampling.top_p = f32::NAN), Some(RequestError::Sampling(_))));
}
