//! A small client: requests and responses in JSON, and streams of events.
//!
//! Each request has a connection of its own. Dropping a response therefore cancels its request, and no request
//! meets a connection that the server is about to close.

mod address;
mod connection;
mod error;
mod events;
mod faults;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::path::Path;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::wire::{ChatChunk, ChatCompletion, ChatRequest, Completion, CompletionRequest};

use address::Address;
use connection::ResponseBody;
pub use error::Error;
pub use events::Events;
pub use faults::{Faults, ReadFault};
use tls::Tls;

/// Timeouts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time to establish the connection.
    pub connect: Duration,
    /// Time until the response begins. Without streaming, that is when all of it has been generated.
    pub response: Duration,
    /// Time between two chunks of the response.
    pub idle: Duration,
}

impl Default for Timeouts {
    /// Returns timeouts for a local server, long completions, and streams with a keep-alive every 15 seconds.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(5), response: seconds(600), idle: seconds(60) }
    }
}

/// A client of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    /// For addresses with `https`.
    tls: Option<Tls>,
    authorization: Option<HeaderValue>,
    timeouts: Timeouts,
    faults: Faults,
}

impl Client {
    /// Creates a client of the server at `base`: `http://host:port` or `https://host:port`, optionally with a
    /// path prefix, or `unix:/path/to/socket`.
    ///
    /// # Errors
    ///
    /// Fails if `base` is not of that form, or has `https` in a build without TLS.
    pub fn new(base: &str) -> Result<Self, Error> {
        let address = Address::parse(base)?;
        let tls = address.is_encrypted().then(|| Tls::new(None)).transpose()?;
        let (timeouts, faults) = (Timeouts::default(), Faults::default());
        Ok(Self { address, tls, authorization: None, timeouts, faults })
    }

    /// Accepts servers whose certificate is signed by one in the PEM file of `--ca-cert`, too.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, has no certificate, or has one that is no authority.
    pub fn trusting(mut self, ca_cert: Option<&Path>) -> Result<Self, Error> {
        let Some(file) = ca_cert else { return Ok(self) };
        let invalid = |reason: &dyn std::fmt::Display| {
            Error::Invalid(format!("--ca-cert: {}: {reason}", file.display()))
        };
        let pem = std::fs::read(file).map_err(|error| invalid(&error))?;
        if self.tls.is_some() {
            self.tls = Some(Tls::new(Some(&pem)).map_err(|error| invalid(&error))?);
        }
        Ok(self)
    }

    /// Sets the API key.
    ///
    /// # Errors
    ///
    /// Fails if the key has characters that are not allowed in a header.
    pub fn with_api_key(mut self, key: &str) -> Result<Self, Error> {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
            let message = "the API key has characters that are not allowed in a header";
            Error::Invalid(message.to_owned())
        })?;
        // Keeps the key out of debug output.
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// Sets the timeouts.
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Injects faults into connections, to test a server.
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Requests `GET path` and parses the response as JSON.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        parse(path, &self.get(path).await?)
    }

    /// Requests `GET path` and returns the response as text.
    pub async fn get_text(&self, path: &str) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.get(path).await?).into_owned())
    }

    /// Requests `POST path` and parses the response as JSON.
    pub async fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let response = self.send(Method::POST, path, json(body)).await?;
        parse(path, &response.read().await?)
    }

    /// Requests `POST path` and returns the stream of events. Dropping it cancels the request.
    pub async fn stream<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Events<T>, Error> {
        Ok(Events::new(self.send(Method::POST, path, json(body)).await?))
    }

    /// Requests a chat completion.
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatCompletion, Error> {
        let mut request = request.clone();
        request.sampling.stream = Some(false);
        self.post_json("/v1/chat/completions", &request).await
    }

    /// Requests a streamed chat completion.
    pub async fn chat_stream(&self, request: &ChatRequest) -> Result<Events<ChatChunk>, Error> {
        let mut request = request.clone();
        request.sampling.stream = Some(true);
        self.stream("/v1/chat/completions", &request).await
    }

    /// Requests a text completion.
    pub async fn complete(&self, request: &CompletionRequest) -> Result<Completion, Error> {
        let mut request = request.clone();
        request.sampling.stream = Some(false);
        self.post_json("/v1/completions", &request).await
    }

    /// Requests a streamed text completion.
    pub async fn complete_stream(
        &self,
        request: &CompletionRequest,
    ) -> Result<Events<Completion>, Error> {
        let mut request = request.clone();
        request.sampling.stream = Some(true);
        self.stream("/v1/completions", &request).await
    }

    async fn get(&self, path: &str) -> Result<Bytes, Error> {
        self.send(Method::GET, path, Bytes::new()).await?.read().await
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<ResponseBody, Error> {
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
        let request = request
            .body(body)
            .map_err(|_| Error::Invalid(format!("{path:?} is not a valid path")))?;
        let target = (&self.address, self.tls.as_ref());
        connection::send(target, request, self.timeouts, self.faults).await
    }
}

/// Encodes a body without the fields that are null: other servers may reject those.
fn json(body: &impl Serialize) -> Bytes {
    let mut body = serde_json::to_value(body).expect("wire types have string keys");
    if let Value::Object(fields) = &mut body {
        fields.retain(|_, value| !value.is_null());
    }
    body.to_string().into()
}

fn parse<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|source| Error::json(path, body, &source))
}
