//! One request and its response, streamed or not.

use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Barrier;
use wf_api::http::{Client, Error};
use wf_api::wire::{
    ChatChunk, ChatCompletion, ChatMessage, ChatRequest, Completion, CompletionRequest, Prompt,
    Sampling, StreamOptions, TokenId,
};
use wf_core::SamplingOverrides;

use super::response::{Chunk, Failure, Response};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestSpec {
    pub(crate) input: Input,
    pub(crate) max_tokens: u32,
    /// Seed to sample with; greedy if `None`.
    pub(crate) seed: Option<i64>,
    pub(crate) logprobs: bool,
    pub(crate) cache_salt: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    Chat(String),
    Completion(Prompt),
}

/// Number of likeliest tokens requested at each position, with log probabilities.
const TOP_LOGPROBS: u32 = 2;

impl RequestSpec {
    /// Returns a greedy request with a prompt of token ids.
    pub(crate) fn ids(ids: Vec<TokenId>, max_tokens: u32) -> Self {
        let input = Input::Completion(Prompt::Ids(ids));
        Self { input, max_tokens, seed: None, logprobs: false, cache_salt: None }
    }

    fn params(&self) -> SamplingOverrides {
        SamplingOverrides {
            temperature: Some(if self.seed.is_some() { 0.8 } else { 0.0 }),
            top_p: self.seed.map(|_| 0.95),
            ..SamplingOverrides::default()
        }
    }

    fn sampling(&self, streamed: bool) -> Sampling {
        Sampling {
            seed: self.seed.map(Into::into),
            max_tokens: Some(self.max_tokens),
            stream: Some(streamed),
            stream_options: streamed
                .then(|| StreamOptions { include_usage: Some(true), ..StreamOptions::default() }),
            cache_salt: self.cache_salt.clone(),
            return_token_ids: Some(true),
            ..Sampling::default()
        }
    }

    fn chat(&self, text: &str, streamed: bool) -> ChatRequest {
        ChatRequest {
            messages: vec![ChatMessage::new("user", text)],
            params: self.params(),
            sampling: self.sampling(streamed),
            logprobs: self.logprobs.then_some(true),
            top_logprobs: self.logprobs.then_some(TOP_LOGPROBS),
            ..ChatRequest::default()
        }
    }

    fn completion(&self, prompt: &Prompt, streamed: bool) -> CompletionRequest {
        CompletionRequest {
            prompt: Some(prompt.clone()),
            params: self.params(),
            sampling: self.sampling(streamed),
            logprobs: self.logprobs.then_some(TOP_LOGPROBS),
            ..CompletionRequest::default()
        }
    }
}

/// A response and its timing. After a failure, what arrived before it.
#[derive(Clone, Debug)]
pub(crate) struct TimedResponse {
    pub(crate) response: Response,
    pub(crate) sent: Instant,
    /// Arrival times and numbers of tokens; empty if the response was not streamed.
    pub(crate) arrivals: Vec<(Instant, usize)>,
    pub(crate) ended: Instant,
}

impl TimedResponse {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { response: Response::default(), sent: now, arrivals: Vec::new(), ended: now }
    }

    /// Returns milliseconds to the first token of a streamed response.
    pub(crate) fn first_token_ms(&self) -> Option<f64> {
        Some((self.arrivals.first()?.0 - self.sent).as_secs_f64() * 1e3)
    }

    /// Returns milliseconds between tokens. Tokens that arrive together share the time equally.
    pub(crate) fn between_tokens_ms(&self) -> impl Iterator<Item = f64> + '_ {
        self.arrivals.windows(2).flat_map(|pair| {
            let ms = (pair[1].0 - pair[0].0).as_secs_f64() * 1e3;
            std::iter::repeat_n(ms / pair[1].1 as f64, pair[1].1)
        })
    }
}

/// Sends `spec` and reads the response to its end. With a `gate`, waits there once the stream is open
/// or has failed to open. `timed` has what was received even if this fails or is dropped.
pub(crate) async fn send(
    client: &Client,
    spec: &RequestSpec,
    streamed: bool,
    gate: Option<&Barrier>,
    timed: &mut TimedResponse,
) -> Result<(), Failure> {
    *timed = TimedResponse::new();
    let received = match &spec.input {
        Input::Chat(text) => {
            let request = spec.chat(text, streamed);
            let exchange = Exchange { client, path: "/v1/chat/completions", request, gate };
            exchange.run::<ChatCompletion, ChatChunk>(streamed, timed).await
        }
        Input::Completion(prompt) => {
            let request = spec.completion(prompt, streamed);
            let exchange = Exchange { client, path: "/v1/completions", request, gate };
            exchange.run::<Completion, Completion>(streamed, timed).await
        }
    };
    timed.ended = Instant::now();
    received.and_then(|()| timed.response.check(spec.logprobs))
}

/// Returns the complete response to `spec`.
pub(crate) async fn respond(
    client: &Client,
    spec: &RequestSpec,
    streamed: bool,
) -> Result<TimedResponse, Failure> {
    let mut timed = TimedResponse::new();
    send(client, spec, streamed, None, &mut timed).await?;
    Ok(timed)
}

/// Returns `true` if the server is overloaded and the request should be retried.
pub(crate) fn is_busy(error: &Error) -> bool {
    error.status() == Some(429)
}

struct Exchange<'a, R> {
    client: &'a Client,
    path: &'static str,
    request: R,
    gate: Option<&'a Barrier>,
}

impl<R: Serialize> Exchange<'_, R> {
    /// Receives one `Whole`, or a stream of `Part`s.
    async fn run<Whole, Part>(
        &self,
        streamed: bool,
        timed: &mut TimedResponse,
    ) -> Result<(), Failure>
    where
        Whole: DeserializeOwned + Into<Chunk>,
        Part: DeserializeOwned + Into<Chunk>,
    {
        if !streamed {
            let whole: Whole = self.client.post_json(self.path, &self.request).await?;
            return timed.response.absorb(whole.into());
        }
        let events = self.client.stream::<Part>(self.path, &self.request).await;
        // A request that is retried later has not passed the gate yet.
        let is_busy = events.as_ref().err().is_some_and(is_busy);
        if let (Some(gate), false) = (self.gate, is_busy) {
            gate.wait().await;
        }
        let mut events = events?;
        while let Some(part) = events.next().await? {
            let chunk: Chunk = part.into();
            if !chunk.part.ids.is_empty() {
                timed.arrivals.push((Instant::now(), chunk.part.ids.len()));
            }
            timed.response.absorb(chunk)?;
        }
        Ok(())
    }
}
