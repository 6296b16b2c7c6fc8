//! Printing of results, notes and errors.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context, Result};
use serde::Serialize;

/// Prints a report as JSON or as text.
pub(crate) fn report(report: &(impl Serialize + fmt::Display), as_json: bool) -> Result<()> {
    if as_json { json(report) } else { stream(&report.to_string()) }
}

/// Prints `value` as JSON on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints `text` and flushes. Control characters are made visible on a terminal, because text may
/// come from a model or a file.
pub(crate) fn stream(text: &str) -> Result<()> {
    match io::stdout().is_terminal() {
        true => bytes(sanitize(text).as_bytes()),
        false => bytes(text.as_bytes()),
    }
}

pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Writes a file that an option names.
pub(crate) fn write_file(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, contents).with_context(|| format!("writing {}", path.display()))
}

/// Writes a file completely or not at all: under a temporary name, which is renamed once it is on disk.
pub(crate) fn write_atomically(path: &Path, contents: &str) -> Result<()> {
    let mut part = path.file_name().context("a file name is required")?.to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(part);
    let write = |mut file: fs::File| {
        file.write_all(contents.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    let written = fs::File::create_new(&part).and_then(|file| {
        // An error above matters more than a leftover file.
        write(file).inspect_err(|_| drop(fs::remove_file(&part)))
    });
    written.with_context(|| format!("writing {}", path.display()))
}

/// Returns `text` with all control characters except line feeds and tabs made visible. Carriage
/// returns, which could overwrite earlier text, are removed.
///
/// Escape sequences can move the cursor, rename the window or fake typed input. Text from a model, a
/// file or a server must not be able to do that.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().filter(|&c| c != '\r').map(|c| match c {
        c if is_plain(c) => c,
        // Unicode has symbols for the first 32, in order, and for DEL.
        '\0'..='\x1f' => {
            char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\x7f' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    });
    Cow::Owned(visible.collect())
}

/// Prints a line to standard error.
pub(crate) fn note(text: &str) {
    note_part(&format!("{text}\n"));
}

/// Prints part of a note.
pub(crate) fn note_part(text: &str) {
    let shown = match io::stderr().is_terminal() {
        true => sanitize(text),
        false => text.into(),
    };
    // If standard error is closed, there is nowhere to report that.
    let _ = write!(io::stderr(), "{shown}");
}

/// Prints labels in one column and their texts in the next.
pub(crate) fn table(rows: &[(&str, String)]) -> Result<()> {
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(label, text)| format!("{label:width$}  {text}\n"));
    stream(&lines.collect::<String>())
}

/// An error in the arguments. The exit code is 2, as for those that clap finds.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Returns the first line of an error about arguments that do not come from the command line.
pub(crate) fn first_line(error: &clap::Error) -> String {
    let message = error.to_string();
    let first = message.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

/// Returns the message of an error and its causes, without those that are part of a message already.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |message, cause| match cause.to_string() {
        cause if message.is_empty() => cause,
        cause if message.contains(&cause) => message,
        cause => format!("{message}: {cause}"),
    })
}

/// Returns `true` if the reader of standard output closed it.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(broken)
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|e| e.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
    })
}

/// Returns a count with its noun: `1 token`, `2 tokens`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns tokens per second, or 0 for no time.
pub(crate) fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

/// Returns a size such as `18.3 MB`.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_characters_are_left() {
        assert_eq!(sanitize("plain,\n\ttext: é 😀 \u{200d}"), "plain,\n\ttext: é 😀 \u{200d}");
        assert_eq!(sanitize("\x1b]0;mine\x07\x1b[2J"), "␛]0;mine␇␛[2J");
        assert_eq!(sanitize("yes\rno\r\n"), "yesno\n");
        assert_eq!(sanitize("\u{9b}2J\x7f\0"), "\u{fffd}2J␡␀");
        let every: String = (0..=0x10ffff).filter_map(char::from_u32).collect();
        let left = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        assert!(!sanitize(&every).chars().any(left));
    }
}
