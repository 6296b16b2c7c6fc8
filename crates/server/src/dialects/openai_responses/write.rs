//! Responses and their events.

use serde_json::Value;
use wf_api::sse;
use wf_engine::{Finish, FinishReason};
use wf_text::ToolCallEvent;

use super::super::Writer;
use super::wire::{
    ContentLocation, IncompleteDetails, OutputCall, OutputItem, OutputMessage, OutputText,
    ResponseError, ResponseEvent, ResponseEventData, ResponseObject, ResponseUsage,
};
use crate::error::ApiError;
use crate::generation::sequences::{SequenceEvent, Sequences};
use crate::generation::tools::call_id;

pub(super) struct ResponseWriter {
    response: ResponseObject,
    output: Vec<OutputItem>,
    /// True if the last item is a message without its end.
    has_open_message: bool,
    message_id: String,
    has_tools: bool,
    events: u64,
}

impl ResponseWriter {
    pub(super) fn new(response: ResponseObject, message_id: String, has_tools: bool) -> Self {
        let (output, has_open_message) = (Vec::new(), false);
        Self { response, output, has_open_message, message_id, has_tools, events: 0 }
    }

    fn event_of(&mut self, kind: &str, data: ResponseEventData) -> ResponseEvent {
        let event = ResponseEvent { kind: kind.to_owned(), sequence_number: self.events, data };
        self.events += 1;
        event
    }

    /// Returns an event with the response as it is now.
    fn snapshot(&mut self, kind: &str) -> ResponseEvent {
        let response = Box::new(self.response.clone());
        self.event_of(kind, ResponseEventData::Response { response })
    }

    fn last(&self) -> u32 {
        self.output.len().saturating_sub(1) as u32
    }

    fn item_event(&mut self, kind: &str) -> ResponseEvent {
        let item = self.output.last().cloned();
        let item = item.unwrap_or_else(|| OutputItem::FunctionCall(OutputCall::default()));
        let data = ResponseEventData::Item { output_index: self.last(), item };
        self.event_of(kind, data)
    }

    /// Applies `change` to the text of the open message, and returns where that is.
    fn with_text<T>(&mut self, change: impl FnOnce(&mut OutputText) -> T) -> (ContentLocation, T) {
        let output_index = self.last();
        let mut none = OutputText::default();
        let (item_id, text) = match self.output.last_mut() {
            Some(OutputItem::Message(message)) => {
                if message.content.is_empty() {
                    message.content.push(OutputText::default());
                }
                (message.id.clone(), &mut message.content[0])
            }
            _ => (String::new(), &mut none),
        };
        let changed = change(text);
        (ContentLocation { item_id, output_index, content_index: 0 }, changed)
    }

    fn begin_message(&mut self) -> Vec<ResponseEvent> {
        let id = match self.output.len() {
            0 => self.message_id.clone(),
            at => format!("{}_{at}", self.message_id),
        };
        self.output.push(OutputItem::Message(OutputMessage {
            id,
            status: "in_progress".into(),
            role: "assistant".into(),
            content: Vec::new(),
        }));
        self.has_open_message = true;
        let added = self.item_event("response.output_item.added");
        let (location, part) = self.with_text(|text| text.clone());
        let part = ResponseEventData::Part { location, part };
        vec![added, self.event_of("response.content_part.added", part)]
    }

    fn end_message(&mut self, status: &str) -> Vec<ResponseEvent> {
        if !std::mem::take(&mut self.has_open_message) {
            return Vec::new();
        }
        let (location, part) = self.with_text(|text| text.clone());
        if let Some(OutputItem::Message(message)) = self.output.last_mut() {
            message.status = status.to_owned();
        }
        let text = ResponseEventData::Text {
            location: location.clone(),
            text: part.text.clone(),
            logprobs: Vec::new(),
        };
        vec![
            self.event_of("response.output_text.done", text),
            self.event_of("response.content_part.done", ResponseEventData::Part { location, part }),
            self.item_event("response.output_item.done"),
        ]
    }

