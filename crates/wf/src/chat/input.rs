//! Where messages come from: someone who types, or a script.

use std::borrow::Cow;
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
use crate::report;

/// The most bytes of a message. A device that never ends must not take all memory.
const MAX_MESSAGE_LEN: u64 = 16 << 20;

/// Stands before and after text that has several lines.
const FENCE: &str = "\"\"\"";

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A message or a command.
    Text(String),
    /// A message, whatever it begins with: it stood between fences.
    Fenced(String),
    /// Ctrl-C.
    Interrupted,
    /// There is no more.
    End,
}

/// Where messages come from.
pub(crate) enum Input {
    Typed(Box<Typed>),
    Script,
}

impl Input {
    pub(crate) fn next(&mut self) -> Result<Line> {
        match self {
            Self::Typed(typed) => typed.next(),
            Self::Script => next_of_script(&mut io::stdin().lock()),
        }
    }
}

/// Someone who types, and the lines they typed before.
pub(crate) struct Typed {
    editor: Editor<Keys, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Typed {
    /// Lines are kept in `history`, if there is such a file.
    pub(crate) fn new(history: Option<PathBuf>, colours: bool) -> Result<Self> {
        let config = Config::builder().auto_add_history(false).build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Keys { colours }));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let mut typed = Self { editor, history };
        typed.read_history();
        Ok(typed)
    }

    fn read_history(&mut self) {
        let Some(path) = self.history.clone() else { return };
        let mut read = || -> Result<()> {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            match self.editor.load_history(&path) {
                Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => Ok(other?),
            }
        };
        if let Err(error) = read().with_context(|| format!("{}", path.display())) {
            self.give_up_history(&error);
        }
    }

    /// A chat is worth more than its history.
    fn give_up_history(&mut self, error: &anyhow::Error) {
        self.history = None;
        report::note(&format!("the history is not kept: {}", report::explain(error)));
    }

    fn next(&mut self) -> Result<Line> {
        let text = match self.editor.readline("> ") {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => return Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => return Ok(Line::End),
            Err(error) => return Err(error.into()),
        };
        if !text.trim().is_empty() && self.editor.history_mut().add(&text)? {
            // After each line: a terminal that is closed takes nothing with it.
            let appended = self.history.clone().map(|path| self.editor.append_history(&path));
            if let Some(Err(error)) = appended {
                self.give_up_history(&error.into());
            }
        }
        Ok(joined(&text))
    }
}

/// The next message of a script.
fn next_of_script(input: &mut impl BufRead) -> Result<Line> {
    let mut text = String::new();
    loop {
        let mut line = Vec::new();
        let room = MAX_MESSAGE_LEN.saturating_sub(text.len() as u64);
        // One byte more than allowed tells what is too long from what just fits.
        let read = input.by_ref().take(room + 1).read_until(b'\n', &mut line);
        let len = read.context("reading standard input")? as u64;
        ensure!(
            len <= room,
            "a message is longer than {} MiB, the most allowed",
            MAX_MESSAGE_LEN >> 20
        );
        let is_end = line.is_empty();
        text += str::from_utf8(&line).context("reading standard input: a message must be UTF-8")?;
        let whole = text.strip_suffix('\n').unwrap_or(&text);
        let whole = whole.strip_suffix('\r').unwrap_or(whole);
        if is_end && whole.is_empty() {
            return Ok(Line::End);
        }
        if is_end || is_whole(whole) {
            return Ok(joined(whole));
        }
    }
}

/// Whether nothing more belongs to a message.
fn is_whole(text: &str) -> bool {
    match text.trim_start().strip_prefix(FENCE) {
        Some(fenced) => fenced.trim_end().ends_with(FENCE),
        None => !text.ends_with('\\'),
    }
}

/// A message as it is meant: without fences, and without the signs that it goes on.
fn joined(text: &str) -> Line {
    let Some(fenced) = text.trim_start().strip_prefix(FENCE) else {
        return Line::Text(text.replace("\\\n", "\n"));
    };
    let fenced = fenced.trim_end();
    let fenced = fenced.strip_suffix(FENCE).unwrap_or(fenced);
    let fenced = fenced.strip_prefix('\n').unwrap_or(fenced);
    Line::Fenced(fenced.strip_suffix('\n').unwrap_or(fenced).to_owned())
}

/// What keys do beside typing.
struct Keys {
    colours: bool,
}

impl Validator for Keys {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_whole(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for Keys {
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
        let begins = |name: &String| typed.starts_with('/') && name.starts_with(&typed[start..]);
        Ok((start, names.into_iter().filter(begins).map(|name| name + " ").collect()))
    }
}

impl Highlighter for Keys {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        match self.colours {
            true => Cow::Owned(format!("\x1b[1;36m{prompt}\x1b[0m")),
            false => Cow::Borrowed(prompt),
        }
    }
}

impl Hinter for Keys {
    type Hint = String;
}

impl Helper for Keys {}

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
    fn each_line_of_a_script_is_a_message_unless_it_goes_on() {
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
    fn what_is_fenced_is_no_command() {
        assert_eq!(joined("/help"), Line::Text("/help".into()));
        assert_eq!(joined("\"\"\"/help\"\"\""), Line::Fenced("/help".into()));
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
