//! Ollama's responses: one JSON object, or a stream of lines of JSON.

use std::time::Duration;

use wf_engine::{Finish, Timings};
use wf_text::ToolCallEvent;

use super::super::Writer;
use super::rfc3339;
use super::wire::{
    OllamaCall, OllamaCalledFunction, OllamaError, OllamaMessage, OllamaMetrics, OllamaResponse,
};
use crate::app::{ServedModel, now};
use crate::error::ApiError;
use crate::generation::sequences::{SequenceEvent, Sequences};

/// Field that holds the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextField {
    /// `message`, in chats.
    Message,
    /// `response`.
    Response,
}

pub(super) struct OllamaWriter {
    model: String,
    field: TextField,
    /// False for a request without a prompt, which only loads the model.
    has_prompt: bool,
    /// Name and arguments of the call being written: calls are sent as a whole.
    call: (String, String),
}

impl OllamaWriter {
    pub(super) fn new(model: &ServedModel, field: TextField, has_prompt: bool) -> Self {
        Self { model: model.name().to_owned(), field, has_prompt, call: Default::default() }
    }

    fn line(&self, text: String, tool_calls: Vec<OllamaCall>) -> OllamaResponse {
        let (message, response) = match self.field {
            TextField::Message => {
                let role = "assistant".into();
                (Some(OllamaMessage { role, content: text, tool_calls }), None)
            }
            TextField::Response => (None, Some(text)),
        };
        OllamaResponse {
            model: self.model.clone(),
            created_at: rfc3339(now()),
            message,
            response,
            done: false,
            done_reason: None,
            metrics: OllamaMetrics::default(),
        }
    }

    fn empty_line(&self) -> OllamaResponse {
        self.line(String::new(), Vec::new())
    }

    /// Separates text from calls that are complete.
    fn split(&mut self, parts: Vec<ToolCallEvent>) -> (String, Vec<OllamaCall>) {
        let (mut text, mut calls) = (String::new(), Vec::new());
        for part in parts {
            match part {
                ToolCallEvent::Text(more) => text.push_str(&more),
                ToolCallEvent::Begin { name } => self.call = (name, String::new()),
                ToolCallEvent::Arguments(more) => self.call.1.push_str(&more),
                ToolCallEvent::End => {
                    let (name, json) = std::mem::take(&mut self.call);
                    match serde_json::from_str(&json) {
                        Ok(arguments) => {
                            let function = OllamaCalledFunction { name, arguments };
                            calls.push(OllamaCall { function });
                        }
                        // A call that was cut off is text.
                        Err(_) => text.push_str(&json),
                    }
                }
            }
        }
        (text, calls)
    }
}

fn metrics(t: &Timings) -> OllamaMetrics {
    let ns = |time: Duration| Some(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    OllamaMetrics {
        total_duration: ns(t.prompt + t.decode),
        load_duration: Some(0),
        prompt_eval_count: Some(t.prompt_tokens as u32),
        prompt_eval_duration: ns(t.prompt.saturating_sub(t.queued)),
        eval_count: Some(t.completion_tokens as u32),
        eval_duration: ns(t.decode),
    }
}

fn json_line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).map_or_else(|_| String::new(), |line| line + "\n")
}

impl Writer for OllamaWriter {
    type Frame = OllamaResponse;
    type Response = OllamaResponse;

    const CONTENT_TYPE: &'static str = "application/x-ndjson";

    fn event(&mut self, _: &Sequences, _: usize, event: SequenceEvent) -> Vec<OllamaResponse> {
        match event {
            SequenceEvent::Delta { parts, .. } => match self.split(parts) {
                (text, calls) if text.is_empty() && calls.is_empty() => Vec::new(),
                (text, calls) => vec![self.line(text, calls)],
            },
            SequenceEvent::Done { parts, finish: Finish { reason, timings, .. } } => {
                let (text, calls) = self.split(parts);
                vec![OllamaResponse {
                    done: true,
                    done_reason: Some(reason.name().to_owned()),
                    metrics: metrics(&timings),
                    ..self.line(text, calls)
                }]
            }
            SequenceEvent::Started { .. }
            | SequenceEvent::Progress { .. }
            | SequenceEvent::Preview(_)
            | SequenceEvent::PromptLogprobs(_) => Vec::new(),
        }
    }

    fn response(&self) -> OllamaResponse {
        let done_reason = (!self.has_prompt).then(|| "load".to_owned());
        OllamaResponse { done: !self.has_prompt, done_reason, ..self.empty_line() }
    }

    fn fold(response: &mut OllamaResponse, line: OllamaResponse) {
        if let (Some(message), Some(more)) = (&mut response.message, line.message) {
            message.content.push_str(&more.content);
            message.tool_calls.extend(more.tool_calls);
        }
        if let (Some(text), Some(more)) = (&mut response.response, line.response) {
            text.push_str(&more);
        }
        response.created_at = line.created_at;
        response.done = line.done;
        response.done_reason = line.done_reason;
        response.metrics = line.metrics;
    }

    fn encode(&mut self, line: OllamaResponse) -> String {
        json_line(&line)
    }

    fn error(&mut self, error: &ApiError) -> String {
        json_line(&OllamaError { error: error.message.clone() })
    }

    fn close(&self) -> String {
        String::new()
    }

    /// Lines of JSON have no comments, so this is a response without text.
    fn keep_alive(&self) -> String {
        json_line(&self.empty_line())
    }
}
