//! Messages of a conversation.

use serde_json::{Map, Value};

/// A message of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatMessage {
    /// Role: `system`, `user`, `assistant`, `tool`, or another one that the template supports.
    pub role: String,
    /// Text.
    pub content: String,
    /// Other fields that the template may use: `name`, `tool_calls`, `tool_call_id`, …
    pub extra: Map<String, Value>,
}

impl ChatMessage {
    /// Creates a message with a role and a text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        ChatMessage { role: role.into(), content: content.into(), extra: Map::new() }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("role".into(), self.role.clone().into());
        fields.insert("content".into(), self.content.clone().into());
        for (name, value) in &self.extra {
            if !fields.contains_key(name) {
                fields.insert(name.clone(), value.clone());
            }
        }
        Value::Object(fields)
    }
}
