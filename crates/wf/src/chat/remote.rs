//! Answers of a server that speaks OpenAI's API.
//!
//! Servers differ in what they send beside the text, so what is read here is the least that all of
//! them have; and what is sent is what the user chose, since some refuse fields they do not know.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wf_client::http::{self, Client, Events};
use wf_client::wire::{ErrorDetail, Usage};

use super::backend::{Counts, Part};
use super::conversation::Message;

/// A server.
pub(crate) struct Remote {
    client: Client,
    url: String,
    model: Model,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    /// Not every server tells.
    #[serde(default)]
    max_model_len: Option<usize>,
}

impl Remote {
    /// The server at `url`, and its model of that name, or its first.
    pub(crate) async fn open(url: &str, name: Option<&Path>, key: Option<&str>) -> Result<Self> {
        // As other programs want it: with the version of the API.
        let base = url.trim_end_matches('/').trim_end_matches("/v1");
        let client = Client::new(base)?;
        let client = match key {
            Some(key) => client.with_api_key(key)?,
            None => client,
        };
        let listed = client.get_json::<Models>("/v1/models").await;
        let model = match name {
            None => {
                let listed = listed.with_context(|| format!("asking {url} for its models"))?;
                listed.data.into_iter().next().with_context(|| format!("{url} has no model"))?
            }
            // A server need not list what it serves.
            Some(name) => {
                let name = name.to_str().context("the name of the model is not UTF-8")?;
                let mut listed = listed.map_or_else(|_| Vec::new(), |listed| listed.data);
                let found = listed.iter().position(|model| model.id == name);
                found.map_or_else(
                    || Model { id: name.to_owned(), max_model_len: None },
                    |found| listed.swap_remove(found),
                )
            }
        };
        Ok(Self { client, url: url.to_owned(), model })
    }

    pub(crate) fn name(&self) -> &str {
        &self.model.id
    }

    pub(crate) fn about(&self) -> String {
        match self.model.max_model_len {
            Some(tokens) => format!("{} · context {tokens} tokens", self.url),
            None => self.url.clone(),
        }
    }

    pub(crate) fn context_len(&self) -> Option<usize> {
        self.model.max_model_len
    }

    pub(crate) async fn ask(
        &self,
        messages: &[Message],
        settings: &Map<String, Value>,
    ) -> Result<RemoteReply> {
        let mut body = settings.clone();
        body.insert("model".to_owned(), json!(self.model.id));
        body.insert("messages".to_owned(), json!(messages));
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        let asked = Instant::now();
        let events = self.client.stream("/v1/chat/completions", &body).await?;
        Ok(RemoteReply {
            events,
            asked,
            first: None,
            last: asked,
            pieces: 0,
            ended: None,
            usage: None,
            seed: None,
        })
    }
}

/// An answer being written.
pub(crate) struct RemoteReply {
    events: Events<Chunk>,
    asked: Instant,
    first: Option<Instant>,
    last: Instant,
    /// Pieces of text so far: about as many as tokens.
    pieces: usize,
    /// Why it ended, once it has.
    ended: Option<String>,
    usage: Option<Usage>,
    seed: Option<u64>,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    error: Option<ErrorDetail>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Delta,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
}

impl RemoteReply {
    pub(crate) async fn next(&mut self) -> Result<Part> {
        loop {
            let chunk = match self.events.next().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(self.end()),
                // Some servers hang up instead of saying that they are done.
                Err(http::Error::Cut { .. }) if self.ended.is_some() => return Ok(self.end()),
                Err(error) => return Err(error.into()),
            };
            if let Some(error) = chunk.error {
                bail!("the server ended the answer: {}", error.message);
            }
            self.usage = chunk.usage.or(self.usage);
            self.seed = chunk.seed.or(self.seed);
            let Some(choice) = chunk.choices.into_iter().next() else { continue };
            self.ended = choice.finish_reason.or(self.ended.take());
            if let Some(text) = choice.delta.content.filter(|text| !text.is_empty()) {
                self.last = Instant::now();
                self.first.get_or_insert(self.last);
                self.pieces += 1;
                return Ok(Part::Text(text));
            }
        }
    }

    fn end(&mut self) -> Part {
        Part::Done(self.ended.take().unwrap_or_else(|| "stop".to_owned()))
    }

    pub(crate) fn counts(&self) -> Counts {
        let usage = self.usage.unwrap_or_default();
        let first = self.first.unwrap_or(self.last);
        let details = usage.prompt_tokens_details;
        Counts {
            prompt_tokens: usage.prompt_tokens as usize,
            cached_tokens: details.map(|details| details.cached_tokens as usize),
            reply_tokens: match self.usage {
                Some(usage) => usage.completion_tokens as usize,
                None => self.pieces,
            },
            prompt: first - self.asked,
            reply: self.last - first,
            seed: self.seed,
        }
    }
}
