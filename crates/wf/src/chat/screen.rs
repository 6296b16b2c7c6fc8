//! Output of a chat: colours on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;

use crate::output;

pub(crate) struct Screen {
    /// True if input and output are terminals.
    is_interactive: bool,
    colours: bool,
    /// True if the response so far ends with a line break.
    ended_line: bool,
    /// True after thinking, before the text.
    is_thinking: bool,
}

impl Screen {
    pub(crate) fn new(no_colour: bool) -> Self {
        let is_interactive = io::stdin().is_terminal() && io::stdout().is_terminal();
        let colours = is_interactive && !no_colour;
        Self { is_interactive, colours, ended_line: true, is_thinking: false }
    }

    pub(crate) fn is_interactive(&self) -> bool {
        self.is_interactive
    }

    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    /// Prints thinking, in an interactive chat only.
    pub(crate) fn reasoning(&mut self, text: &str) -> Result<()> {
        if !self.is_interactive {
            return Ok(());
        }
        let text = output::sanitize(text);
        self.is_thinking = true;
        match self.colours {
            true => output::bytes(format!("\x1b[2m{text}\x1b[0m").as_bytes()),
            false => output::bytes(text.as_bytes()),
        }
    }

    pub(crate) fn response(&mut self, text: &str) -> Result<()> {
        self.end_reasoning()?;
        output::stream(text)?;
        self.ended_line = text.chars().next_back().map_or(self.ended_line, |c| c == '\n');
        Ok(())
    }

    /// Separates the text from the thinking before it.
    fn end_reasoning(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_thinking) { output::stream("\n\n") } else { Ok(()) }
    }

    pub(crate) fn end_response(&mut self) -> Result<()> {
        self.end_reasoning()?;
        if !self.ended_line {
            output::stream("\n")?;
            self.ended_line = true;
        }
        if self.is_interactive { output::stream("\n") } else { Ok(()) }
    }

    pub(crate) fn show(&self, text: &str) -> Result<()> {
        output::stream(text)
    }

    /// Prints a note, in an interactive chat only.
    pub(crate) fn note(&self, text: &str) -> Result<()> {
        if self.is_interactive { self.line("\x1b[2m", text) } else { Ok(()) }
    }

    /// Asks a question in an interactive chat and returns the answer.
    pub(crate) fn ask(&self, question: &str) -> Result<String> {
        output::stream(&output::sanitize(question))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(answer)
    }

    /// Prints an error in an interactive chat.
    pub(crate) fn error(&self, text: &str) -> Result<()> {
        self.line("\x1b[31m", text)
    }

    fn line(&self, colour: &str, text: &str) -> Result<()> {
        let text = output::sanitize(text);
        let mut out = io::stdout().lock();
        match self.colours {
            true => writeln!(out, "{colour}{text}\x1b[0m")?,
            false => writeln!(out, "{text}")?,
        }
        Ok(out.flush()?)
    }
}
