//! Ollama's responses: one JSON object, or a stream of lines of JSON.

use std::time::Duration;

use wf_api::wire::TokenLogprob;
use wf_engine::{Finish, TextEvent, Timings};
use wf_text::ToolCallEvent;

use super::super::Writer;
use super::rfc3339;
use super::wire::{
    OllamaCall, OllamaCalledFunction, OllamaError, OllamaMessage, OllamaMetrics, OllamaResponse,
};
use crate::app::now;
use crate::error::ApiError;
use crate::generation::logprobs::answer_logprob;
use crate::generation::{SequenceEvent, Sequences};

pub(super) struct OllamaWriter {
    model: String,
    /// True if the text is in `message`, false if it is in `response`.
    is_chat: bool,
    /// Name and arguments of the call being written: calls are sent as a whole.
    call: (String, String),
    /// Logprobs of tokens whose text is held back.
    logprobs: Vec<TokenLogprob>,
    response: Option<OllamaResponse>,
}

impl OllamaWriter {
    pub(super) fn new(model: &str, is_chat: bool) -> Self {
        let model = model.to_owned();
        Self { model, is_chat, call: Default::default(), logprobs: Vec::new(), response: None }
    }

    fn line(&self, reasoning: String, text: String, tool_calls: Vec<OllamaCall>) -> OllamaResponse {
        let role = "assistant".into();
        let mut thinking = Some(reasoning).filter(|reasoning| !reasoning.is_empty());
        let (message, response) = match self.is_chat {
            true => {
                let thinking = thinking.take();
                (Some(OllamaMessage { role, content: text, thinking, tool_calls }), None)
            }
            false => (None, Some(text)),
        };
        OllamaResponse {
            model: self.model.clone(),
            created_at: rfc3339(now()),
            message,
            thinking,
            response,
            logprobs: Vec::new(),
            done: false,
            done_reason: None,
            metrics: OllamaMetrics::default(),
        }
    }

    fn empty_line(&self) -> OllamaResponse {
        self.line(String::new(), String::new(), Vec::new())
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

fn extend(text: &mut Option<String>, more: Option<String>) {
    more.into_iter().for_each(|more| text.get_or_insert_default().push_str(&more));
}

fn json_line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).map_or_else(|_| String::new(), |line| line + "\n")
}

impl Writer for OllamaWriter {
    type Frame = OllamaResponse;
    type Response = OllamaResponse;

    const CONTENT_TYPE: &'static str = "application/x-ndjson";
    const END: &'static str = "";

    fn event(
        &mut self,
        sequences: &Sequences,
        _: usize,
        event: SequenceEvent,
    ) -> Vec<OllamaResponse> {
        self.logprobs.extend(answer_logprob(sequences.tokenizer(), &event.event));
        let (reasoning, (text, calls)) = (event.reasoning, self.split(event.parts));
        match event.event {
            TextEvent::Done(Finish { reason, timings, .. }) => vec![OllamaResponse {
                done: true,
                done_reason: Some(reason.name().to_owned()),
                metrics: metrics(&timings),
                logprobs: std::mem::take(&mut self.logprobs),
                ..self.line(reasoning, text, calls)
            }],
            _ if reasoning.is_empty() && text.is_empty() && calls.is_empty() => Vec::new(),
            _ => {
                let logprobs = std::mem::take(&mut self.logprobs);
                vec![OllamaResponse { logprobs, ..self.line(reasoning, text, calls) }]
            }
        }
    }

    /// A request without a prompt has no lines.
    fn response(self) -> OllamaResponse {
        let done_reason = Some("load".to_owned());
        let empty = || OllamaResponse { done: true, done_reason, ..self.empty_line() };
        self.response.clone().unwrap_or_else(empty)
    }

    fn fold(&mut self, line: OllamaResponse) {
        let Some(response) = &mut self.response else {
            self.response = Some(line);
            return;
        };
        if let (Some(message), Some(more)) = (&mut response.message, line.message) {
            message.content.push_str(&more.content);
            extend(&mut message.thinking, more.thinking);
            message.tool_calls.extend(more.tool_calls);
        }
        if let (Some(text), Some(more)) = (&mut response.response, line.response) {
            text.push_str(&more);
        }
        extend(&mut response.thinking, line.thinking);
        response.logprobs.extend(line.logprobs);
        response.created_at = line.created_at;
        response.done = line.done;
        response.done_reason = line.done_reason;
        response.metrics = line.metrics;
    }

    fn encode(&self, line: &OllamaResponse) -> String {
        json_line(line)
    }

    fn refusal(error: &ApiError) -> String {
        json_line(&OllamaError { error: error.message.clone() })
    }

    /// Lines of JSON have no comments, so this is a response without text.
    fn keep_alive(&self) -> String {
        json_line(&self.empty_line())
    }

    fn waiting(model: &str) -> String {
        // Clients of one path ignore the text of the other.
        let chat = Self::new(model, true).empty_line();
        json_line(&OllamaResponse { response: Some(String::new()), ..chat })
    }
}
