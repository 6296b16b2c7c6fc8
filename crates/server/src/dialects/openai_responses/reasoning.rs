//! Reasoning items: thinking in responses, and thinking of earlier responses in requests.
//!
//! Nothing is stored, so `encrypted_content` is the text itself in base64: a client that sends the item back, without
//! its content, gives the model its thinking again.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use wf_api::wire::Content;
use wf_text::ChatMessage;

use super::wire::{InputItem, ReasoningItem, ReasoningText};
use crate::generation::unknown_fields::UnknownFields;

impl ReasoningItem {
    pub(super) fn new(id: String) -> Self {
        Self { id, status: "in_progress".to_owned(), ..Self::default() }
    }

    /// Adds the content, once it is complete.
    pub(super) fn end(&mut self, text: String, status: &str, is_encoded: bool) {
        self.encrypted_content = is_encoded.then(|| BASE64_STANDARD.encode(&text));
        self.content = vec![ReasoningText { text }];
        status.clone_into(&mut self.status);
    }
}

/// Reads the thinking of an item: its content, or else its encoded content, or else its summary. Content that another
/// server encrypted is ignored and reported.
pub(super) fn read_reasoning(at: usize, item: &InputItem, unknown: &UnknownFields) -> String {
    let field = |name: &str| item.extra.get(name).filter(|value| !value.is_null());
    match &item.content {
        Some(Content::Text(text)) if !text.is_empty() => return text.clone(),
        Some(Content::Parts(parts)) if !parts.is_empty() => {
            let texts = parts.iter().filter_map(|part| part.text.as_deref());
            return texts.collect::<Vec<_>>().join("\n");
        }
        _ => {}
    }
    if let Some(encoded) = field("encrypted_content") {
        let bytes = encoded.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
        if let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
            return text;
        }
        unknown.ignore(&format!("input[{at}].encrypted_content"));
    }
    let parts = field("summary").and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
}

/// Adds thinking to the message that followed it, under the name that templates read.
pub(super) fn add_reasoning(message: &mut ChatMessage, thought: Option<String>) {
    if let Some(thought) = thought.filter(|thought| !thought.is_empty()) {
        message.extra.insert("reasoning_content".to_owned(), thought.into());
    }
}
