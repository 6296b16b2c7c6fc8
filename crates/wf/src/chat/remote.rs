//! Responses of a server with an OpenAI-compatible API.
//!
//! Servers differ in what they send besides the text, so only the fields all of them have are read.
//! Only settings the user chose are sent, since some servers reject unknown fields.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wf_api::http::{self, Client, Events};
use wf_api::wire::{ErrorDetail, Usage};

use super::conversation::Message;
use super::response::{About, Chunk as ResponseChunk, Counts};

pub(crate) struct Remote {
    client: Client,
    pub(super) about: About,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    /// Not every server has it.
    max_model_len: Option<usize>,
}

impl Remote {
    /// Connects to the server at `url`, and selects the model called `name`, or the first.
    pub(crate) async fn open(url: &str, name: Option<&Path>, key: Option<&str>) -> Result<Self> {
        // Other programs expect the URL to include the version of the API.
        let base = url.trim_end_matches('/').trim_end_matches("/v1");
        let client = Client::new(base)?;
        let client = match key {
            Some(key) => client.with_api_key(key)?,
            None => client,
        };
        let listed = client.get_json::<Models>("/v1/models").await;
        let model = match name {
            None => {
                let listed = listed.with_context(|| format!("listing the models of {url}"))?;
                listed.data.into_iter().next().with_context(|| format!("{url} has no model"))?
            }
            // A server need not list its models.
            Some(name) => {
                let name = name.to_str().context("the name of the model is not valid UTF-8")?;
                let listed = listed.map_or_else(|_| Vec::new(), |listed| listed.data);
                let found = listed.into_iter().find(|model| model.id == name);
                found.unwrap_or_else(|| Model { id: name.to_owned(), max_model_len: None })
            }
        };
        let context_len = model.max_model_len;
        let details = match context_len {
            Some(tokens) => format!("{url} · context {tokens} tokens"),
            None => url.to_owned(),
        };
        Ok(Self { client, about: About { name: model.id, details, context_len } })
    }

    pub(crate) async fn respond(
        &self,
        messages: &[Message],
        settings: &Map<String, Value>,
    ) -> Result<RemoteResponse> {
        let mut body = settings.clone();
        body.insert("model".to_owned(), json!(self.about.name));
        body.insert("messages".to_owned(), json!(messages));
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        let sent = Instant::now();
        let events = self.client.stream("/v1/chat/completions", &body).await?;
        Ok(RemoteResponse {
            events,
            sent,
            first: None,
            last: sent,
            chunks: 0,
            finish_reason: None,
            usage: None,
            seed: None,
        })
    }
}

pub(crate) struct RemoteResponse {
    events: Events<Chunk>,
    sent: Instant,
    first: Option<Instant>,
    last: Instant,
    /// Number of chunks of text so far, which is about the number of tokens.
    chunks: usize,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    seed: Option<u64>,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    seed: Option<u64>,
    error: Option<ErrorDetail>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    content: Option<String>,
}

impl RemoteResponse {
    pub(crate) async fn next(&mut self) -> Result<ResponseChunk> {
        loop {
            let chunk = match self.events.next().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(self.end()),
                // Some servers close the connection instead of sending [DONE].
                Err(http::Error::Truncated { .. }) if self.finish_reason.is_some() => {
                    return Ok(self.end());
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(error) = chunk.error {
                bail!("server error: {}", error.message);
            }
            self.usage = chunk.usage.or(self.usage);
            self.seed = chunk.seed.or(self.seed);
            let Some(choice) = chunk.choices.into_iter().next() else { continue };
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
            if let Some(text) = choice.delta.content.filter(|text| !text.is_empty()) {
                self.last = Instant::now();
                self.first.get_or_insert(self.last);
                self.chunks += 1;
                return Ok(ResponseChunk::Text(text));
            }
        }
    }

    fn end(&mut self) -> ResponseChunk {
        ResponseChunk::Done(self.finish_reason.take().unwrap_or_else(|| "stop".to_owned()))
    }

    pub(crate) fn counts(&self) -> Counts {
        let usage = self.usage.unwrap_or_default();
        let first = self.first.unwrap_or(self.last);
        let details = usage.prompt_tokens_details;
        Counts {
            prompt_tokens: usage.prompt_tokens as usize,
            cached_tokens: details.map(|details| details.cached_tokens as usize),
            response_tokens: match self.usage {
                Some(usage) => usage.completion_tokens as usize,
                None => self.chunks,
            },
            prompt: first - self.sent,
            response: self.last - first,
            seed: self.seed,
        }
    }
}
