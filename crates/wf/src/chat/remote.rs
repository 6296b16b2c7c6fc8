//! Responses of a server with an OpenAI-compatible API.
//!
//! Servers differ in what they send besides the text, so only the fields all of them have are read.
//! Only settings the user chose are sent, since some servers reject unknown fields.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wf_api::http::{self, Client, Events};
use wf_api::wire::{ErrorDetail, Timings, Usage};

use super::conversation::Message;
use super::response::{About, Chunk as ResponseChunk, Counts};
use super::tools::{ToolCall, Tools};
use crate::args::ThinkingArg;

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
    /// Selects the model called `name`, or the first, of the server at `url`.
    pub(crate) async fn open(url: &str, client: Client, name: Option<&Path>) -> Result<Self> {
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
        tools: &Tools,
    ) -> Result<RemoteResponse> {
        let mut body = settings.clone();
        if let Some(value) = body.get_mut("thinking") {
            *value = thinking_field(value);
        }
        body.insert("model".to_owned(), json!(self.about.name));
        body.insert("messages".to_owned(), json!(messages));
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        let definitions = tools.definitions();
        if !definitions.is_empty() {
            body.insert("tools".to_owned(), json!(definitions));
        }
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
            calls: Vec::new(),
            has_ended: false,
            timings: None,
            text: None,
        })
    }
}

/// Returns the field of the API for a value of `--thinking`: on, off or a number of tokens.
fn thinking_field(value: &Value) -> Value {
    match value.as_str().map(str::parse) {
        Some(Ok(ThinkingArg::Off)) => json!({"type": "disabled"}),
        Some(Ok(ThinkingArg::Limited(tokens))) => {
            json!({"type": "enabled", "budget_tokens": tokens})
        }
        _ => json!({"type": "enabled"}),
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
    /// Tool calls so far, which are returned at the end.
    calls: Vec<ToolCall>,
    has_ended: bool,
    timings: Option<Timings>,
    /// Text that follows the last thinking.
    text: Option<String>,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    seed: Option<u64>,
    /// Time measured by the server, in the last chunk. Not every server has it.
    timings: Option<Timings>,
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
    tool_calls: Option<Vec<CallDelta>>,
    reasoning_content: Option<String>,
    /// Name of the same field at other servers.
    reasoning: Option<String>,
}

/// Part of a tool call.
#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: usize,
    id: Option<String>,
    #[serde(default)]
    function: FunctionDelta,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

/// Maximum number of tool calls of a response.
const MAX_CALLS: usize = 64;

impl RemoteResponse {
    pub(crate) async fn next(&mut self) -> Result<ResponseChunk> {
        loop {
            if let Some(text) = self.text.take() {
                return Ok(ResponseChunk::Text(text));
            }
            if self.has_ended {
                return Ok(self.end());
            }
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
            self.timings = chunk.timings.or(self.timings);
            let Some(choice) = chunk.choices.into_iter().next() else { continue };
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
            let Delta { content, reasoning_content, reasoning, tool_calls } = choice.delta;
            for part in tool_calls.into_iter().flatten() {
                self.take_call(part);
            }
            self.text = content.filter(|text| !text.is_empty());
            let reasoning = reasoning_content.or(reasoning).filter(|text| !text.is_empty());
            if self.text.is_some() || reasoning.is_some() {
                self.last = Instant::now();
                self.first.get_or_insert(self.last);
                self.chunks += 1;
            }
            if let Some(reasoning) = reasoning {
                return Ok(ResponseChunk::Reasoning(reasoning));
            }
        }
    }

    fn take_call(&mut self, CallDelta { index, id, function }: CallDelta) {
        let index = index.min(MAX_CALLS);
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, ToolCall::default);
        }
        let call = &mut self.calls[index];
        call.id += &id.unwrap_or_default();
        call.name += &function.name.unwrap_or_default();
        call.arguments += &function.arguments.unwrap_or_default();
        self.chunks += 1;
    }

    /// Returns the time to the first token and the time from there to the last: by the server's clock if it reports
    /// them, because the network and the client delay what arrives here.
    fn times(&self) -> (Duration, Duration) {
        let first = self.first.unwrap_or(self.last);
        let measured = (first - self.sent, self.last - first);
        let duration = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok();
        let reported = |t: Timings| Some((duration(t.prompt_ms)?, duration(t.predicted_ms)?));
        self.timings.and_then(reported).unwrap_or(measured)
    }

    fn end(&mut self) -> ResponseChunk {
        self.has_ended = true;
        if !self.calls.is_empty() {
            return ResponseChunk::Call(self.calls.remove(0));
        }
        ResponseChunk::Done(self.finish_reason.take().unwrap_or_else(|| "stop".to_owned()))
    }

    pub(crate) fn counts(&self) -> Counts {
        let usage = self.usage.unwrap_or_default();
        let (prompt, response) = self.times();
        let details = usage.prompt_tokens_details;
        Counts {
            prompt_tokens: usage.prompt_tokens as usize,
            cached_tokens: details.map(|details| details.cached_tokens as usize),
            response_tokens: match self.usage {
                Some(usage) => usage.completion_tokens as usize,
                None => self.chunks,
            },
            prompt,
            response,
            seed: self.seed,
            out_of_sight: self.timings.map_or(0, |timings| timings.out_of_sight_n as usize),
        }
    }
}
