//! Text tables of measurements.
//!
//! A measurement is a row: an object with the keys of the JSON output. A table is a title, its rows
//! and a list of headers. A new quantity is a key in a row, and a line in [`COLUMNS`] if its header or
//! its format differ from the default.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use self::Format::{Auto, Either, Fixed, Megabytes, Percent, Quotient};

/// The text of a value.
#[derive(Clone, Copy)]
enum Format {
    /// About three digits for floats; everything else as it is.
    Auto,
    /// A number of decimals.
    Fixed(usize),
    /// A fraction as a percentage, with a number of decimals.
    Percent(usize),
    /// Bytes in megabytes.
    Megabytes,
    /// The first value divided by the second.
    Quotient,
    /// The texts of `true` and `false`.
    Either(&'static str, &'static str),
}

/// Headers, keys and formats. A cell has the values of all keys that its row has. A header that is not
/// listed is a key itself.
const COLUMNS: &[(&str, &str, Format)] = &[
    ("", "what", Auto),
    ("GB/s", "gb_s", Auto),
    ("GMAC/s", "gmac_s", Auto),
    ("MAC/cycle", "mac_per_cycle", Auto),
    ("MB/token", "bytes_per_token", Megabytes),
    ("NLL", "nll", Fixed(3)),
    ("USD per million", "usd_per_million", Fixed(3)),
    ("accepted", "accepted", Percent(0)),
    ("barrier µs", "barrier_us", Fixed(2)),
    ("batch tok/s", "batch_tok_s", Auto),
    ("dense ms", "dense_ms", Auto),
    ("dense tok/s", "dense_tok_s", Auto),
    ("decode tok/s", "decode_tok_s", Auto),
    ("each", "tok_s sequences", Quotient),
    ("loss", "loss", Fixed(4)),
    ("from", "in_cache", Either("cache", "memory")),
    ("kernel", "kernel shape", Auto),
    ("kernel GMAC/s", "kernel_gmac_s", Auto),
    ("memory", "stream_gb_s", Auto),
    ("memory GB/s", "stream_gb_s", Auto),
    ("ms", "ms", Fixed(2)),
    ("of peak", "share_of_peak", Percent(0)),
    ("ours tok/s", "ours_tok_s", Auto),
    ("peak GMAC/s", "peak_gmac_s", Auto),
    ("prompt tok/s", "prefill_tok_s", Auto),
    ("rows/pass", "rows_per_pass", Fixed(1)),
    ("same text", "same_replies", Either("yes", "no")),
    ("share", "share_of_stream share", Percent(0)),
    ("sparse ms", "sparse_ms", Auto),
    ("sparse tok/s", "sparse_tok_s", Auto),
    ("spread", "spread", Percent(1)),
    ("theirs tok/s", "theirs_tok_s", Auto),
    ("tok/s", "tok_s", Auto),
    ("tokens", "pass tokens", Auto),
    ("tokens/pass", "tokens_per_pass", Fixed(2)),
    ("use", "use", Percent(0)),
    ("weights/cycle", "weights_per_cycle", Auto),
    ("zeros", "sparse", Either("skipped", "read")),
    ("µs/token", "us_per_token", Auto),
    ("× dense", "ratio", Fixed(2)),
    ("× first", "speedup", Fixed(2)),
    ("× greedy", "speedup", Fixed(2)),
    ("× one row", "ratio", Fixed(2)),
];

/// Writes a table of `rows`, if there are any. `headers` are separated by `, `; the first column is
/// left-aligned, the others are right-aligned.
pub(crate) fn write(
    out: &mut impl fmt::Write,
    title: &str,
    rows: &[impl Serialize],
    headers: &str,
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let header: Vec<&str> = headers.split(", ").collect();
    let mut lines: Vec<Vec<String>> = vec![header.iter().map(|&name| name.to_owned()).collect()];
    for row in rows {
        let row = serde_json::to_value(row).map_err(|_| fmt::Error)?;
        lines.push(header.iter().map(|header| cell(&row, header)).collect());
    }
    writeln!(out, "\n{title}")?;
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..header.len()).filter_map(width).collect();
    for line in &lines {
        let (first, width) = (&line[0], widths[0]);
        let mut text = format!("  {first:<width$}");
        for (cell, &width) in line.iter().zip(&widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

fn cell(row: &Value, header: &str) -> String {
    let column = COLUMNS.iter().find(|column| column.0 == header);
    let (keys, format) = column.map_or((header, Auto), |&(_, keys, format)| (keys, format));
    let values = || keys.split(' ').filter_map(|key| row.get(key));
    if let Quotient = format {
        return values()
            .filter_map(Value::as_f64)
            .reduce(|a, b| a / b)
            .map_or_else(missing, number);
    }
    values().map(|value| format.text(value)).collect::<Vec<_>>().join(" ")
}

impl Format {
    fn text(self, value: &Value) -> String {
        match (self, value, value.as_f64().unwrap_or_default()) {
            (_, Value::Null, _) => missing(),
            (_, Value::String(text), _) => text.clone(),
            (Either(yes, no), ..) => if value == true { yes } else { no }.to_owned(),
            (Fixed(decimals), _, value) => format!("{value:.decimals$}"),
            (Percent(decimals), _, share) => format!("{:.decimals$} %", share * 100.0),
            (Megabytes, _, bytes) => number(bytes / 1e6),
            (_, _, float) if value.is_f64() => number(float),
            _ => value.to_string(),
        }
    }
}

fn missing() -> String {
    "–".to_owned()
}

/// Formats a number with about three digits.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
