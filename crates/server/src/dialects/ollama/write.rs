//! Replies as Ollama writes them: one JSON object, or lines of JSON.

use std::mem;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use wf_client::wire::{
    OllamaCall, OllamaCalledFunction, OllamaCost, OllamaError, OllamaMessage, OllamaReply,
};
use wf_engine::{Finish, Piece, Timings};
use wf_text::CallPart;

use super::date::rfc3339_now;
use crate::app::ServedModel;
use crate::error::ApiError;
use crate::replies::Replies;
use crate::stream::Writer;
use crate::tools::Parts;

/// Where the text of a reply stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In `message`.
    Chat,
    /// In `response`.
    Text,
}

/// Writes each piece as a line.
pub(super) struct OllamaWriter {
    model: String,
    kind: Kind,
    parts: Parts,
    /// The call that goes on: its name, and its arguments so far.
    call: (String, String),
}

/// What is new of a reply.
#[derive(Default)]
pub(super) struct Said {
    text: String,
    calls: Vec<OllamaCall>,
}

impl Said {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }
}

impl OllamaWriter {
    pub(super) fn new(model: &ServedModel, kind: Kind, parts: Parts) -> Self {
        Self { model: model.name().to_owned(), kind, parts, call: Default::default() }
    }

    /// A reply of this much that goes on.
    pub(super) fn part(&self, Said { text, calls }: Said) -> OllamaReply {
        let (message, response) = match self.kind {
            Kind::Chat => {
                let (role, tool_calls) = ("assistant".into(), calls);
                (Some(OllamaMessage { role, content: text, tool_calls }), None)
            }
            Kind::Text => (None, Some(text)),
        };
        OllamaReply {
            model: self.model.clone(),
            created_at: rfc3339_now(),
            message,
            response,
            done: false,
            done_reason: None,
            cost: OllamaCost::default(),
        }
    }

    /// What parts of a reply say. A call is said as a whole.
    fn said(&mut self, parts: Vec<CallPart>) -> Said {
        let mut said = Said::default();
        for part in parts {
            match part {
                CallPart::Text(text) => said.text.push_str(&text),
                CallPart::Begin { name } => self.call = (name, String::new()),
                CallPart::Arguments(more) => self.call.1.push_str(&more),
                CallPart::End => {
                    let (name, json) = mem::take(&mut self.call);
                    match serde_json::from_str(&json) {
                        Ok(arguments) => {
                            let function = OllamaCalledFunction { name, arguments };
                            said.calls.push(OllamaCall { function });
                        }
                        // It was cut.
                        Err(_) => said.text.push_str(&json),
                    }
                }
            }
        }
        said
    }

    /// Adds a piece to a reply.
    pub(super) fn add(&mut self, reply: &mut OllamaReply, piece: Piece) {
        let said = match piece {
            Piece::Text { text, .. } => self.parts.push(0, text),
            Piece::Done(Finish { reason, timings, .. }) => {
                reply.created_at = rfc3339_now();
                reply.done = true;
                reply.done_reason = Some(reason.name().to_owned());
                reply.cost = cost(&timings);
                self.parts.finish(0)
            }
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => return,
        };
        let Said { text, calls } = self.said(said);
        if let Some(message) = &mut reply.message {
            message.content.push_str(&text);
            message.tool_calls.extend(calls);
        } else if let Some(said) = &mut reply.response {
            said.push_str(&text);
        }
    }
}

fn cost(t: &Timings) -> OllamaCost {
    let ns = |time: Duration| Some(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    OllamaCost {
        total_duration: ns(t.prompt + t.reply),
        load_duration: Some(0),
        prompt_eval_count: Some(t.prompt_tokens as u32),
        prompt_eval_duration: ns(t.prompt.saturating_sub(t.queued)),
        eval_count: Some(t.reply_tokens as u32),
        eval_duration: ns(t.reply),
    }
}

/// The answer to a request that only wants the model to be there.
pub(super) fn nothing(model: &ServedModel, kind: Kind) -> Response {
    let empty = OllamaWriter::new(model, kind, Parts::default()).part(Said::default());
    Json(OllamaReply { done: true, done_reason: Some("load".into()), ..empty }).into_response()
}

fn line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).map_or_else(|_| String::new(), |line| line + "\n")
}

impl Writer for OllamaWriter {
    fn begin(&mut self, _replies: &Replies) -> String {
        String::new()
    }

    fn piece(&mut self, _replies: &Replies, _at: usize, piece: Piece) -> String {
        match piece {
            Piece::Text { text, .. } => {
                let parts = self.parts.push(0, text);
                let said = self.said(parts);
                if said.is_empty() { String::new() } else { line(&self.part(said)) }
            }
            Piece::Done(_) => {
                let mut end = self.part(Said::default());
                self.add(&mut end, piece);
                line(&end)
            }
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => String::new(),
        }
    }

    fn end(&mut self, _replies: &Replies) -> String {
        String::new()
    }

    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn close(&self) -> String {
        String::new()
    }

    fn error(&mut self, error: &ApiError) -> String {
        line(&OllamaError { error: error.message.clone() })
    }

    /// Lines of JSON know no comments, so it is a reply of nothing.
    fn keep_alive(&self) -> String {
        line(&self.part(Said::default()))
    }
}
