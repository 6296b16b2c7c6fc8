//! Printing of results, notes and errors.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::terminal;

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
        true => bytes(terminal::sanitize(text).as_bytes()),
        false => bytes(text.as_bytes()),
    }
}

pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Prints a line to standard error.
pub(crate) fn note(text: &str) {
    let shown = match io::stderr().is_terminal() {
        true => terminal::sanitize(text),
        false => text.into(),
    };
    // If standard error is closed, there is nowhere to report that.
    let _ = writeln!(io::stderr(), "{shown}");
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
