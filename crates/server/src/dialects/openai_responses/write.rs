//! Responses and their events.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use wf_api::sse;
use wf_api::wire::TokenLogprob;
use wf_engine::{Finish, FinishReason, TextEvent};
use wf_text::ToolCallEvent;

use super::super::Writer;
use super::wire::{
    IncompleteDetails, InputTokensDetails, OutputCall, OutputItem, OutputMessage, OutputText,
    OutputTokensDetails, ReasoningItem, ReasoningText, ResponseError, ResponseObject,
    ResponseUsage,
};
use crate::error::ApiError;
use crate::generation::logprobs::answer_logprob;
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
    /// Logprobs of tokens whose text is held back.
    logprobs: Vec<TokenLogprob>,
    /// The thinking that has not ended, and its text.
    reasoning: Option<(ReasoningItem, String)>,
    /// End of the ids of items.
    id: String,
    /// True if a message is begun before it has text.
    pub(super) begins_with_text: bool,
    pub(super) has_tools: bool,
    /// Repeats thinking as `encrypted_content`.
    pub(super) encodes_reasoning: bool,
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
    pub(super) fn new(response: ResponseObject, id: String) -> Self {
        Self {
            response,
            output: Vec::new(),
            message: None,
            call: None,
            logprobs: Vec::new(),
            reasoning: None,
            id,
            begins_with_text: false,
            has_tools: false,
            encodes_reasoning: false,
            events: 0,
        }
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

    /// Returns an event about the text of the item with this id.
    fn text_event(&mut self, kind: &str, id: &str, fields: Value) -> String {
        let mut all = json!({"item_id": id, "output_index": self.output.len(),
                             "content_index": 0});
        if let (Value::Object(all), Value::Object(fields)) = (&mut all, fields) {
            all.extend(fields);
        }
        self.event_of(kind, &all)
    }

    /// Returns the id of the next item.
    fn item_id(&self, prefix: &str) -> String {
        match self.output.len() {
            0 => format!("{prefix}_{}", self.id),
            at => format!("{prefix}_{}_{at}", self.id),
        }
    }

    fn add_reasoning(&mut self, delta: &str) -> Vec<String> {
        let mut events = Vec::new();
        let (item, mut text) = self.reasoning.take().unwrap_or_else(|| {
            let item = ReasoningItem::new(self.item_id("rs"));
            let part = json!({"part": ReasoningText::default()});
            let begun = OutputItem::Reasoning(item.clone());
            events.push(self.item_event("response.output_item.added", &begun));
            events.push(self.text_event("response.content_part.added", &item.id, part));
            (item, String::new())
        });
        text.push_str(delta);
        let delta = json!({"delta": delta});
        events.push(self.text_event("response.reasoning_text.delta", &item.id, delta));
        self.reasoning = Some((item, text));
        events
    }

    fn end_reasoning(&mut self, status: &str) -> Vec<String> {
        let Some((mut item, text)) = self.reasoning.take() else { return Vec::new() };
        let part = json!({"part": ReasoningText { text: text.clone() }});
        let whole = json!({"text": text});
        let mut events = vec![
            self.text_event("response.reasoning_text.done", &item.id, whole),
            self.text_event("response.content_part.done", &item.id, part),
        ];
        item.end(text, status, self.encodes_reasoning);
        let item = OutputItem::Reasoning(item);
        events.push(self.item_event("response.output_item.done", &item));
        self.output.push(item);
        events
    }

    fn begin_message(&mut self) -> Vec<String> {
        let id = self.item_id("msg");
        let (status, role) = ("in_progress".into(), "assistant".into());
        let message = OutputMessage { id, status, role, content: Vec::new() };
        let text = OutputText::default();
        let item = OutputItem::Message(message.clone());
        let events = vec![
            self.item_event("response.output_item.added", &item),
            self.text_event("response.content_part.added", &message.id, json!({"part": text})),
        ];
        self.message = Some((message, text));
        events
    }

    fn end_message(&mut self, status: &str) -> Vec<String> {
        let Some((mut message, mut text)) = self.message.take() else { return Vec::new() };
        text.logprobs.append(&mut self.logprobs);
        let whole = json!({"text": text.text, "logprobs": text.logprobs});
        let part = json!({"part": text});
        let mut events = vec![
            self.text_event("response.output_text.done", &message.id, whole),
            self.text_event("response.content_part.done", &message.id, part),
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
            let logprobs = std::mem::take(&mut self.logprobs);
            let fields = json!({"delta": delta, "logprobs": logprobs});
            text.logprobs.extend(logprobs);
            events.push(self.text_event("response.output_text.delta", &message.id, fields));
            self.message = Some((message, text));
        }
        events
    }

    fn add(&mut self, part: ToolCallEvent) -> Vec<String> {
        let mut events = self.end_reasoning("completed");
        events.extend(self.add_part(part));
        events
    }

    fn add_part(&mut self, part: ToolCallEvent) -> Vec<String> {
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
        let mut events = self.end_reasoning(status);
        let has_message = self.message.is_some()
            || self.output.iter().any(|item| matches!(item, OutputItem::Message(_)));
        // A response without tools has a message, even if it is empty.
        if !self.has_tools && !has_message {
            events.extend(self.begin_message());
        }
        events.extend(self.end_message(status));
        let usage = sequences.usage();
        let cached = usage.prompt_tokens_details.unwrap_or_default().cached_tokens;
        let response = &mut self.response;
        response.status = status.to_owned();
        response.incomplete_details =
            reason.map(|reason| IncompleteDetails { reason: reason.to_owned() });
        response.output = std::mem::take(&mut self.output);
        response.usage = Some(ResponseUsage {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: InputTokensDetails {
                cached_tokens: cached,
                cache_write_tokens: usage.prompt_tokens - cached,
            },
            output_tokens: usage.completion_tokens,
            output_tokens_details: OutputTokensDetails {
                reasoning_tokens: usage
                    .completion_tokens_details
                    .unwrap_or_default()
                    .reasoning_tokens,
            },
            total_tokens: usage.total_tokens,
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
        self.logprobs.extend(answer_logprob(sequences.tokenizer(), &event.event));
        let mut events = match event.reasoning.as_str() {
            "" => Vec::new(),
            delta => self.add_reasoning(delta),
        };
        events.extend(event.parts.into_iter().flat_map(|part| self.add(part)));
        match event.event {
            TextEvent::Started { .. } if self.begins_with_text => {
                events.extend(self.begin_message());
            }
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

    fn refusal(error: &ApiError) -> String {
        let fields = json!({"code": error.code, "message": error.message, "param": error.param});
        sse::named_event("error", &Event { kind: "error", sequence_number: 0, fields: &fields })
    }
}
