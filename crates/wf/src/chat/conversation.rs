//! What was said so far, and the file it can be kept in.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::open;

/// One turn of a conversation, as OpenAI's API has it.
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

/// A question, and its answer if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    question: String,
    answer: Option<String>,
}

/// What was said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// What the model is told before all else.
    pub(crate) system: Option<String>,
    turns: Vec<Turn>,
}

impl Conversation {
    /// Questions so far.
    pub(crate) fn turns(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn ask(&mut self, question: &str) {
        self.turns.push(Turn { question: question.to_owned(), answer: None });
    }

    /// Answers the last question.
    pub(crate) fn answer(&mut self, answer: String) {
        if let Some(last) = self.turns.last_mut() {
            last.answer = Some(answer);
        }
    }

    /// The last question once more, without its answer; nothing if there was none.
    pub(crate) fn forget_answer(&mut self) -> Option<&str> {
        let last = self.turns.last_mut()?;
        last.answer = None;
        Some(&last.question)
    }

    /// Takes the last question and its answer back; nothing if there was none.
    pub(crate) fn undo(&mut self) -> Option<String> {
        self.turns.pop().map(|turn| turn.question)
    }

    /// Takes everything back but the system message.
    pub(crate) fn clear(&mut self) {
        self.turns.clear();
    }

    /// As OpenAI's API has it.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new("system", text));
        let turns = self.turns.iter().flat_map(|turn| {
            let answer = turn.answer.iter().map(|text| Message::new("assistant", text));
            [Message::new("user", &turn.question)].into_iter().chain(answer)
        });
        system.chain(turns).collect()
    }

    /// The other way round. Anything else than questions and answers in turn is refused.
    fn from_messages(messages: &[Message]) -> Result<Self> {
        let mut conversation = Self::default();
        for (number, Message { role, content }) in messages.iter().enumerate() {
            let waits = conversation.turns.last().is_some_and(|turn| turn.answer.is_none());
            match role.as_str() {
                "system" if number == 0 => conversation.system = Some(content.clone()),
                "user" if !waits => conversation.ask(content),
                "assistant" if waits => conversation.answer(content.clone()),
                _ => bail!(
                    "message {number} has the role {role:?}: allowed are system for message 0, then \
                     user and assistant in turn"
                ),
            }
        }
        Ok(conversation)
    }
}

/// A conversation as a file: a request of OpenAI's API, its settings apart.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    /// Who answered; nobody has to answer again.
    #[serde(default)]
    pub(crate) model: String,
    messages: Vec<Message>,
    /// What was set, with the names of the API.
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
        let text = open::read_text_file(path)?;
        let read = || -> Result<Self> {
            let saved: Self = serde_json::from_str(&text)?;
            saved.conversation()?;
            Ok(saved)
        };
        read().with_context(|| format!("{}: not a saved conversation", path.display()))
    }

    /// Writes it to `path`, whole or not at all. What is there already is replaced if it is a
    /// conversation too.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let name = path.file_name().context("a name of a file is needed")?;
        if path.exists() {
            Self::read(path).with_context(|| {
                format!("{} is not replaced: choose another name", path.display())
            })?;
        }
        let mut beside = name.to_owned();
        beside.push(format!(".{}.part", std::process::id()));
        let beside = path.with_file_name(beside);
        let write = || -> Result<()> {
            let mut file = File::create_new(&beside)?;
            let written = serde_json::to_writer_pretty(&mut file, self)
                .map_err(anyhow::Error::from)
                .and_then(|()| Ok(file.write_all(b"\n")?))
                .and_then(|()| Ok(file.sync_all()?))
                .and_then(|()| Ok(fs::rename(&beside, path)?));
            if written.is_err() {
                // Half a file helps nobody; that it stays is less than why it was not finished.
                let _ = fs::remove_file(&beside);
            }
            written
        };
        write().with_context(|| format!("writing {}", path.display()))
    }
}

/// Refuses to go on without a question.
pub(crate) fn need_a_question(conversation: &Conversation) -> Result<()> {
    ensure!(conversation.turns() > 0, "nothing has been asked yet");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Conversation {
        let mut conversation = Conversation { system: Some("Be kind.".into()), turns: Vec::new() };
        conversation.ask("hello");
        conversation.answer("Hi!".into());
        conversation.ask("who are you?");
        conversation
    }

    #[test]
    fn what_was_said_can_be_taken_back() {
        let mut said = conversation();
        assert_eq!(said.messages().len(), 4);
        said.answer("A model.".into());
        assert_eq!(said.forget_answer(), Some("who are you?"));
        assert_eq!(said, conversation());
        assert_eq!(said.undo().as_deref(), Some("who are you?"));
        assert_eq!(said.undo().as_deref(), Some("hello"));
        assert_eq!((said.undo(), said.forget_answer().map(str::to_owned)), (None, None));
        assert_eq!(said.messages(), [Message::new("system", "Be kind.")]);
    }

    #[test]
    fn what_is_saved_is_what_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat.json");
        let settings = serde_json::json!({"temperature": 0.7}).as_object().unwrap().clone();
        for _again in 0..2 {
            Saved::new(&conversation(), "demo", settings.clone()).write(&file).unwrap();
            let saved = Saved::read(&file).unwrap();
            assert_eq!(saved.conversation().unwrap(), conversation());
            assert_eq!((saved.model.as_str(), &saved.settings), ("demo", &settings));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no half file is left");
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
                "message 1 has the role \"user\"",
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
