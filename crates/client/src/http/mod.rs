//! A small client: questions and answers as JSON, replies as streams of events.
//!
//! Each request has a connection of its own. So dropping an answer cancels its request, and no
//! request can meet a connection that the server is just about to close. There is no TLS: put a
//! proxy that ends it in between.

mod address;
mod connection;
mod error;
mod events;
mod pace;

use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire::{ChatChunk, ChatCompletion, ChatRequest, Completion, CompletionRequest};

use address::Address;
use connection::Answer;
pub use error::Error;
pub use events::Events;
pub use pace::{Mishap, Pace};

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// Until an answer begins. Without streaming that is when the whole reply is written.
    pub answer: Duration,
    /// From one piece of an answer to the next.
    pub silence: Duration,
}

impl Default for Timeouts {
    /// A server on the same machine, a long reply on a slow one, and servers that send a sign of
    /// life every 15 seconds.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(5), answer: seconds(600), silence: seconds(60) }
    }
}

/// A way to reach one server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    authorization: Option<HeaderValue>,
    timeouts: Timeouts,
    pace: Pace,
}

impl Client {
    /// A client of the server at `base`: `http://host:port`, with a path if all its routes lie
    /// below one, or `unix:/path/to/socket`.
    pub fn new(base: &str) -> Result<Self, Error> {
        let address = Address::parse(base)?;
        let pace = Pace::default();
        Ok(Self { address, authorization: None, timeouts: Timeouts::default(), pace })
    }

    /// The same with a key that every request shows.
    pub fn with_api_key(mut self, key: &str) -> Result<Self, Error> {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| Error::Key)?;
        // Not for anyone who prints a request.
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// The same with other timeouts.
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The same with connections that do what `pace` says: for tests of a server.
    pub fn with_pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The answer to `GET path`.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        parse(path, &self.get(path).await?)
    }

    /// The answer to `GET path`, as text.
    pub async fn get_text(&self, path: &str) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.get(path).await?).into_owned())
    }

    /// The answer to `POST path`.
    pub async fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let answer = self.send(Method::POST, path, json(body)).await?;
        parse(path, &answer.whole().await?)
    }

    /// The answer to `POST path`, which is events that end with `[DONE]`. Dropping it cancels the
    /// request.
    pub async fn stream<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Events<T>, Error> {
        Ok(Events::of(self.send(Method::POST, path, json(body)).await?))
    }

    /// A reply to a conversation.
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatCompletion, Error> {
        let mut request = request.clone();
        request.sampling.stream = Some(false);
        self.post_json("/v1/chat/completions", &request).await
    }

    /// A reply to a conversation, as it is written.
    pub async fn chat_stream(&self, request: &ChatRequest) -> Result<Events<ChatChunk>, Error> {
        let mut request = request.clone();
        request.sampling.stream = Some(true);
        self.stream("/v1/chat/completions", &request).await
    }

    /// The continuation of a text.
    pub async fn complete(&self, request: &CompletionRequest) -> Result<Completion, Error> {
        let mut request = request.clone();
        request.sampling.stream = Some(false);
        self.post_json("/v1/completions", &request).await
    }

    /// The continuation of a text, as it is written.
    pub async fn complete_stream(
        &self,
        request: &CompletionRequest,
    ) -> Result<Events<Completion>, Error> {
        let mut request = request.clone();
        request.sampling.stream = Some(true);
        self.stream("/v1/completions", &request).await
    }

    async fn get(&self, path: &str) -> Result<Bytes, Error> {
        self.send(Method::GET, path, Bytes::new()).await?.whole().await
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address.path()))
            .header(HOST, self.address.host())
            .header(ACCEPT, "application/json, text/event-stream, text/plain")
            .header(CONNECTION, "close");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(body).map_err(|_| Error::Path(path.to_owned()))?;
        connection::ask(&self.address, request, self.timeouts, self.pace).await
    }
}

fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("wire types have string keys").into()
}

fn parse<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|source| Error::json(path, body, source))
}
