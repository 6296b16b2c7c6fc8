//! Calls and their results in the blocks of Anthropic's messages.

use serde_json::{Value, json};
use wf_client::wire::{self, BlockDelta, Content, ContentPart, MessageEvent, ReplyBlock, Rest};
use wf_text::{CallPart, ChatMessage};

use super::call_id;
use crate::error::ApiError;
use crate::routes::chat;

/// A message as templates see it: results of tools are messages of their own.
pub(crate) fn messages_of(
    at: usize,
    message: wire::ChatMessage,
) -> Result<Vec<ChatMessage>, ApiError> {
    let is_tool = |part: &ContentPart| matches!(&*part.kind, "tool_use" | "tool_result");
    let parts = match message.content {
        Some(Content::Parts(parts)) if parts.iter().any(is_tool) => parts,
        _ => return Ok(vec![chat::one_message(at, message)?]),
    };
    let (mut calls, mut results, mut said) = (Vec::new(), Vec::new(), Vec::new());
    for (part_at, part) in parts.into_iter().enumerate() {
        let field = format!("messages[{at}].content[{part_at}]");
        match (part.kind.as_str(), message.role.as_str()) {
            ("tool_use", "assistant") => calls.push(call(&field, &part.rest)?),
            ("tool_result", "user") => results.push(result(&field, part.rest)?),
            ("tool_use" | "tool_result", role) => {
                let field = format!("{field}.type");
                let message = format!("{field}: a block of type {} is not {role}'s", part.kind);
                return Err(ApiError::field(field, message));
            }
            _ => said.push(chat::text_of_part(&field, part)?),
        }
    }
    let mut own = ChatMessage::new(message.role.as_str(), said.join("\n"));
    let has_own = !said.is_empty() || !calls.is_empty();
    if !calls.is_empty() {
        own.extra.insert("tool_calls".into(), calls.into());
    }
    Ok(results.into_iter().chain(has_own.then_some(own)).collect())
}

fn call(field: &str, block: &Rest) -> Result<Value, ApiError> {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    let (Some(id), Some(name)) = (text("id"), text("name")) else {
        let message = format!("{field}: id and name are needed");
        return Err(ApiError::field(field, message));
    };
    let input = block.get("input").cloned().unwrap_or_else(|| json!({}));
    Ok(json!({"id": id, "type": "function", "function": {"name": name, "arguments": input}}))
}

fn result(field: &str, mut block: Rest) -> Result<ChatMessage, ApiError> {
    let Some(Value::String(id)) = block.remove("tool_use_id") else {
        let field = format!("{field}.tool_use_id");
        let message = format!("{field}: the id of a tool_use block is needed");
        return Err(ApiError::field(field, message));
    };
    let field = format!("{field}.content");
    let content = match block.remove("content") {
        None | Some(Value::Null) => String::new(),
        Some(content) => {
            let content = serde_json::from_value::<Content>(content)
                .map_err(|error| ApiError::field(field.clone(), format!("{field}: {error}")))?;
            chat::text_of(&field, content)?
        }
    };
    let mut message = ChatMessage::new("tool", content);
    message.extra.insert("tool_call_id".into(), id.into());
    Ok(message)
}

/// The blocks of a reply as it is written.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) content: Vec<ReplyBlock>,
    /// Whether the last one goes on.
    is_open: bool,
    /// The arguments of the call that goes on.
    json: String,
}

impl Blocks {
    /// Begins with an empty text.
    pub(crate) fn begin_text(&mut self) -> MessageEvent {
        self.begin(ReplyBlock::Text { text: String::new() })
    }

    fn begin(&mut self, content_block: ReplyBlock) -> MessageEvent {
        self.content.push(content_block.clone());
        self.is_open = true;
        MessageEvent::ContentBlockStart { index: self.last(), content_block }
    }

    fn last(&self) -> u32 {
        self.content.len().saturating_sub(1) as u32
    }

    /// Whether there is a call.
    pub(crate) fn have_calls(&self) -> bool {
        self.content.iter().any(|block| matches!(block, ReplyBlock::ToolUse { .. }))
    }

    /// Adds a part of the reply, and says so.
    pub(crate) fn add(&mut self, part: CallPart) -> Vec<MessageEvent> {
        match part {
            CallPart::Text(more) => {
                let is_text = matches!(self.content.last(), Some(ReplyBlock::Text { .. }));
                let mut events = Vec::new();
                if !(self.is_open && is_text) {
                    events.push(self.begin_text());
                }
                if let Some(ReplyBlock::Text { text }) = self.content.last_mut() {
                    text.push_str(&more);
                }
                let delta = BlockDelta::TextDelta { text: more };
                events.push(MessageEvent::ContentBlockDelta { index: self.last(), delta });
                events
            }
            CallPart::Begin { name } => {
                let ended = self.end();
                self.json.clear();
                let (id, input) = (call_id("toolu"), Rest::new());
                let begun = self.begin(ReplyBlock::ToolUse { id, name, input });
                ended.into_iter().chain([begun]).collect()
            }
            CallPart::Arguments(partial_json) => {
                self.json.push_str(&partial_json);
                let delta = BlockDelta::InputJsonDelta { partial_json };
                vec![MessageEvent::ContentBlockDelta { index: self.last(), delta }]
            }
            CallPart::End => {
                // One that was cut has no arguments that could be read.
                let read = serde_json::from_str(&self.json).unwrap_or_default();
                if let Some(ReplyBlock::ToolUse { input, .. }) = self.content.last_mut() {
                    *input = read;
                }
                self.end().into_iter().collect()
            }
        }
    }

    /// Ends the block that goes on.
    pub(crate) fn end(&mut self) -> Option<MessageEvent> {
        let was_open = std::mem::take(&mut self.is_open);
        was_open.then(|| MessageEvent::ContentBlockStop { index: self.last() })
    }
}
