//! One request and its response, streamed or not.

use std::time::Instant;

use tokio::sync::Barrier;
use wf_api::http::{Client, Error, Events};
use wf_api::wire::{
    ChatChunk, ChatMessage, ChatRequest, Completion, CompletionRequest, Prompt, Sampling,
    StreamOptions, TokenId,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Chat(String),
    Text(String),
    Ids(Vec<TokenId>),
}

/// Number of likeliest tokens requested at each position, with log probabilities.
const TOP_LOGPROBS: u32 = 2;

impl RequestSpec {
    /// Returns a greedy request with a prompt of token ids.
    pub(crate) fn ids(ids: Vec<TokenId>, max_tokens: u32) -> Self {
        let input = Input::Ids(ids);
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
            seed: self.seed,
            max_tokens: Some(self.max_tokens),
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

    fn completion(&self, prompt: Prompt, streamed: bool) -> CompletionRequest {
        CompletionRequest {
            prompt: Some(prompt),
            params: self.params(),
            sampling: self.sampling(streamed),
            logprobs: self.logprobs.then_some(TOP_LOGPROBS),
            ..CompletionRequest::default()
        }
    }

    /// Returns the prompt of a request to `/v1/completions`.
    fn prompt(&self) -> Prompt {
        match &self.input {
            Input::Chat(text) | Input::Text(text) => Prompt::Text(text.clone()),
            Input::Ids(ids) => Prompt::Ids(ids.clone()),
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
    let result = if streamed {
        let stream = Stream::open(client, spec).await;
        // A request that is retried later has not passed the gate yet.
        let is_busy = stream.as_ref().err().is_some_and(is_busy);
        if let (Some(gate), false) = (gate, is_busy) {
            gate.wait().await;
        }
        match stream {
            Ok(mut stream) => read(&mut stream, spec, timed).await,
            Err(error) => Err(error.into()),
        }
    } else {
        unstreamed(client, spec, timed).await
    };
    timed.ended = Instant::now();
    result
}

/// Returns `true` if the server is overloaded and the request should be retried.
pub(crate) fn is_busy(error: &Error) -> bool {
    error.status() == Some(429)
}

async fn unstreamed(
    client: &Client,
    spec: &RequestSpec,
    timed: &mut TimedResponse,
) -> Result<(), Failure> {
    let chunk = match &spec.input {
        Input::Chat(text) => Chunk::of_chat(client.chat(&spec.chat(text, false)).await?),
        _ => {
            let request = spec.completion(spec.prompt(), false);
            Chunk::of_completion(client.complete(&request).await?)
        }
    };
    timed.response.absorb(chunk)?;
    timed.response.check(spec.logprobs)
}

async fn read(
    stream: &mut Stream,
    spec: &RequestSpec,
    timed: &mut TimedResponse,
) -> Result<(), Failure> {
    while let Some(chunk) = stream.next().await? {
        if !chunk.ids.is_empty() {
            timed.arrivals.push((Instant::now(), chunk.ids.len()));
        }
        timed.response.absorb(chunk)?;
    }
    timed.response.check(spec.logprobs)
}

enum Stream {
    Chat(Events<ChatChunk>),
    Completion(Events<Completion>),
}

impl Stream {
    async fn open(client: &Client, spec: &RequestSpec) -> Result<Self, Error> {
        Ok(match &spec.input {
            Input::Chat(text) => Self::Chat(client.chat_stream(&spec.chat(text, true)).await?),
            _ => {
                let request = spec.completion(spec.prompt(), true);
                Self::Completion(client.complete_stream(&request).await?)
            }
        })
    }

    async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        Ok(match self {
            Self::Chat(events) => events.next().await?.map(Chunk::of_chat_chunk),
            Self::Completion(events) => events.next().await?.map(Chunk::of_completion),
        })
    }
}
