//! Printing: one place that knows about pipes that close and tables that align.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

/// Prints `value` as one JSON object on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints `text` at once, without waiting for the end of the line.
pub(crate) fn stream(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints labels in one column and what they label in the next.
pub(crate) fn table(rows: &[(&str, String)]) -> Result<()> {
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let mut out = io::stdout().lock();
    for (label, text) in rows {
        writeln!(out, "{label:width$}  {text}")?;
    }
    Ok(out.flush()?)
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

/// A size for people: `18.3 MB`.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
