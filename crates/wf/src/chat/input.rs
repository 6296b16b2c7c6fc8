//! Input of a chat: a line editor, or a script on standard input.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{DefaultHistory, History};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Cmd, Config, Context, Editor, Helper, KeyCode, KeyEvent, Modifiers};

use super::{commands, settings};
use crate::output;

/// Maximum size of a message: an endless device must not fill the memory.
const MAX_MESSAGE_LEN: u64 = 16 << 20;

/// Delimiter of multi-line text.
const FENCE: &str = "\"\"\"";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// A message, even if it starts with a slash, because it was fenced.
    Fenced(String),
    Interrupted,
    End,
}

pub(crate) enum Input {
    Interactive(Box<LineEditor>),
    Script,
}

impl Input {
    pub(crate) fn next(&mut self) -> Result<Line> {
        match self {
            Self::Interactive(editor) => editor.next(),
            Self::Script => next_of_script(&mut io::stdin().lock()),
        }
    }
}

/// A line editor with a history.
pub(crate) struct LineEditor {
    editor: Editor<EditorHelper, DefaultHistory>,
    history: Option<PathBuf>,
    /// The prompt without and with colours.
    prompt: (&'static str, &'static str),
}

impl LineEditor {
    /// Creates an editor whose history is stored in `history`, if given.
    pub(crate) fn new(history: Option<PathBuf>, colours: bool) -> Result<Self> {
        let config = Config::builder().auto_add_history(false).build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(EditorHelper));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let prompt = ("> ", if colours { "\x1b[1;36m> \x1b[0m" } else { "> " });
        let mut editor = Self { editor, history, prompt };
        editor.read_history();
        Ok(editor)
    }

    fn read_history(&mut self) {
        let Some(path) = self.history.clone() else { return };
        let mut read = || -> Result<()> {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            match self.editor.load_history(&path) {
                Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => Ok(other?),
            }
        };
        if let Err(error) = read().with_context(|| format!("{}", path.display())) {
            self.disable_history(&error);
        }
    }

    /// Continues without a history file.
    fn disable_history(&mut self, error: &anyhow::Error) {
        self.history = None;
        output::note(&format!("input history is not stored: {}", output::explain(error)));
    }

    fn next(&mut self) -> Result<Line> {
        let text = match self.editor.readline(&self.prompt) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => return Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => return Ok(Line::End),
            Err(error) => return Err(error.into()),
        };
        if !text.trim().is_empty() && self.editor.history_mut().add(&text)? {
            // Appended after each line, so that closing the terminal loses nothing.
            let appended = self.history.clone().map(|path| self.editor.append_history(&path));
            if let Some(Err(error)) = appended {
                self.disable_history(&error.into());
            }
        }
        Ok(unescape(&text))
    }
}

/// Reads the next message of a script.
fn next_of_script(input: &mut impl BufRead) -> Result<Line> {
    let mut text = String::new();
    loop {
        let mut line = Vec::new();
        let limit = MAX_MESSAGE_LEN.saturating_sub(text.len() as u64);
        // One more byte than allowed distinguishes a message that is too large.
        let read = input.by_ref().take(limit + 1).read_until(b'\n', &mut line);
        let len = read.context("reading standard input")? as u64;
        ensure!(len <= limit, "message is larger than the limit of {} MiB", MAX_MESSAGE_LEN >> 20);
        let is_end = line.is_empty();
        text += str::from_utf8(&line)
            .context("reading standard input: a message must be valid UTF-8")?;
        let message = text.strip_suffix('\n').unwrap_or(&text);
        let message = message.strip_suffix('\r').unwrap_or(message);
        if is_end && message.is_empty() {
            return Ok(Line::End);
        }
        if is_end || is_complete(message) {
            return Ok(unescape(message));
        }
    }
}

/// Returns `true` unless the message continues on the next line.
fn is_complete(text: &str) -> bool {
    match text.trim_start().strip_prefix(FENCE) {
        Some(fenced) => fenced.trim_end().ends_with(FENCE),
        None => !text.ends_with('\\'),
    }
}

/// Returns a message without fences and line continuations.
fn unescape(text: &str) -> Line {
    let Some(fenced) = text.trim_start().strip_prefix(FENCE) else {
        return Line::Text(text.replace("\\\n", "\n"));
    };
    let fenced = fenced.trim_end();
    let fenced = fenced.strip_suffix(FENCE).unwrap_or(fenced);
    let fenced = fenced.strip_prefix('\n').unwrap_or(fenced);
    Line::Fenced(fenced.strip_suffix('\n').unwrap_or(fenced).to_owned())
}

/// Completion and validation.
struct EditorHelper;

impl Validator for EditorHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for EditorHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let (start, names): (usize, Vec<String>) = match typed.strip_prefix("/set ") {
            Some(_) => ("/set ".len(), settings::names()),
            None => (0, commands::names().collect()),
        };
        let matches = |name: &String| typed.starts_with('/') && name.starts_with(&typed[start..]);
        Ok((start, names.into_iter().filter(matches).map(|name| name + " ").collect()))
    }
}

impl Highlighter for EditorHelper {}

impl Hinter for EditorHelper {
    type Hint = String;
}

impl Helper for EditorHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Vec<String> {
        let mut input = io::BufReader::new(text.as_bytes());
        let mut lines = Vec::new();
        loop {
            match next_of_script(&mut input).unwrap() {
                Line::Text(text) | Line::Fenced(text) => lines.push(text),
                _ => return lines,
            }
        }
    }

    #[test]
    fn each_line_of_a_script_is_a_message_unless_it_continues() {
        assert_eq!(script(""), [""; 0]);
        assert_eq!(script("hello\n"), ["hello"]);
        assert_eq!(script("a\r\nb"), ["a", "b"]);
        assert_eq!(script("a\\\nb\\\n\nc\n"), ["a\nb\n", "c"]);
        assert_eq!(script("\"\"\"\none\n\n two\n\"\"\"\nnext\n"), ["one\n\n two", "next"]);
        assert_eq!(script("\"\"\"in one line\"\"\"\n"), ["in one line"]);
        assert_eq!(script("\"\"\"never closed\nmore"), ["never closed\nmore"]);
        assert_eq!(script("cut short\\"), ["cut short\\"]);
    }

    #[test]
    fn fenced_text_is_not_a_command() {
        assert_eq!(unescape("/help"), Line::Text("/help".into()));
        assert_eq!(unescape("\"\"\"/help\"\"\""), Line::Fenced("/help".into()));
    }

    #[test]
    fn a_script_must_be_text_and_must_end() {
        let mut bytes = io::BufReader::new(&b"\xff\n"[..]);
        assert!(format!("{:#}", next_of_script(&mut bytes).unwrap_err()).contains("UTF-8"));
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        let message = next_of_script(&mut endless).unwrap_err().to_string();
        assert!(message.contains("16 MiB"), "{message}");
    }
}
