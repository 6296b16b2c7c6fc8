//! The conversation, and the file it can be saved to.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::input;

/// A message in the format of the OpenAI API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) role: String,
    pub(crate) content: String,
}

impl Message {
    fn new(role: &str, content: &str) -> Self {
        Self { role: role.to_owned(), content: content.to_owned() }
    }
}

/// A user message, and its response if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    message: String,
    response: Option<String>,
}

/// The messages so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub(crate) system: Option<String>,
    turns: Vec<Turn>,
}

impl Conversation {
    pub(crate) fn turns(&self) -> usize {
        self.turns.len()
    }

    /// Starts a turn with a user message.
    pub(crate) fn push(&mut self, message: &str) {
        self.turns.push(Turn { message: message.to_owned(), response: None });
    }

    pub(crate) fn set_response(&mut self, response: String) {
        if let Some(last) = self.turns.last_mut() {
            last.response = Some(response);
        }
    }

    /// Removes the last response. Returns its message, if there is one.
    pub(crate) fn remove_response(&mut self) -> Option<&str> {
        let last = self.turns.last_mut()?;
        last.response = None;
        Some(&last.message)
    }

    /// Removes the last turn. Returns its message, if there is one.
    pub(crate) fn undo(&mut self) -> Option<String> {
        self.turns.pop().map(|turn| turn.message)
    }

    /// Removes everything but the system message.
    pub(crate) fn clear(&mut self) {
        self.turns.clear();
    }

    /// Returns the messages in the format of the OpenAI API.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new("system", text));
        let turns = self.turns.iter().flat_map(|turn| {
            let response = turn.response.iter().map(|text| Message::new("assistant", text));
            [Message::new("user", &turn.message)].into_iter().chain(response)
        });
        system.chain(turns).collect()
    }

    /// Converts messages, which must alternate between user and assistant.
    fn from_messages(messages: &[Message]) -> Result<Self> {
        let mut conversation = Self::default();
        for (number, Message { role, content }) in messages.iter().enumerate() {
            let is_open = conversation.turns.last().is_some_and(|turn| turn.response.is_none());
            match role.as_str() {
                "system" if number == 0 => conversation.system = Some(content.clone()),
                "user" if !is_open => conversation.push(content),
                "assistant" if is_open => conversation.set_response(content.clone()),
                _ => bail!(
                    "message {number} has role {role:?}: must be system (message 0 only), then user and \
                     assistant alternating"
                ),
            }
        }
        Ok(conversation)
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
        let name = path.file_name().context("a file name is required")?;
        if path.exists() {
            Self::read(path).with_context(|| {
                format!("{} exists and is not replaced: choose another name", path.display())
            })?;
        }
        let mut part = name.to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(part);
        let write = || -> Result<()> {
            let mut file = File::create_new(&part)?;
            let written = serde_json::to_writer_pretty(&mut file, self)
                .map_err(anyhow::Error::from)
                .and_then(|()| Ok(file.write_all(b"\n")?))
                .and_then(|()| Ok(file.sync_all()?))
                .and_then(|()| Ok(fs::rename(&part, path)?));
            if written.is_err() {
                // The error above matters more than a leftover file.
                let _ = fs::remove_file(&part);
            }
            written
        };
        write().with_context(|| format!("writing {}", path.display()))
    }
}

/// Returns an error if there are no messages.
pub(crate) fn require_message(conversation: &Conversation) -> Result<()> {
    ensure!(conversation.turns() > 0, "there are no messages yet");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Conversation {
        let mut conversation = Conversation { system: Some("Be kind.".into()), turns: Vec::new() };
        conversation.push("hello");
        conversation.set_response("Hi!".into());
        conversation.push("who are you?");
        conversation
    }

    #[test]
    fn turns_can_be_removed() {
        let mut changed = conversation();
        assert_eq!(changed.messages().len(), 4);
        changed.set_response("A model.".into());
        assert_eq!(changed.remove_response(), Some("who are you?"));
        assert_eq!(changed, conversation());
        assert_eq!(changed.undo().as_deref(), Some("who are you?"));
        assert_eq!(changed.undo().as_deref(), Some("hello"));
        assert_eq!((changed.undo(), changed.remove_response().map(str::to_owned)), (None, None));
        assert_eq!(changed.messages(), [Message::new("system", "Be kind.")]);
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
