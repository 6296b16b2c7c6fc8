//! Messages and their events.

use serde_json::{Value, json};
use wf_api::sse;
use wf_api::wire::JsonObject;
use wf_engine::{Finish, FinishReason, StopCause, TextEvent};
use wf_text::ToolCallEvent;

use super::super::Writer;
use super::error_detail;
use super::wire::{ContentBlock, Message, MessageStopInfo, MessageUsage};
use crate::error::ApiError;
use crate::generation::tools::call_id;
use crate::generation::{SequenceEvent, Sequences};

/// Signature of thinking. Clients send it back, where nothing checks it.
const SIGNATURE: &str = "unsigned";

pub(super) struct MessageWriter {
    /// The message so far.
    message: Message,
    /// Arguments of the last call.
    arguments: String,
    /// True if the last block has not ended.
    is_open: bool,
    stop_strings: Vec<String>,
    has_tools: bool,
    /// True if the first block may be thinking.
    may_think: bool,
    /// Reason to stop at the limit of tokens: that of the request, or of the context.
    at_length: &'static str,
}

impl MessageWriter {
    pub(super) fn new(
        message: Message,
        stop_strings: Vec<String>,
        has_tools: bool,
        may_think: bool,
        at_length: &'static str,
    ) -> Self {
        let (arguments, is_open) = (String::new(), false);
        Self { message, arguments, is_open, stop_strings, has_tools, may_think, at_length }
    }

    fn index(&self) -> usize {
        self.message.content.len().saturating_sub(1)
    }

    fn begin(&mut self, block: ContentBlock) -> Value {
        let event = json!({"type": "content_block_start", "index": self.message.content.len(),
                           "content_block": block});
        self.message.content.push(block);
        self.is_open = true;
        self.arguments.clear();
        event
    }

    fn delta(&self, delta: &Value) -> Value {
        json!({"type": "content_block_delta", "index": self.index(), "delta": delta})
    }

    /// Ends the open block, if there is one.
    fn end_block(&mut self) -> Vec<Value> {
        if !std::mem::take(&mut self.is_open) {
            return Vec::new();
        }
        let mut events = Vec::new();
        if let Some(ContentBlock::Thinking { signature, .. }) = self.message.content.last_mut() {
            SIGNATURE.clone_into(signature);
            let delta = json!({"type": "signature_delta", "signature": SIGNATURE});
            events.push(self.delta(&delta));
        }
        if let Some(ContentBlock::ToolUse { input, .. }) = self.message.content.last_mut() {
            // A call that was cut off has no arguments that could be parsed.
            *input = serde_json::from_str(&self.arguments).unwrap_or_default();
        }
        events.push(json!({"type": "content_block_stop", "index": self.index()}));
        events
    }

    fn add_thinking(&mut self, more: &str) -> Vec<Value> {
        let mut events = Vec::new();
        if !self.is_open {
            let (thinking, signature) = (String::new(), String::new());
            events.push(self.begin(ContentBlock::Thinking { thinking, signature }));
        }
        if let Some(ContentBlock::Thinking { thinking, .. }) = self.message.content.last_mut() {
            thinking.push_str(more);
        }
        events.push(self.delta(&json!({"type": "thinking_delta", "thinking": more})));
        events
    }

    fn add_text(&mut self, more: &str) -> Vec<Value> {
        let mut events = Vec::new();
        let is_text = matches!(self.message.content.last(), Some(ContentBlock::Text { .. }));
        if !(self.is_open && is_text) {
            events.extend(self.end_block());
            events.push(self.begin(ContentBlock::Text { text: String::new() }));
        }
        if let Some(ContentBlock::Text { text }) = self.message.content.last_mut() {
            text.push_str(more);
        }
        events.push(self.delta(&json!({"type": "text_delta", "text": more})));
        events
    }

    fn add(&mut self, part: ToolCallEvent) -> Vec<Value> {
        match part {
            ToolCallEvent::Text(text) => self.add_text(&text),
            ToolCallEvent::Begin { name } => {
                let mut events = self.end_block();
                let (id, input) = (call_id("toolu"), JsonObject::new());
                events.push(self.begin(ContentBlock::ToolUse { id, name, input }));
                events
            }
            ToolCallEvent::Arguments(json) => {
                self.arguments.push_str(&json);
                vec![self.delta(&json!({"type": "input_json_delta", "partial_json": json}))]
            }
            ToolCallEvent::End => self.end_block(),
        }
    }

