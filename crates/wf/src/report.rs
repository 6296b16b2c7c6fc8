//! Printing: one place that knows about pipes that close and tables that align.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use serde::Serialize;

use crate::terminal;

/// Prints `value` as one JSON object on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints `text` at once, without waiting for the end of the line. A terminal gets nothing it would
/// obey: text may come from a model or a file.
pub(crate) fn stream(text: &str) -> Result<()> {
    match io::stdout().is_terminal() {
        true => bytes(terminal::harmless(text).as_bytes()),
        false => bytes(text.as_bytes()),
    }
}

/// Prints `bytes` as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Tells the user something that is not the result.
pub(crate) fn note(text: &str) {
    let shown = match io::stderr().is_terminal() {
        true => terminal::harmless(text),
        false => text.into(),
    };
    // Where the user does not listen there is nobody to tell that.
    let _ = writeln!(io::stderr(), "{shown}");
}

/// Prints labels in one column and what they label in the next.
pub(crate) fn table(rows: &[(&str, String)]) -> Result<()> {
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(label, text)| format!("{label:width$}  {text}\n"));
    stream(&lines.collect::<String>())
}

/// A call that cannot be meant: exit code 2, as for every mistake of form.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// An error and what caused it. Many messages quote their cause: nothing is said twice.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| match cause.to_string() {
        cause if said.is_empty() => cause,
        cause if said.contains(&cause) => said,
        cause => format!("{said}: {cause}"),
    })
}

/// Whether the reader of our output closed it.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(broken)
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|e| e.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
    })
}

/// A count for people: `1 token`, `2 tokens`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A size for people: `18.3 MB`.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
