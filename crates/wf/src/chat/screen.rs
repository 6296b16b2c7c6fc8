//! What a chat looks like: colours for someone who watches, plain lines for everybody else.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;

use crate::{report, terminal};

/// Where answers and notes go.
pub(crate) struct Screen {
    /// Whether someone types and watches.
    is_watched: bool,
    colours: bool,
    /// Whether the answer so far ends with a whole line.
    ended_line: bool,
}

impl Screen {
    /// Someone watches if both input and output are terminals.
    pub(crate) fn new(no_colour: bool) -> Self {
        let is_watched = io::stdin().is_terminal() && io::stdout().is_terminal();
        Self { is_watched, colours: is_watched && !no_colour, ended_line: true }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    /// A piece of an answer.
    pub(crate) fn answer(&mut self, text: &str) -> Result<()> {
        report::stream(text)?;
        self.ended_line = text.chars().next_back().map_or(self.ended_line, |c| c == '\n');
        Ok(())
    }

    /// The answer has no more pieces.
    pub(crate) fn end_answer(&mut self) -> Result<()> {
        if !self.ended_line {
            report::stream("\n")?;
            self.ended_line = true;
        }
        if self.is_watched { report::stream("\n") } else { Ok(()) }
    }

    /// What was asked for by a command.
    pub(crate) fn show(&self, text: &str) -> Result<()> {
        report::stream(text)
    }

    /// What nobody asked for, but someone who watches wants to know.
    pub(crate) fn note(&self, text: &str) -> Result<()> {
        if self.is_watched { self.line("\x1b[2m", text) } else { Ok(()) }
    }

    /// What went wrong, if someone is there to try again.
    pub(crate) fn error(&self, text: &str) -> Result<()> {
        self.line("\x1b[31m", text)
    }

    fn line(&self, colour: &str, text: &str) -> Result<()> {
        let text = terminal::harmless(text);
        let mut out = io::stdout().lock();
        match self.colours {
            true => writeln!(out, "{colour}{text}\x1b[0m")?,
            false => writeln!(out, "{text}")?,
        }
        Ok(out.flush()?)
    }
}