    /// Returns the first events. The number of cached tokens is known once computing begins.
    fn start_message(&mut self, sequences: &Sequences, cached: usize) -> Vec<Value> {
        self.message.usage.input_tokens = (sequences.prompt(0).len() - cached) as u32;
        self.message.usage.cache_read_input_tokens = cached as u32;
        let mut events = vec![json!({"type": "message_start", "message": self.message})];
        if !self.has_tools && !self.may_think {
            events.push(self.begin(ContentBlock::Text { text: String::new() }));
        }
        events.push(json!({"type": "ping"}));
        events
    }

    fn end_message(&mut self, sequences: &Sequences, finish: &Finish) -> Vec<Value> {
        let mut events = self.end_block();
        let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Text { .. });
        // A message without tools has a text, even if it is empty.
        if !self.has_tools && !self.message.content.iter().any(is_text) {
            events.push(self.begin(ContentBlock::Text { text: String::new() }));
            events.extend(self.end_block());
        }
        let usage = sequences.usage();
        let cached = usage.prompt_tokens_details.map_or(0, |details| details.cached_tokens);
        self.message.usage = MessageUsage {
            input_tokens: usage.prompt_tokens - cached,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            output_tokens: usage.completion_tokens,
        };
        self.message.stop = self.stop_info(finish);
        let (delta, usage) = (&self.message.stop, &self.message.usage);
        events.push(json!({"type": "message_delta", "delta": delta, "usage": usage}));
        events.push(json!({"type": "message_stop"}));
        events
    }

    fn stop_info(&self, finish: &Finish) -> MessageStopInfo {
        let mut blocks = self.message.content.iter();
        let has_calls = blocks.any(|block| matches!(block, ContentBlock::ToolUse { .. }));
        let (reason, stop_sequence) = match (finish.reason, &finish.stop_cause) {
            (FinishReason::Stop, Some(StopCause::String(at))) => {
                ("stop_sequence", Some(self.stop_strings[*at].clone()))
            }
            (FinishReason::Length, _) => (self.at_length, None),
            (FinishReason::DeadEnd, _) => (finish.reason.name(), None),
            // The client may send the message back to have it continued.
            (FinishReason::Deadline, _) => ("pause_turn", None),
            _ if has_calls => ("tool_use", None),
            _ => ("end_turn", None),
        };
        MessageStopInfo { stop_reason: Some(reason.to_owned()), stop_sequence }
    }
}

impl Writer for MessageWriter {
    type Frame = Value;
    type Response = Message;

    const END: &'static str = "";

    fn event(&mut self, sequences: &Sequences, _: usize, event: SequenceEvent) -> Vec<Value> {
        let mut events = match event.reasoning.as_str() {
            "" => Vec::new(),
            more => self.add_thinking(more),
        };
        events.extend(event.parts.into_iter().flat_map(|part| self.add(part)));
        match event.event {
            TextEvent::Started { cached } => events.extend(self.start_message(sequences, cached)),
            TextEvent::Done(finish) => events.extend(self.end_message(sequences, &finish)),
            _ => {}
        }
        events
    }

    fn response(self) -> Message {
        self.message
    }

    /// An event has the name of its type.
    fn encode(&self, event: &Value) -> String {
        sse::named_event(event["type"].as_str().unwrap_or_default(), event)
    }

    fn refusal(error: &ApiError) -> String {
        sse::named_event("error", &json!({"type": "error", "error": error_detail(error)}))
    }

    fn keep_alive(&self) -> String {
        self.encode(&json!({"type": "ping"}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_keeps_a_stream_alive() {
        let message = Message {
            id: "msg_1".into(),
            kind: "message".into(),
            role: "assistant".into(),
            model: "demo".into(),
            content: Vec::new(),
            stop: MessageStopInfo::default(),
            usage: MessageUsage::default(),
        };
        let writer = MessageWriter::new(message, Vec::new(), false, false, "max_tokens");
        assert_eq!(writer.keep_alive(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    }
}
