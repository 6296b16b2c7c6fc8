//! Messages and their events.

use serde::Serialize;
use wf_api::sse;
use wf_api::wire::JsonObject;
use wf_engine::{Finish, FinishReason, StopCause};
use wf_text::ToolCallEvent;

use super::super::Writer;
use super::error_detail;
use super::wire::{BlockDelta, ContentBlock, Message, MessageEvent, MessageStopInfo, MessageUsage};
use crate::error::ApiError;
use crate::generation::sequences::{SequenceEvent, Sequences};
use crate::generation::tools::call_id;

pub(super) struct MessageWriter {
    /// The message without its content.
    message: Message,
    stop_strings: Vec<String>,
    has_tools: bool,
    /// Blocks begun so far.
    blocks: u32,
    open: Option<OpenBlock>,
    has_calls: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum OpenBlock {
    Text,
    Call,
}

impl MessageWriter {
    pub(super) fn new(message: Message, stop_strings: Vec<String>, has_tools: bool) -> Self {
        Self { message, stop_strings, has_tools, blocks: 0, open: None, has_calls: false }
    }

    fn index(&self) -> u32 {
        self.blocks.saturating_sub(1)
    }

    fn begin(&mut self, kind: OpenBlock, content_block: ContentBlock) -> MessageEvent {
        self.blocks += 1;
        self.open = Some(kind);
        MessageEvent::ContentBlockStart { index: self.index(), content_block }
    }

    fn begin_text(&mut self) -> MessageEvent {
        self.begin(OpenBlock::Text, ContentBlock::Text { text: String::new() })
    }

    /// Ends the open block, if there is one.
    fn end_block(&mut self) -> Option<MessageEvent> {
        self.open.take().map(|_| MessageEvent::ContentBlockStop { index: self.index() })
    }

    fn add(&mut self, part: ToolCallEvent) -> Vec<MessageEvent> {
        match part {
            ToolCallEvent::Text(text) => {
                let is_open = self.open == Some(OpenBlock::Text);
                let begun = (!is_open).then(|| self.begin_text());
                let delta = BlockDelta::TextDelta { text };
                let delta = MessageEvent::ContentBlockDelta { index: self.index(), delta };
                begun.into_iter().chain([delta]).collect()
            }
            ToolCallEvent::Begin { name } => {
                let ended = self.end_block();
                self.has_calls = true;
                let (id, input) = (call_id("toolu"), JsonObject::new());
                let block = ContentBlock::ToolUse { id, name, input };
                let begun = self.begin(OpenBlock::Call, block);
                ended.into_iter().chain([begun]).collect()
            }
            ToolCallEvent::Arguments(partial_json) => {
                let delta = BlockDelta::InputJsonDelta { partial_json };
                vec![MessageEvent::ContentBlockDelta { index: self.index(), delta }]
            }
            ToolCallEvent::End => self.end_block().into_iter().collect(),
        }
    }

    fn usage(sequences: &Sequences) -> MessageUsage {
        let usage = sequences.usage();
        let cached = usage.prompt_tokens_details.map_or(0, |details| details.cached_tokens);
        MessageUsage {
            input_tokens: usage.prompt_tokens - cached,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            output_tokens: usage.completion_tokens,
        }
    }

    /// Returns the first events. The number of cached tokens is known once computing begins.
    fn started(&mut self, sequences: &Sequences, cached: usize) -> Vec<MessageEvent> {
        let usage = MessageUsage {
            input_tokens: (sequences.prompt(0).len() - cached) as u32,
            cache_read_input_tokens: cached as u32,
            ..MessageUsage::default()
        };
        let message = Message { usage, ..self.message.clone() };
        let mut events = vec![MessageEvent::MessageStart { message }];
        // A message without tools has a text, even if it is empty.
        if !self.has_tools {
            events.push(self.begin_text());
        }
        events.push(MessageEvent::Ping);
        events
    }

