//! The conversation, and the file it can be saved to.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tools::ToolCall;
use crate::{input, output};

/// A message in the format of the OpenAI API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) role: String,
    pub(crate) content: String,
    /// Tool calls of a response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<Value>,
    /// Call that this is the result of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_call_id: Option<String>,
}

impl Message {
    fn new(role: &str, content: &str) -> Self {
        let (role, content) = (role.to_owned(), content.to_owned());
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// The messages so far: user and assistant alternate, with tool calls and their results before a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub(crate) system: Option<String>,
    turns: Vec<Message>,
}

impl Conversation {
    /// Returns the number of user messages.
    pub(crate) fn turns(&self) -> usize {
        self.turns.iter().filter(|message| message.role == "user").count()
    }

    /// Starts a turn with a user message.
    pub(crate) fn push(&mut self, message: &str) {
        self.turns.push(Message::new("user", message));
    }

    /// Ends a turn with a response.
    pub(crate) fn set_response(&mut self, response: &str) {
        self.turns.push(Message::new("assistant", response));
    }

    /// Adds the part of a response that calls tools.
    pub(crate) fn push_calls(&mut self, text: &str, calls: &[ToolCall]) {
        let tool_calls = calls.iter().map(ToolCall::to_json).collect();
        self.turns.push(Message { tool_calls, ..Message::new("assistant", text) });
    }

    /// Adds the result of a tool call.
    pub(crate) fn push_result(&mut self, call: &ToolCall, result: &str) {
        let tool_call_id = Some(call.id.clone());
        self.turns.push(Message { tool_call_id, ..Message::new("tool", result) });
    }

    /// Removes the last response with its tool calls, if there is one after the last message of the user.
    pub(crate) fn remove_response(&mut self) {
        while self.turns.pop_if(|message| message.role != "user").is_some() {}
    }

    /// Removes the last turn. Returns its message, if there is one.
    pub(crate) fn undo(&mut self) -> Option<String> {
        self.remove_response();
        self.turns.pop().map(|message| message.content)
    }

    /// Removes everything but the system message.
    pub(crate) fn clear(&mut self) {
        self.turns.clear();
    }

    /// Returns the messages in the format of the OpenAI API.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new("system", text));
        system.chain(self.turns.iter().cloned()).collect()
    }

    /// Converts messages, which must alternate between user and assistant.
    fn from_messages(messages: &[Message]) -> Result<Self> {
        let mut conversation = Self::default();
        for (number, message) in messages.iter().enumerate() {
            let last = conversation.turns.last();
            let calls_tools = last.is_some_and(|last| !last.tool_calls.is_empty());
            let is_result = last.is_some_and(|last| last.role == "tool");
            let is_open = last.is_some_and(|last| last.role == "user") || calls_tools || is_result;
            match message.role.as_str() {
                "system" if number == 0 => conversation.system = Some(message.content.clone()),
                "user" if !is_open => conversation.turns.push(message.clone()),
                "assistant" if is_open && !calls_tools => conversation.turns.push(message.clone()),
                "tool" if calls_tools || is_result => conversation.turns.push(message.clone()),
                role => bail!(
                    "message {number} has role {role:?}: must be system (message 0 only), then user and \
                     assistant alternating"
                ),
            }
        }
        Ok(conversation)
    }

    /// Returns an error if there are no messages.
    pub(crate) fn require_message(&self) -> Result<()> {
        ensure!(!self.turns.is_empty(), "there are no messages yet");
        Ok(())
    }
}

/// The file of a saved conversation.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    /// Name of the model, for information.
    #[serde(default)]
    pub(crate) model: String,
    messages: Vec<Message>,
    /// Settings with their API names.
    #[serde(default)]
    pub(crate) settings: Map<String, Value>,
}

impl Saved {
    pub(crate) fn new(
        conversation: &Conversation,
        model: &str,
        settings: Map<String, Value>,
    ) -> Self {
        Self { model: model.to_owned(), messages: conversation.messages(), settings }
    }

    pub(crate) fn conversation(&self) -> Result<Conversation> {
        Conversation::from_messages(&self.messages)
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = input::read_text_file(path)?;
        let read = || -> Result<Self> {
            let saved: Self = serde_json::from_str(&text)?;
            saved.conversation()?;
            Ok(saved)
        };
        read().with_context(|| format!("{}: not a saved conversation", path.display()))
    }

    /// Writes the file atomically. Replaces an existing file only if it is a saved conversation.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        if path.exists() {
            Self::read(path).with_context(|| {
                format!("{} exists and is not replaced: choose another name", path.display())
            })?;
        }
        output::write_atomically(path, &(serde_json::to_string_pretty(self)? + "\n"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn conversation() -> Conversation {
        let mut conversation = Conversation { system: Some("Be kind.".into()), turns: Vec::new() };
        conversation.push("hello");
        conversation.set_response("Hi!");
        conversation.push("who are you?");
        conversation
    }

    #[test]
    fn turns_can_be_removed() {
        let mut changed = conversation();
        assert_eq!(changed.messages().len(), 4);
        changed.set_response("A model.");
        changed.remove_response();
        assert_eq!(changed, conversation());
        assert_eq!(changed.undo().as_deref(), Some("who are you?"));
        assert_eq!(changed.undo().as_deref(), Some("hello"));
        assert_eq!(changed.undo(), None);
        changed.remove_response();
        assert_eq!(changed.messages(), [Message::new("system", "Be kind.")]);
    }

    #[test]
    fn tool_calls_belong_to_their_turn() {
        let call = ToolCall { id: "1".into(), name: "add".into(), arguments: "{}".into() };
        let mut changed = conversation();
        changed.push_calls("Let me see.", std::slice::from_ref(&call));
        changed.push_result(&call, "5");
        changed.set_response("It is 5.");
        let messages = changed.messages();
        assert_eq!(Conversation::from_messages(&messages).unwrap(), changed);
        assert_eq!((changed.turns(), messages.len()), (2, 7));
        assert_eq!(messages[5].tool_call_id.as_deref(), Some("1"));
        changed.remove_response();
        assert_eq!(changed, conversation());
    }

    #[test]
    fn saved_conversations_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat.json");
        let settings = serde_json::json!({"temperature": 0.7}).as_object().unwrap().clone();
        for _again in 0..2 {
            Saved::new(&conversation(), "demo", settings.clone()).write(&file).unwrap();
            let saved = Saved::read(&file).unwrap();
            assert_eq!(saved.conversation().unwrap(), conversation());
            assert_eq!((saved.model.as_str(), &saved.settings), ("demo", &settings));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file is left");
    }

    #[test]
    fn other_files_are_neither_read_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat.json");
        for (text, words) in [
            ("notes", "not a saved conversation"),
            ("{}", "messages"),
            (r#"{"messages": [{"role": "user"}]}"#, "content"),
            (r#"{"messages": [{"role": "tool", "content": "x"}]}"#, "\"tool\""),
            (r#"{"messages": [{"role": "assistant", "content": "x"}]}"#, "message 0"),
            (
                r#"{"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]}"#,
                "message 1 has role \"user\"",
            ),
        ] {
            fs::write(&file, text).unwrap();
            let message = format!("{:#}", Saved::read(&file).err().unwrap());
            assert!(message.contains(words) && message.contains("chat.json"), "{message}");
            let write = Saved::new(&conversation(), "demo", Map::new()).write(&file);
            assert!(write.unwrap_err().to_string().contains("is not replaced"));
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        let nowhere = folder.path().join("none/chat.json");
        assert!(Saved::new(&conversation(), "demo", Map::new()).write(&nowhere).is_err());
    }
}