    fn add(&mut self, part: ToolCallEvent) -> Vec<ResponseEvent> {
        match part {
            ToolCallEvent::Text(delta) => {
                let mut events = match self.has_open_message {
                    true => Vec::new(),
                    false => self.begin_message(),
                };
                let (location, ()) = self.with_text(|text| text.text.push_str(&delta));
                let data = ResponseEventData::Delta { location, delta, logprobs: Vec::new() };
                events.push(self.event_of("response.output_text.delta", data));
                events
            }
            ToolCallEvent::Begin { name } => {
                let mut events = self.end_message("completed");
                self.output.push(OutputItem::FunctionCall(OutputCall {
                    id: call_id("fc"),
                    call_id: call_id("call"),
                    name,
                    arguments: String::new(),
                    status: "in_progress".into(),
                }));
                events.push(self.item_event("response.output_item.added"));
                events
            }
            ToolCallEvent::Arguments(delta) => {
                let output_index = self.last();
                let Some(OutputItem::FunctionCall(call)) = self.output.last_mut() else {
                    return Vec::new();
                };
                call.arguments.push_str(&delta);
                let item_id = call.id.clone();
                let data = ResponseEventData::ArgumentsDelta { item_id, output_index, delta };
                vec![self.event_of("response.function_call_arguments.delta", data)]
            }
            ToolCallEvent::End => self.end_call(),
        }
    }

    fn end_call(&mut self) -> Vec<ResponseEvent> {
        let output_index = self.last();
        let Some(OutputItem::FunctionCall(call)) = self.output.last_mut() else {
            return Vec::new();
        };
        let is_complete = serde_json::from_str::<Value>(&call.arguments).is_ok();
        call.status = if is_complete { "completed" } else { "incomplete" }.to_owned();
        let OutputCall { id: item_id, name, arguments, .. } = call.clone();
        let data = ResponseEventData::Arguments { item_id, output_index, name, arguments };
        vec![
            self.event_of("response.function_call_arguments.done", data),
            self.item_event("response.output_item.done"),
        ]
    }

    fn finish(&mut self, sequences: &Sequences, finish: &Finish) -> Vec<ResponseEvent> {
        let reason = match finish.reason {
            FinishReason::Stop => None,
            FinishReason::Length => Some("max_output_tokens"),
            reason => Some(reason.name()),
        };
        let status = if reason.is_some() { "incomplete" } else { "completed" };
        let events = self.end_message(status);
        let usage = sequences.usage();
        let response = &mut self.response;
        response.status = status.to_owned();
        response.incomplete_details =
            reason.map(|reason| IncompleteDetails { reason: reason.to_owned() });
        response.output = std::mem::take(&mut self.output);
        response.usage = Some(ResponseUsage {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: usage.prompt_tokens_details.unwrap_or_default(),
            output_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens,
            ..ResponseUsage::default()
        });
        events
    }
}

impl Writer for ResponseWriter {
    type Frame = ResponseEvent;
    type Response = ResponseObject;

    fn start(&mut self, _: &Sequences) -> Vec<ResponseEvent> {
        vec![self.snapshot("response.created"), self.snapshot("response.in_progress")]
    }

    fn event(
        &mut self,
        sequences: &Sequences,
        _: usize,
        event: SequenceEvent,
    ) -> Vec<ResponseEvent> {
        match event {
            // A response without tools has a message, even if it is empty.
            SequenceEvent::Started { .. } if !self.has_tools => self.begin_message(),
            SequenceEvent::Delta { parts, .. } => {
                parts.into_iter().flat_map(|part| self.add(part)).collect()
            }
            SequenceEvent::Done { parts, finish } => {
                let mut events: Vec<_> =
                    parts.into_iter().flat_map(|part| self.add(part)).collect();
                events.extend(self.finish(sequences, &finish));
                events
            }
            SequenceEvent::Started { .. }
            | SequenceEvent::Progress { .. }
            | SequenceEvent::Preview(_)
            | SequenceEvent::PromptLogprobs(_) => Vec::new(),
        }
    }

    fn end(&mut self, _: &Sequences) -> Vec<ResponseEvent> {
        let kind = format!("response.{}", self.response.status);
        vec![self.snapshot(&kind)]
    }

    fn response(&self) -> ResponseObject {
        self.response.clone()
    }

    /// The last event has the whole response.
    fn fold(response: &mut ResponseObject, event: ResponseEvent) {
        if let ResponseEventData::Response { response: latest } = event.data {
            *response = *latest;
        }
    }

    fn encode(&mut self, event: ResponseEvent) -> String {
        sse::named_event(&event.kind, &event)
    }

    fn error(&mut self, error: &ApiError) -> String {
        let (code, message) = (error.code.to_owned(), error.message.clone());
        self.response.status = "failed".to_owned();
        self.response.error = Some(ResponseError { code: code.clone(), message: message.clone() });
        let data = ResponseEventData::Error { code, message, param: error.param.clone() };
        let events = [self.event_of("error", data), self.snapshot("response.failed")];
        events.into_iter().map(|event| self.encode(event)).collect()
    }

    fn close(&self) -> String {
        String::new()
    }
}
