//! Requests to recorded networks, and the tokens that they get, for tests that compare two ways to run them.

use wf_engine::{EngineHandle, Event, Events, Limits, Request, SamplingParams, TokenId};

/// Size of the vocabulary of the recorded networks.
pub(crate) const VOCAB: usize = 259;

/// Returns request number `i` of a test, greedy if `i` is even and sampled otherwise. Prompts with the same `start`
/// share a prefix.
pub(crate) fn request(i: usize, start: usize, prompt_len: usize, max_tokens: usize) -> Request {
    let prompt = (0..prompt_len).map(|at| ((at * 31 + start) % VOCAB) as TokenId);
    let temperature = if i.is_multiple_of(2) { 0.0 } else { 0.9 };
    let sampling = SamplingParams { temperature, seed: i as u64, ..SamplingParams::default() };
    let limits = Limits { max_tokens, ..Limits::default() };
    Request { prompt: prompt.collect(), sampling, limits, ..Request::default() }
}

/// Returns the tokens of a completion, which ends with [`Event::Done`].
pub(crate) fn collect(mut events: Events) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    loop {
        match events.next_blocking().expect("a completion ends with Done") {
            Event::Tokens { tokens: picked, .. } => tokens.extend(picked.iter().map(|p| p.token)),
            Event::Done(_) => return tokens,
            _ => {}
        }
    }
}

/// Submits all requests, then returns the tokens of each.
pub(crate) fn run_together(engine: &EngineHandle, requests: Vec<Request>) -> Vec<Vec<TokenId>> {
    let submit = |request| engine.submit(request).expect("a valid request");
    let events: Vec<_> = requests.into_iter().map(submit).collect();
    events.into_iter().map(collect).collect()
}
