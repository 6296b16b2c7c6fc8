//! Behaviour of Jinja2 where `minijinja` differs: chat templates are written for Python.
//!
//! Values print as in Python, white space is what Python strips, and no filter builds a string whose length is
//! given by a number.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, FormatStyle, Output, State, Value, format_filter};
use minijinja_contrib::pycompat;

use super::words::{capitalize, strip, strip_end, strip_start, title, title_method};
use super::{MAX_PRINT_DEPTH, MAX_WIDTH, deeper};

pub(super) fn install(environment: &mut Environment<'_>) {
    environment.set_unknown_method_callback(call_method);
    environment.set_formatter(print);
    environment.remove_global("debug");
    // No template needs these, and `[1] | batch(10 ** 12)` allocates all memory.
    environment.remove_filter("batch");
    environment.remove_filter("slice");
    environment.add_filter("string", |value: &Value| to_str(value));
    environment.add_filter("format", |format: &str, args: Rest<Value>| {
        checked_format(FormatStyle::Printf, format, &args)
    });
    environment.add_filter("indent", indent);
    environment.add_filter("capitalize", capitalize);
    environment.add_filter("title", title);
    environment.add_filter("trim", |text: &str, chars: Option<&str>| strip(text, chars).to_owned());
    // In Python, strings and mappings have a length and items, and `True` is a number.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
    });
    environment.add_test("number", |value: &Value| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
    });
}

/// `{{ value }}`
fn print(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let printed = match value.as_str() {
        Some(text) => out.write_str(text),
        None => out.write_str(&to_str(value)?),
    };
    printed.map_err(Error::from)
}

/// Calls a method of a built-in Python type.
fn call_method(
    state: &State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(result) = call_str_method(text, method, args)
    {
        return result;
    }
    pycompat::unknown_method_callback(state, value, method, args)
}

/// Calls a method of `str` that `pycompat` lacks or implements differently.
fn call_str_method(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let argument = args.first().and_then(Value::as_str);
    let result = match (method, args) {
        ("strip", [] | [_]) => strip(text, argument),
        ("lstrip", [] | [_]) => strip_start(text, argument),
        ("rstrip", [] | [_]) => strip_end(text, argument),
        ("removeprefix", [_]) => text.strip_prefix(argument?).unwrap_or(text),
        ("removesuffix", [_]) => text.strip_suffix(argument?).unwrap_or(text),
        ("capitalize", []) => return Some(Ok(capitalize(text).into())),
        ("title", []) => return Some(Ok(title_method(text).into())),
        ("format", _) => {
            return Some(checked_format(FormatStyle::StrFormat, text, args).map(Value::from));
        }
        _ => return None,
    };
    Some(Ok(result.into()))
}

/// Implements `'%s' | format(…)` and `'{}'.format(…)`, except for large widths and widths outside of the format.
fn checked_format(style: FormatStyle, format: &str, args: &[Value]) -> Result<String, Error> {
    let widest = format.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    if widest > 3 || format.contains('*') || format.contains(":{") {
        let what = format!("format {format:?}: widths must be numbers up to {MAX_WIDTH}");
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    format_filter(style, format, args)
}

/// Implements the `indent` filter: spaces before every line but the first.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine hands filter arguments over by value"
)]
fn indent(
    text: &str,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = width.or(options.get("width")?).unwrap_or(4);
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let spaces = " ".repeat(width.min(MAX_WIDTH));
    let mut out = String::new();
    for (at, line) in text.split('\n').enumerate() {
        out.push_str(if at > 0 { "\n" } else { "" });
        if if at == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&spaces);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// `str(value)`
fn to_str(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(text) => out.push_str(text),
        None if value.is_undefined() => {}
        None => write_repr(value, MAX_PRINT_DEPTH, &mut out)?,
    }
    Ok(out)
}

/// `repr(value)`
fn write_repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    let depth = deeper(depth)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (at, item) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_repr(&item, depth, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (at, key) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_repr(&key, depth, out)?;
                out.push_str(": ");
                write_repr(&value.get_item(&key)?, depth, out)?;
            }
            out.push('}');
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

/// Quotes a string as `repr` does: in single quotes unless that would need escapes.
fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}