    fn stop_info(&self, finish: &Finish) -> MessageStopInfo {
        let (reason, stop_sequence) = match (finish.reason, &finish.stop_cause) {
            (FinishReason::Stop, Some(StopCause::String(at))) => {
                ("stop_sequence", Some(self.stop_strings[*at].clone()))
            }
            (FinishReason::Length, _) => ("max_tokens", None),
            // The client may send the message back to have it continued.
            (FinishReason::Deadline, _) => ("pause_turn", None),
            _ if self.has_calls => ("tool_use", None),
            _ => ("end_turn", None),
        };
        MessageStopInfo { stop_reason: Some(reason.to_owned()), stop_sequence }
    }
}

/// Encodes an event under the name of its type.
fn encode(event: &MessageEvent) -> String {
    let event = serde_json::to_value(event).unwrap_or_default();
    sse::named_event(event["type"].as_str().unwrap_or_default(), &event)
}

/// A message that is not streamed.
#[derive(Serialize)]
pub(super) struct WholeMessage {
    #[serde(flatten)]
    message: Message,
    /// Arguments of the call being folded.
    #[serde(skip)]
    json: String,
}

impl Writer for MessageWriter {
    type Frame = MessageEvent;
    type Response = WholeMessage;

    fn event(
        &mut self,
        sequences: &Sequences,
        _: usize,
        event: SequenceEvent,
    ) -> Vec<MessageEvent> {
        match event {
            SequenceEvent::Started { cached } => self.started(sequences, cached),
            SequenceEvent::Delta { parts, .. } => {
                parts.into_iter().flat_map(|part| self.add(part)).collect()
            }
            SequenceEvent::Done { parts, finish } => {
                let mut events: Vec<_> =
                    parts.into_iter().flat_map(|part| self.add(part)).collect();
                events.extend(self.end_block());
                let (delta, usage) = (self.stop_info(&finish), Self::usage(sequences));
                events.push(MessageEvent::MessageDelta { delta, usage });
                events.push(MessageEvent::MessageStop);
                events
            }
            SequenceEvent::Progress { .. }
            | SequenceEvent::Preview(_)
            | SequenceEvent::PromptLogprobs(_) => Vec::new(),
        }
    }

    fn response(&self) -> WholeMessage {
        WholeMessage { message: self.message.clone(), json: String::new() }
    }

    fn fold(WholeMessage { message, json }: &mut WholeMessage, event: MessageEvent) {
        match event {
            MessageEvent::ContentBlockStart { content_block, .. } => {
                json.clear();
                message.content.push(content_block);
            }
            MessageEvent::ContentBlockDelta { delta, .. } => match delta {
                BlockDelta::TextDelta { text: more } => {
                    if let Some(ContentBlock::Text { text }) = message.content.last_mut() {
                        text.push_str(&more);
                    }
                }
                BlockDelta::InputJsonDelta { partial_json } => json.push_str(&partial_json),
            },
            MessageEvent::ContentBlockStop { .. } => {
                if let Some(ContentBlock::ToolUse { input, .. }) = message.content.last_mut() {
                    // A call that was cut off has no arguments that could be parsed.
                    *input = serde_json::from_str(json).unwrap_or_default();
                }
            }
            MessageEvent::MessageDelta { delta, usage } => {
                message.stop = delta;
                message.usage = usage;
            }
            MessageEvent::MessageStart { .. }
            | MessageEvent::Ping
            | MessageEvent::MessageStop
            | MessageEvent::Error { .. } => {}
        }
    }

    fn encode(&mut self, event: MessageEvent) -> String {
        encode(&event)
    }

    fn error(&mut self, error: &ApiError) -> String {
        encode(&MessageEvent::Error { error: error_detail(error) })
    }

    fn close(&self) -> String {
        String::new()
    }

    fn keep_alive(&self) -> String {
        encode(&MessageEvent::Ping)
    }
}
