//! Responses and their events.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use wf_api::sse;
use wf_engine::{Finish, FinishReason, TextEvent};
use wf_text::ToolCallEvent;

use super::super::Writer;
use super::wire::{
    IncompleteDetails, OutputCall, OutputItem, OutputMessage, OutputText, ResponseError,
    ResponseObject, ResponseUsage,
};
use crate::error::ApiError;
use crate::generation::tools::call_id;
use crate::generation::{SequenceEvent, Sequences};

pub(super) struct ResponseWriter {
    response: ResponseObject,
    /// Items that have ended.
    output: Vec<OutputItem>,
    /// The message that has not ended, and its text.
    message: Option<(OutputMessage, OutputText)>,
    /// The call that has not ended.
    call: Option<OutputCall>,
    message_id: String,
    has_tools: bool,
    events: u64,
}

/// An event, which is named after its type.
#[derive(Serialize)]
struct Event<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    sequence_number: u64,
    #[serde(flatten)]
    fields: &'a T,
}

impl ResponseWriter {
    pub(super) fn new(response: ResponseObject, message_id: String, has_tools: bool) -> Self {
        let (output, message, call) = (Vec::new(), None, None);
        Self { response, output, message, call, message_id, has_tools, events: 0 }
    }

    fn event_of(&mut self, kind: &str, fields: &impl Serialize) -> String {
        let event = Event { kind, sequence_number: self.events, fields };
        self.events += 1;
        sse::named_event(kind, &event)
    }

    /// Returns an event with the response as it is now.
    fn snapshot(&mut self, kind: &str) -> String {
        let response = self.response.clone();
        self.event_of(kind, &BTreeMap::from([("response", response)]))
    }

    /// Returns an event about the item that follows those that have ended.
    fn item_event(&mut self, kind: &str, item: &OutputItem) -> String {
        let output_index = self.output.len();
        self.event_of(kind, &json!({"output_index": output_index, "item": item}))
    }

    /// Returns an event about the text of a message.
    fn text_event(&mut self, kind: &str, message: &OutputMessage, fields: Value) -> String {
        let mut all = json!({"item_id": message.id, "output_index": self.output.len(),
                             "content_index": 0});
        if let (Value::Object(all), Value::Object(fields)) = (&mut all, fields) {
            all.extend(fields);
        }
        self.event_of(kind, &all)
    }

    fn begin_message(&mut self) -> Vec<String> {
        let id = match self.output.len() {
            0 => self.message_id.clone(),
            at => format!("{}_{at}", self.message_id),
        };
        let (status, role) = ("in_progress".into(), "assistant".into());
        let message = OutputMessage { id, status, role, content: Vec::new() };
        let text = OutputText::default();
        let item = OutputItem::Message(message.clone());
        let events = vec![
            self.item_event("response.output_item.added", &item),
            self.text_event("response.content_part.added", &message, json!({"part": text})),
        ];
        self.message = Some((message, text));
        events
    }

    fn end_message(&mut self, status: &str) -> Vec<String> {
        let Some((mut message, text)) = self.message.take() else { return Vec::new() };
        let (whole, part) = (json!({"text": text.text, "logprobs": []}), json!({"part": text}));
        let mut events = vec![
            self.text_event("response.output_text.done", &message, whole),
            self.text_event("response.content_part.done", &message, part),
        ];
        message.status = status.to_owned();
        message.content.push(text);
        let item = OutputItem::Message(message);
        events.push(self.item_event("response.output_item.done", &item));
        self.output.push(item);
        events
    }

    fn add_text(&mut self, delta: &str) -> Vec<String> {
        let mut events = match self.message {
            Some(_) => Vec::new(),
            None => self.begin_message(),
        };
        if let Some((message, mut text)) = self.message.take() {
            text.text.push_str(delta);
            let fields = json!({"delta": delta, "logprobs": []});
            events.push(self.text_event("response.output_text.delta", &message, fields));
            self.message = Some((message, text));
        }
        events
    }

    fn add(&mut self, part: ToolCallEvent) -> Vec<String> {
        match part {
            ToolCallEvent::Text(delta) => self.add_text(&delta),
            ToolCallEvent::Begin { name } => {
                let mut events = self.end_message("completed");
                let call = OutputCall {
                    id: call_id("fc"),
                    call_id: call_id("call"),
                    name,
                    arguments: String::new(),
                    status: "in_progress".into(),
                };
                let item = OutputItem::FunctionCall(call.clone());
                events.push(self.item_event("response.output_item.added", &item));
                self.call = Some(call);
                events
            }
            ToolCallEvent::Arguments(delta) => {
                let Some(call) = &mut self.call else { return Vec::new() };
                call.arguments.push_str(&delta);
                let fields = json!({"item_id": call.id, "output_index": self.output.len(),
                                    "delta": delta});
                vec![self.event_of("response.function_call_arguments.delta", &fields)]
            }
            ToolCallEvent::End => self.end_call(),
        }
    }

    fn end_call(&mut self) -> Vec<String> {
        let Some(mut call) = self.call.take() else { return Vec::new() };
        let is_complete = serde_json::from_str::<Value>(&call.arguments).is_ok();
        call.status = if is_complete { "completed" } else { "incomplete" }.to_owned();
        let whole = json!({"item_id": call.id, "output_index": self.output.len(),
                           "name": call.name, "arguments": call.arguments});
        let item = OutputItem::FunctionCall(call);
        let events = vec![
            self.event_of("response.function_call_arguments.done", &whole),
            self.item_event("response.output_item.done", &item),
        ];
        self.output.push(item);
        events
    }

    fn finish(&mut self, sequences: &Sequences, finish: &Finish) -> Vec<String> {
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
    /// An encoded event.
    type Frame = String;
    type Response = ResponseObject;

    const END: &'static str = "";

    fn start(&mut self, _: &Sequences) -> Vec<String> {
        vec![self.snapshot("response.created"), self.snapshot("response.in_progress")]
    }

    fn event(&mut self, sequences: &Sequences, _: usize, event: SequenceEvent) -> Vec<String> {
        let mut events: Vec<_> = event.parts.into_iter().flat_map(|part| self.add(part)).collect();
        match event.event {
            // A response without tools has a message, even if it is empty.
            TextEvent::Started { .. } if !self.has_tools => events.extend(self.begin_message()),
            TextEvent::Done(finish) => events.extend(self.finish(sequences, &finish)),
            _ => {}
        }
        events
    }

    fn end(&mut self, _: &Sequences) -> Vec<String> {
        let kind = format!("response.{}", self.response.status);
        vec![self.snapshot(&kind)]
    }

    fn response(self) -> ResponseObject {
        self.response
    }

    fn encode(&self, event: &String) -> String {
        event.clone()
    }

    fn error(&mut self, error: &ApiError) -> String {
        let (code, message) = (error.code.to_owned(), error.message.clone());
        let fields = json!({"code": code, "message": message, "param": error.param});
        self.response.status = "failed".to_owned();
        self.response.error = Some(ResponseError { code, message });
        let events = [self.event_of("error", &fields), self.snapshot("response.failed")];
        events.concat()
    }
}
