//! Replies as Ollama writes them: one JSON object, or lines of JSON.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use wf_client::wire::{OllamaCost, OllamaError, OllamaMessage, OllamaReply};
use wf_engine::{Finish, Piece, Timings};

use super::date::rfc3339_now;
use crate::app::ServedModel;
use crate::error::ApiError;
use crate::replies::Replies;
use crate::stream::Writer;

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
}

impl OllamaWriter {
    pub(super) fn new(model: &ServedModel, kind: Kind) -> Self {
        Self { model: model.name().to_owned(), kind }
    }

    /// A reply of `text` that goes on.
    pub(super) fn part(&self, text: String) -> OllamaReply {
        let (message, response) = match self.kind {
            Kind::Chat => (Some(OllamaMessage { role: "assistant".into(), content: text }), None),
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
}

/// Adds a piece to a reply.
pub(super) fn add(reply: &mut OllamaReply, piece: Piece) {
    match piece {
        Piece::Text { text, .. } => {
            let said = reply.message.as_mut().map(|message| &mut message.content);
            if let Some(said) = said.or(reply.response.as_mut()) {
                said.push_str(&text);
            }
        }
        Piece::Done(Finish { reason, timings, .. }) => {
            reply.created_at = rfc3339_now();
            reply.done = true;
            reply.done_reason = Some(reason.name().to_owned());
            reply.cost = cost(&timings);
        }
        Piece::Started { .. }
        | Piece::Progress { .. }
        | Piece::Preview(_)
        | Piece::PromptLogprobs(_) => {}
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
    let empty = OllamaWriter::new(model, kind).part(String::new());
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
            Piece::Text { text, .. } if !text.is_empty() => line(&self.part(text)),
            Piece::Done(_) => {
                let mut end = self.part(String::new());
                add(&mut end, piece);
                line(&end)
            }
            Piece::Text { .. }
            | Piece::Started { .. }
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
        line(&self.part(String::new()))
    }
}
