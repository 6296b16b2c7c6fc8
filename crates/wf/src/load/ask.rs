//! One request and what comes back, whole or streamed, in one form.

use std::time::Instant;

use tokio::sync::Barrier;
use wf_client::http::{Client, Error, Events};
use wf_client::wire::{
    ChatChunk, ChatMessage, ChatRequest, Completion, CompletionRequest, Prompt, Sampling,
    StreamOptions, TokenId,
};

use super::reply::{Piece, Reply, Unsound};

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ask {
    pub(crate) input: Input,
    pub(crate) max_tokens: u32,
    /// Sampled with this seed; greedy without.
    pub(crate) seed: Option<i64>,
    pub(crate) logprobs: bool,
    /// Whose cache it may use.
    pub(crate) cache_salt: Option<String>,
}

/// What a reply is wanted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Chat(String),
    Text(String),
    Ids(Vec<TokenId>),
}

/// Likeliest tokens asked for with log probabilities.
const TOP_LOGPROBS: u32 = 2;

impl Ask {
    /// A greedy reply to token numbers.
    pub(crate) fn ids(ids: Vec<TokenId>, max_tokens: u32) -> Self {
        let input = Input::Ids(ids);
        Self { input, max_tokens, seed: None, logprobs: false, cache_salt: None }
    }

    fn sampling(&self, streamed: bool) -> Sampling {
        Sampling {
            temperature: Some(if self.seed.is_some() { 0.8 } else { 0.0 }),
            top_p: self.seed.map(|_| 0.95),
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
            sampling: self.sampling(streamed),
            logprobs: self.logprobs.then_some(true),
            top_logprobs: self.logprobs.then_some(TOP_LOGPROBS),
            ..ChatRequest::default()
        }
    }

    fn completion(&self, prompt: Prompt, streamed: bool) -> CompletionRequest {
        CompletionRequest {
            prompt: Some(prompt),
            sampling: self.sampling(streamed),
            logprobs: self.logprobs.then_some(TOP_LOGPROBS),
            ..CompletionRequest::default()
        }
    }

    /// The prompt of a request that is no chat.
    fn prompt(&self) -> Prompt {
        match &self.input {
            Input::Chat(text) | Input::Text(text) => Prompt::Text(text.clone()),
            Input::Ids(ids) => Prompt::Ids(ids.clone()),
        }
    }
}

/// What was heard of a reply, and when. After a failure that is what came before it.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) reply: Reply,
    pub(crate) sent: Instant,
    /// When how many tokens came; empty if the reply was not streamed.
    pub(crate) arrivals: Vec<(Instant, usize)>,
    pub(crate) ended: Instant,
}

impl Heard {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { reply: Reply::default(), sent: now, arrivals: Vec::new(), ended: now }
    }

    /// Milliseconds to the first token of a streamed reply.
    pub(crate) fn first_token_ms(&self) -> Option<f64> {
        Some((self.arrivals.first()?.0 - self.sent).as_secs_f64() * 1e3)
    }

    /// Milliseconds between tokens. Those that came together share their time.
    pub(crate) fn between_tokens_ms(&self) -> impl Iterator<Item = f64> + '_ {
        self.arrivals.windows(2).flat_map(|pair| {
            let ms = (pair[1].0 - pair[0].0).as_secs_f64() * 1e3;
            std::iter::repeat_n(ms / pair[1].1 as f64, pair[1].1)
        })
    }
}

/// Why a reply is not whole.
#[derive(Debug)]
pub(crate) enum Failure {
    Http(Error),
    Unsound(Unsound),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Http(error) => error.fmt(f),
            Self::Unsound(unsound) => unsound.fmt(f),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Http(error)
    }
}

impl From<Unsound> for Failure {
    fn from(unsound: Unsound) -> Self {
        Self::Unsound(unsound)
    }
}

/// Sends `ask` and listens until its reply has ended. With a `gate`, waits there once a stream is
/// open, or is sure not to be. What was heard is in `heard` also if this fails or is dropped.
pub(crate) async fn send(
    client: &Client,
    ask: &Ask,
    streamed: bool,
    gate: Option<&Barrier>,
    heard: &mut Heard,
) -> Result<(), Failure> {
    *heard = Heard::new();
    let result = if streamed {
        let stream = Stream::open(client, ask).await;
        // Who is asked to come back later is not through the gate yet.
        let is_busy = stream.as_ref().err().is_some_and(is_busy);
        if let (Some(gate), false) = (gate, is_busy) {
            gate.wait().await;
        }
        match stream {
            Ok(mut stream) => listen(&mut stream, ask, heard).await,
            Err(error) => Err(error.into()),
        }
    } else {
        whole(client, ask, heard).await
    };
    heard.ended = Instant::now();
    result
}

/// Whether the server has too much to do and wants to be asked again.
pub(crate) fn is_busy(error: &Error) -> bool {
    error.status() == Some(429)
}

async fn whole(client: &Client, ask: &Ask, heard: &mut Heard) -> Result<(), Failure> {
    let piece = match &ask.input {
        Input::Chat(text) => Piece::of_chat(client.chat(&ask.chat(text, false)).await?),
        _ => {
            let request = ask.completion(ask.prompt(), false);
            Piece::of_completion(client.complete(&request).await?)
        }
    };
    heard.reply.absorb(piece)?;
    Ok(heard.reply.check(ask.logprobs)?)
}

async fn listen(stream: &mut Stream, ask: &Ask, heard: &mut Heard) -> Result<(), Failure> {
    while let Some(piece) = stream.next().await? {
        if !piece.ids.is_empty() {
            heard.arrivals.push((Instant::now(), piece.ids.len()));
        }
        heard.reply.absorb(piece)?;
    }
    Ok(heard.reply.check(ask.logprobs)?)
}

/// A stream of either kind.
enum Stream {
    Chat(Events<ChatChunk>),
    Completion(Events<Completion>),
}

impl Stream {
    async fn open(client: &Client, ask: &Ask) -> Result<Self, Error> {
        Ok(match &ask.input {
            Input::Chat(text) => Self::Chat(client.chat_stream(&ask.chat(text, true)).await?),
            _ => {
                let request = ask.completion(ask.prompt(), true);
                Self::Completion(client.complete_stream(&request).await?)
            }
        })
    }

    async fn next(&mut self) -> Result<Option<Piece>, Error> {
        Ok(match self {
            Self::Chat(events) => events.next().await?.map(Piece::of_chat_chunk),
            Self::Completion(events) => events.next().await?.map(Piece::of_completion),
        })
    }
}
